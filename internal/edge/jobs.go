package edge

import (
	"cmp"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/gateway"
	"spillway/internal/media"
)

// videos and music are the orders of media jobs; what a client sees of a job is OpenAI's video under /v1/videos, and our own
// job everywhere else.
func (h *handler) videos(x *exchange) { h.begin(x, media.Video) }
func (h *handler) music(x *exchange)  { h.begin(x, media.Music) }

// begin makes a job, or finds the one of its Idempotency-Key. 202 says that the job is there, and not how it is: one that every
// provider has refused is answered so too, as failed, the first time and each time after.
func (h *handler) begin(x *exchange, kind media.Kind) {
	j, replayed, err := h.Gateway.BeginJob(x.r.Context(), x.call(), func() (gateway.Asked, *fault.Error) { return x.readOrder(kind) })
	if err != nil {
		h.refuse(x, err)
		return
	}
	header := x.w.Header()
	header.Set("Location", "/v1/jobs/"+j.ID)
	if replayed {
		header.Set("Idempotent-Replayed", "true")
	}
	if !j.State.Terminal() {
		header.Set("Retry-After", strconv.Itoa(int(lookAgain.Seconds())))
	}
	h.show(x, http.StatusAccepted, kind, j)
}

// lookAgain is when it is worth looking at a new job: nothing is made sooner.
const lookAgain = 5 * time.Second

func (h *handler) refuse(x *exchange, err *fault.Error) {
	x.Refuse(gateway.Head{PolicyVersion: h.PolicyVersion}, err)
}

// show answers with a job as it is seen under the path of a kind. The headers say how it came to who serves it, or why to nobody yet.
func (h *handler) show(x *exchange, status int, under media.Kind, j media.Job) {
	r := j.Routing
	x.setHead(gateway.Head{PolicyVersion: h.PolicyVersion, Provider: j.Provider, Model: chat.ServedModel(r.Served), Route: j.Model, Attempts: j.Attempts,
		Fallback: r.Fallback, CredentialFallback: r.CredentialFallback, RoutingReason: r.Reason})
	x.answer(status, h.view(under, j))
}

// view is a job as it is seen under the path of a kind; empty: under /v1/jobs.
func (h *handler) view(under media.Kind, j media.Job) any {
	if under == media.Video {
		return j.VideoView()
	}
	return j.View()
}

// readOrder reads what is asked for, and the key without which it is not taken.
func (x *exchange) readOrder(kind media.Kind) (asked gateway.Asked, refused *fault.Error) {
	wishes, refused := readWishes(x.r.Header)
	asked.Tags = wishes.Tags
	if refused != nil {
		return asked, refused
	}
	body, refused := readBody(x.w, x.r)
	if refused != nil {
		return asked, refused
	}
	if _, given := x.r.Header["Idempotency-Key"]; !given {
		return asked, &fault.Error{Code: fault.IdempotencyKeyRequired, Param: "Idempotency-Key",
			Message: "Idempotency-Key: is required: the work is paid for, and a repetition without a key would be another job"}
	}
	if asked.Request, refused = orderJSON(x.r.Header.Get("Content-Type"), body); refused != nil {
		return asked, refused
	}
	if asked.Order, refused = media.ReadOrder(kind, asked.Request); refused != nil {
		return asked, refused
	}
	asked.Idempotency, refused = readIdempotency(x.r, body)
	return asked, refused
}

// job shows a job.
func (h *handler) job(under media.Kind) func(*exchange) {
	return func(x *exchange) {
		j, err := h.Gateway.Job(x.r.Context(), x.call(), x.rest, under)
		if err != nil {
			h.refuse(x, err)
			return
		}
		h.show(x, http.StatusOK, under, *j)
	}
}

// jobList is a list of jobs in OpenAI's shape.
type jobList struct {
	Object  string  `json:"object"` // "list"
	Data    []any   `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// jobs lists jobs, page by page, as OpenAI's lists are: the last id of one page is what the next one goes on after. It is that of the
// last job there, but where the store has looked through many jobs and found few, or none: whoever goes on until has_more is false
// has seen all of them.
func (h *handler) jobs(under media.Kind) func(*exchange) {
	return func(x *exchange) {
		page, err := h.Gateway.ListJobs(x.r.Context(), x.call(), func() (media.Wanted, string, *fault.Error) { return readWanted(under, x.r.URL.RawQuery) })
		if err != nil {
			h.refuse(x, err)
			return
		}
		out := jobList{Object: "list", Data: []any{}, HasMore: page.More}
		for _, j := range page.Jobs {
			out.Data = append(out.Data, h.view(under, j))
		}
		if n := len(page.Jobs); n > 0 {
			out.FirstID, out.LastID = &page.Jobs[0].ID, &page.Jobs[n-1].ID
		}
		if page.More {
			out.LastID = &page.Last
		}
		x.answer(http.StatusOK, out)
	}
}

const defaultJobs = 20

// readWanted reads the query of a list, and the id of the job that it goes on after. A parameter that is not known is refused: a
// client that pages by one would read the first page for ever.
func readWanted(under media.Kind, query string) (w media.Wanted, after string, refused *fault.Error) {
	w = media.Wanted{Kind: under, Limit: defaultJobs}
	values, err := url.ParseQuery(query)
	if err != nil {
		return w, "", fault.Invalid("query", "the query of the address could not be read")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) { // so that of several wrong ones the same is named each time
		v := values[name][len(values[name])-1]
		switch {
		case name == "status":
			if w.State = media.State(v); !slices.Contains(media.States(), w.State) {
				return w, "", fault.Invalid(name, "status: is not one of "+words(media.States()))
			}
		case name == "kind" && under == "":
			if w.Kind = media.Kind(v); w.Kind != media.Video && w.Kind != media.Music {
				return w, "", fault.Invalid(name, "kind: is not one of video, music")
			}
		case name == "limit":
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > gateway.MaxJobs {
				return w, "", fault.Invalid(name, "limit: must be from 1 to "+strconv.Itoa(gateway.MaxJobs))
			}
			w.Limit = n
		case name == "order":
			if w.OldestFirst = v == "asc"; !w.OldestFirst && v != "desc" {
				return w, "", fault.Invalid(name, "order: must be asc, which is oldest first, or desc")
			}
		case name == "after":
			if after = v; after == "" {
				return w, "", fault.Invalid(name, "after: must be the id of a job, or left out")
			}
		default:
			return w, "", fault.Invalid(cmp.Or(clipped(name), "query"), "query: "+strconv.Quote(clipped(name))+" is nothing that a list is asked for; it takes "+asksOf(under))
		}
	}
	return w, after, nil
}

// asksOf are the parameters of a list.
func asksOf(under media.Kind) string {
	if under == "" {
		return "status, kind, limit, order and after"
	}
	return "status, limit, order and after"
}

func clipped(name string) string { return name[:min(len(name), 64)] }

func words[T ~string](list []T) string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

// cancel ends a job: 200 when it has ended, 202 when its provider was asked to end it.
func (h *handler) cancel(x *exchange) {
	j, confirmed, err := h.Gateway.CancelJob(x.r.Context(), x.call(), x.rest)
	if err != nil {
		h.refuse(x, err)
		return
	}
	status := http.StatusAccepted
	if confirmed {
		status = http.StatusOK
	}
	h.show(x, status, "", *j)
}

// contentObject is where the work of a job is.
type contentObject struct {
	URL         string `json:"url"`
	ExpiresAt   int64  `json:"expires_at"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256"`
}

// content gives out what a job has made: by a link that is new each time, or with stream=1 through the gateway.
//
// Under /v1/videos the work itself is the answer unless stream=0 asks for the link, as it is at OpenAI: their Go SDK (v3.99.0) follows
// no redirect to another host. One that is too large for that is had by its link.
func (h *handler) content(under media.Kind) func(*exchange) {
	return func(x *exchange) {
		stream, refused := readContentQuery(x.r.URL.RawQuery)
		if refused != nil {
			h.refuse(x, refused)
			return
		}
		x.w.Header().Set("Cache-Control", "no-store")
		if stream == "1" || stream == "" && under == media.Video {
			err := h.stream(x, under)
			switch {
			case err == nil:
				return
			case stream == "1" || err.Code != fault.RequestTooLarge:
				h.refuse(x, err)
				return
			}
		}
		c, err := h.Gateway.Content(x.r.Context(), x.call(), x.rest, under)
		if err != nil {
			h.refuse(x, err)
			return
		}
		r := c.Job.Result
		x.w.Header().Set("Location", c.URL)
		x.answer(http.StatusFound, contentObject{URL: c.URL, ExpiresAt: c.Expires.Unix(), ContentType: r.ContentType, Size: r.Size, SHA256: r.SHA256})
	}
}

// readContentQuery reads how a work is wanted: "1" through the gateway, "0" by a link, empty where it is not said. OpenAI's SDKs ask for
// a variant of a video; the video itself is all that is kept.
func readContentQuery(query string) (stream string, refused *fault.Error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", fault.Invalid("query", "the query of the address could not be read")
	}
	if v := values.Get("variant"); v != "" && v != "video" {
		return "", fault.Invalid("variant", `variant: only the "video" itself is kept`)
	}
	if stream = values.Get("stream"); stream != "" && stream != "0" && stream != "1" {
		return "", fault.Invalid("stream", "stream: must be 0 or 1, or left out")
	}
	return stream, nil
}

// stream sends the work itself, if there is no error. One that breaks off is aborted, so that nobody takes it for whole.
func (h *handler) stream(x *exchange, under media.Kind) *fault.Error {
	j, body, err := h.Gateway.Work(x.r.Context(), x.call(), x.rest, under)
	if err != nil {
		return err
	}
	defer body.Close()
	x.committed = true
	header := x.w.Header()
	header.Set("Content-Type", j.Result.ContentType)
	header.Set("Content-Length", strconv.FormatInt(j.Result.Size, 10))
	header.Set("Content-Disposition", `attachment; filename="`+gateway.FileName(j)+`"`)
	x.begin(http.StatusOK)
	n, failed := io.CopyBuffer(struct{ io.Writer }{x.w}, io.LimitReader(body, j.Result.Size), make([]byte, 256<<10))
	if failed != nil || n != j.Result.Size {
		panic(http.ErrAbortHandler)
	}
	return nil
}
