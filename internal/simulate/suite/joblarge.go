package suite

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"spillway/internal/media"
	"spillway/internal/runtimeapi"
)

// mostMemory is what a poller may ever have held while it copied a work that is half as large.
const mostMemory = 128 << 20

// large is a work of 60 MB.
var large = Row{
	Name: "60 MB", Fault: "a work of 60 MB is copied and served",
	Stage: Stage{Limits: Overrides{"deadline_ms": 120_000, "lease_ms": 60_000}}, // also on a slow machine
	Alone: true,                                                                 // it moves half a gigabyte as fast as it can
	Job:   sixtyMegabytes, Lasts: 15 * time.Second, Recorded: jobPass,
}

func sixtyMegabytes(ctx context.Context, s *studio, f *Findings) []life {
	orders := []order{s.ordered(video+"-big", "big-veo"), s.ordered(videoFal+"-big", "big-fal"), s.ordered(song+"-big", "big-music")}
	for i := range orders {
		orders[i].took(s.post(ctx, orders[i]), false, f)
	}
	s.settled(ctx, 90*time.Second, f)
	poller := peak(s.poller, f)
	all := s.succeeded(ctx, orders, f) // through the link
	for i, l := range all {
		if l.end() == media.Succeeded {
			s.checkStreamed(ctx, orders[i], f)
		}
	}
	gateway := peak(s.gateway, f)
	if poller >= mostMemory {
		f.addf("the poller has held %s at a time, want less than %s", megabytes(poller), megabytes(mostMemory))
	}
	s.notef("most memory held at a time: poller %s, gateway %s", megabytes(poller), megabytes(gateway))
	return all
}

// peak is the most memory that one of a function's processes has ever held, in bytes.
func peak(front *runtimeapi.Front, f *Findings) (most int64) {
	all := front.Environments()
	if len(all) == 0 {
		f.addf("there is no process whose memory could be looked at")
	}
	for _, e := range all {
		n, err := e.PeakRSS()
		if err != nil {
			f.addf("%v", err)
		}
		most = max(most, n)
	}
	return most
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }

// checkStreamed: the gateway passes the work on by itself when it is asked to.
func (s *studio) checkStreamed(ctx context.Context, o order, f *Findings) {
	want, got := s.look(ctx, o.id).job().Result, s.streamed(ctx, o.id)
	if got.Err != nil || got.Status != http.StatusOK || want == nil || got.SHA256 != want.SHA256 {
		f.addf("%s: the streamed work is not the one that was made: status %d, %d bytes, error %v", o.key, got.Status, got.Size, got.Err)
	}
}
