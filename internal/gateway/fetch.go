package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"spillway/internal/breaker"
	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/provider"
)

// Fetcher reads the images and files that a request names by address, for candidates whose provider does not.
//
// Fetch must connect to hosts of the public internet alone, must send nothing of the caller's or of ours, and must bound what
// it reads in size, time and kind. The text of its error must be fit for the caller: nothing of the address may be in it. It
// must be safe for concurrent use.
type Fetcher interface {
	Fetch(ctx context.Context, kind chat.PartKind, address string) (provider.Content, error)
}

const (
	// maxFetches is how many addresses of one request are read, maxAtOnce how many at a time.
	maxFetches = 10
	maxAtOnce  = 4
	// maxFetched bounds what is read for one request, in bytes of base64: a call's body holds all of it, and an environment has
	// little memory.
	maxFetched = 24 << 20
)

// unfetched says that a candidate's provider reads no addresses, and that the gateway could not read one for it.
const unfetched breaker.Reason = "unfetched"

// Why the gateway reads no more.
var (
	errTooMany = errors.New("the request names more than 10 addresses")
	errTooMuch = errors.New("the request names more than 18 MB in all")
	errNobody  = errors.New("this gateway fetches nothing")
)

// remote is content that a request names by address.
type remote struct {
	kind           chat.PartKind
	param, address string
}

// fetched is what became of the addresses that were read for a request: each is read once, whoever needs it.
type fetched struct {
	contents map[string]provider.Content
	refused  map[string]error
	size     int
}

// fetchFor reads what a candidate's provider would not read by itself. ready is false when the candidate cannot be called:
// without a failure it is passed over, with one the request has ended.
func (g *Gateway) fetchFor(ctx context.Context, j *journey, cand *candidate) (ended *fault.Failure, ready bool) {
	wanted := j.wanted(cand.Channel)
	if len(wanted) == 0 {
		return nil, true
	}
	ctx, cancel := context.WithDeadlineCause(ctx, j.soft, fault.OutOfTime)
	defer cancel()
	j.fetched.read(ctx, g.Fetcher, wanted)
	if ctx.Err() != nil {
		o := fault.Observation{Local: fault.Left, Phase: fault.PhaseConnect}
		_ = errors.As(context.Cause(ctx), &o.Local)
		ended = g.Policy.Classify(o)
		j.lastCand = cand
		g.remember(j, cand, ended)
		return ended, false
	}
	for _, r := range wanted {
		if why := j.fetched.refused[r.address]; why != nil {
			j.unfit = g.Policy.Classify(fault.Observation{Local: fault.Refused, Phase: fault.PhaseConnect, Param: r.param, Cause: &notFetched{why}})
			j.passOver(cand, breaker.View{Reason: unfetched})
			return nil, false
		}
	}
	return nil, true
}

// inline reads the images that a provider could not read at their addresses, for one more call that holds them. It reports
// whether that call is another one than the call that failed.
func (g *Gateway) inline(ctx context.Context, j *journey, f *fault.Failure) bool {
	if g.Fetcher == nil || !f.Unread() {
		return false
	}
	images := slices.DeleteFunc(j.named(), func(r remote) bool { return r.kind != chat.ImagePart || j.fetched.has(r) })
	if len(images) == 0 {
		return false
	}
	ctx, cancel := context.WithDeadlineCause(ctx, j.soft, fault.OutOfTime)
	defer cancel()
	j.fetched.read(ctx, g.Fetcher, images)
	return !slices.ContainsFunc(images, func(r remote) bool { return !j.fetched.has(r) })
}

// notFetched is why a request's content is not there. Its text is fit for the caller.
type notFetched struct{ why error }

func (e *notFetched) Error() string {
	return "the gateway cannot fetch it for this model: " + e.why.Error()
}

// wanted are the addresses in a request that a channel's provider does not read: none, for most.
func (j *journey) wanted(ch *catalog.Channel) []remote {
	return slices.DeleteFunc(j.named(), func(r remote) bool { return j.reads(ch, r.kind, r.address) })
}

// named are the addresses in a request.
func (j *journey) named() (all []remote) {
	for m := range j.req.Messages {
		for i := range j.req.Messages[m].Parts {
			p := &j.req.Messages[m].Parts[i]
			if member, address := p.Remote(); address != "" {
				all = append(all, remote{p.Kind, fmt.Sprintf("messages[%d].content[%d].%s", m, i, member), address})
			}
		}
	}
	return all
}

// reads reports whether a channel's provider reads what stands at an address.
func (j *journey) reads(ch *catalog.Channel, kind chat.PartKind, address string) bool {
	feature := catalog.RemoteImages
	if kind == chat.FilePart {
		feature = catalog.RemoteFiles
	}
	scheme, _, _ := strings.Cut(address, ":")
	lacks := func(f catalog.Feature) bool { return ch.Capabilities.LacksFor(j.req, f) }
	return !lacks(feature) && (strings.EqualFold(scheme, "https") || !lacks(catalog.PlainHTTP))
}

// read reads the addresses that have not been read yet, until one of them is refused.
func (f *fetched) read(ctx context.Context, by Fetcher, wanted []remote) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		mu   sync.Mutex
		wait sync.WaitGroup
	)
	slots := make(chan struct{}, maxAtOnce)
	for _, r := range f.missing(by, wanted) {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wait.Go(func() {
			defer func() { <-slots }()
			content, err := by.Fetch(ctx, r.kind, r.address)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil && !f.keep(r.address, content, err) {
				stop()
			}
		})
	}
	wait.Wait()
}

// has reports whether the content of an address is there.
func (f *fetched) has(r remote) bool {
	_, there := f.contents[r.address]
	return there
}

// missing are the addresses to be read; none where one is refused already, or where they are too many.
func (f *fetched) missing(by Fetcher, wanted []remote) (todo []remote) {
	if f.contents == nil {
		f.contents, f.refused = map[string]provider.Content{}, map[string]error{}
	}
	seen := map[string]bool{}
	for _, r := range wanted {
		switch {
		case f.has(r) || seen[r.address]:
			continue
		case by == nil:
			f.refused[r.address] = errNobody
		case len(f.contents)+len(todo) == maxFetches:
			f.refused[r.address] = errTooMany
		}
		if f.refused[r.address] != nil {
			return nil
		}
		seen[r.address] = true
		todo = append(todo, r)
	}
	return todo
}

// keep notes what became of an address. It reports whether its content is there.
func (f *fetched) keep(address string, c provider.Content, err error) bool {
	if f.size += len(c.Base64); err == nil && f.size > maxFetched {
		err = errTooMuch
	}
	if err != nil {
		f.refused[address] = err
		return false
	}
	f.contents[address] = c
	return true
}
