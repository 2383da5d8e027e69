package jobs

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"spillway/internal/media"
	"spillway/internal/usage"
)

// priced says of an event that ends a job what the job cost. The cost is written with the end, in one write, and comes from the
// order and the table alone, so that it is the same whoever writes it.
func (e *Engine) priced(j media.Job, event media.Event) media.Event {
	switch end := event.(type) {
	case media.Done:
		end.Cost = e.costOfWork(j)
		return end
	case media.Ended:
		if end.Error.Code == media.ContentFilter && end.Cost == (media.Cost{}) {
			end.Cost = e.costOfRefusal(j)
		}
		return end
	default:
		return event
	}
}

// costOfWork is what a work costs that was made as it was asked for.
func (e *Engine) costOfWork(j media.Job) media.Cost {
	ch := e.Catalog.ByName(j.Channel)
	order, wrong := media.ReadOrder(j.Kind, j.Request)
	if ch == nil || wrong != nil {
		return e.cost(usage.Charge{})
	}
	w := usage.Work{Kind: string(j.Kind), Length: time.Duration(math.Round(order.Seconds*1000)) * time.Millisecond, Resolution: order.Resolution()}
	if order.Width != 0 {
		w.Resolution = cmp.Or(w.Resolution, fmt.Sprintf("%dx%d", order.Width, order.Height))
	}
	return e.cost(e.Prices.Charge(ch.Provider.Prices, string(ch.Model), w))
}

// costOfRefusal is what a work costs that the provider's moderation refused.
func (e *Engine) costOfRefusal(j media.Job) media.Cost {
	ch := e.Catalog.ByName(j.Channel)
	if ch == nil {
		return e.cost(usage.Charge{})
	}
	return e.cost(e.Prices.Blocked(ch.Provider.Prices))
}

func (e *Engine) cost(c usage.Charge) media.Cost {
	cost := media.Cost{Known: c.Known(), Nano: int64(c.Cost), Version: e.Prices.Version()}
	if cost.Known {
		cost.Basis = string(c.Basis)
	}
	return cost
}
