package suite

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"spillway/internal/media"
)

// sluiceKey is the environment variable in which the functions find the address of the sluice.
const sluiceKey = "SUITE_SLUICE_URL"

// A sluice stands before the simulated provider: it answers 503 while it is shut, and lets everything through while it is open. It is
// the first channel of sim-video, and the only one of sim-video-fal.
type sluice struct {
	url    string
	server *http.Server

	mu     sync.Mutex
	shut   bool
	orders map[string]int // that it has turned away, by the model's name
}

// openSluice starts a sluice, which is shut.
func openSluice(simulator string) (*sluice, error) {
	behind, err := url.Parse(simulator)
	if err != nil {
		return nil, fmt.Errorf("parsing the simulator's address: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the sluice: %w", err)
	}
	g := &sluice{url: "http://" + l.Addr().String() + "/v1", shut: true, orders: map[string]int{}}
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.Out.Host = r.In.Host // a provider gives works out at its own address
	}}
	g.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.turnsAway(r) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"code":503,"message":"The service is currently unavailable.","status":"UNAVAILABLE"}}`)
			return
		}
		through.ServeHTTP(w, r)
	})}
	go func() { _ = g.server.Serve(l) }() // ends with the server
	return g, nil
}

func (g *sluice) turnsAway(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut && r.Method == http.MethodPost {
		model := video
		if strings.Contains(r.URL.Path, videoFal) {
			model = videoFal
		}
		g.orders[model]++
	}
	return g.shut
}

// open ends the outage.
func (g *sluice) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

// turnedAway is how many orders of a model it has turned away.
func (g *sluice) turnedAway(model string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.orders[model]
}

// sluiced is F15 for media: an order that is answered with a 503 is lost, since nobody knows whether it was taken, so that what counts is
// how few of them there are.
var sluiced = Row{
	Name: "F15 media", Fault: "the first provider of videos is down for 15 s: with another one behind it, and with none",
	Stage: Stage{Sluice: true, Takes: time.Second, Limits: Overrides{"deadline_ms": 60_000}},
	Job:   throughAnOutage, Lasts: 75 * time.Second, Recorded: jobPass,
}

const (
	// outageLasts is how long the sluice is shut, and reopens when a circuit that has opened in it lets a probe through, at the latest:
	// 30 s ± 10 %, and what orders are apart.
	outageLasts = 15 * time.Second
	reopens     = 36 * time.Second
	// mostLost is how many orders of a model an outage may take: three open its circuit, and of those beside them one more.
	mostLost = 4
)

func throughAnOutage(ctx context.Context, s *studio, f *Findings) []life {
	began := time.Now()
	o := &placed{studio: s, f: f}
	lostVideo := o.untilPassedOver(ctx, video, media.Running)
	lostFal := o.untilPassedOver(ctx, videoFal, media.Queued)
	for range 6 {
		o.expect(ctx, video, "sim-veo", media.Running)
		o.expect(ctx, videoFal, "", media.Queued)
		pause(ctx, 500*time.Millisecond)
	}
	f.equal("orders of "+video+" that the provider has turned away", lostVideo, s.sluice.turnedAway(video))
	f.equal("orders of "+videoFal+" that the provider has turned away", lostFal, s.sluice.turnedAway(videoFal))
	pause(ctx, time.Until(began.Add(outageLasts)))
	s.sluice.open()

	for o.place(ctx, video).channel == "sim-veo/"+video && time.Since(began) < reopens && ctx.Err() == nil {
		pause(ctx, time.Second)
	}
	back := time.Since(began)
	for range 4 { // the second probe, and after it everybody
		o.expect(ctx, video, "sluice-veo", media.Running)
	}
	s.settled(ctx, 70*time.Second, f)
	all := s.lives(o.orders)
	s.checkAll(all, f)
	for i, l := range all {
		want := media.Succeeded
		if slices.Contains(o.lost, o.orders[i].key) {
			want = media.Expired
		}
		f.equal(l.name+": its end", want, l.end())
		if want == media.Succeeded {
			f.equal(l.name+": submits", 1, l.submits)
			s.checkWork(ctx, o.orders[i], f)
		}
	}
	s.checkDeadLetters(ctx, f)
	s.notef("lost: %d orders with another channel behind, %d with none; the first channel was used again %s after the outage began", lostVideo, lostFal, back.Round(time.Second))
	return all
}

// placed are the orders of a row, one after the other.
type placed struct {
	*studio
	f      *Findings
	orders []order
	lost   []string // keys of those that the provider answered with a 503
}

// taken is what has become of an order when it is answered: its state, and the channel that has it; empty: none.
type taken struct {
	state   media.State
	channel string
}

// place places one more order.
func (p *placed) place(ctx context.Context, model string) taken {
	o := p.ordered(model, fmt.Sprintf("outage-%s-%02d", model, len(p.orders)))
	a := p.post(ctx, o)
	o.took(a, false, p.f)
	p.orders = append(p.orders, o)
	items, err := p.state.Items(p.state.Names.Jobs)
	if err != nil {
		p.f.addf("reading the jobs: %v", err)
	}
	for _, item := range items {
		if item["job"] == o.id {
			return taken{media.State(item["status"]), item["channel"]}
		}
	}
	return taken{}
}

// expect places an order that a channel must have taken, or none.
func (p *placed) expect(ctx context.Context, model, provider string, state media.State) {
	got, want := p.place(ctx, model), taken{state: state}
	if provider != "" {
		want.channel = provider + "/" + model
	}
	if state == media.Running && got.state == media.Succeeded {
		got.state = state // it was quick
	}
	key := p.orders[len(p.orders)-1].key
	p.f.equal(key+": who has it", want, got)
	if state != media.Queued {
		return
	}
	v := p.look(ctx, p.orders[len(p.orders)-1].id).job()
	if v.Status == media.Queued && !strings.HasPrefix(v.Message, "no provider has taken the job yet (every provider of the model is failing") {
		p.f.addf("%s: why it waits is said to be %q", key, v.Message)
	}
}

// untilPassedOver places orders until one is not sent to the provider that is down, and returns how many were.
func (p *placed) untilPassedOver(ctx context.Context, model string, then media.State) (lost int) {
	for ctx.Err() == nil {
		got := p.place(ctx, model)
		if got.state != media.Uncertain {
			if got.state != then {
				p.f.addf("the first order of %s that was passed over is %s", model, got.state)
			}
			break
		}
		p.lost = append(p.lost, p.orders[len(p.orders)-1].key)
		if lost++; lost > mostLost {
			p.f.addf("%d orders of %s were lost, and the circuit is still closed", lost, model)
			break
		}
		pause(ctx, 300*time.Millisecond)
	}
	return lost
}
