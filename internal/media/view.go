package media

import (
	"encoding/json"
	"time"
)

// View is what a client sees of a job (contract.md §8), at GET /v1/jobs/{id} and as the data of the event that its callback gets. It has no
// provider link and nothing of the gateway's own, and of a job that is over it is the same each time. Times are in seconds
// since 1970, null where there is none yet.
type View struct {
	ID         string      `json:"id"`
	Object     string      `json:"object"` // "media.job"
	Kind       Kind        `json:"kind"`
	Status     State       `json:"status"`
	Model      string      `json:"model"`
	Progress   int         `json:"progress"` // percent
	CreatedAt  int64       `json:"created_at"`
	FinishedAt *int64      `json:"finished_at"`
	Deadline   int64       `json:"deadline"`
	Error      *ViewError  `json:"error"`
	Result     *ViewResult `json:"result"`
	// Message says of an uncertain job what that means, of one that waits for a provider why, and of a running one that its provider
	// was asked to cancel it; of any other it is left out. It is no error: the job may well succeed, and whoever takes it for failed
	// and orders it anew may pay twice.
	Message string `json:"message,omitempty"`
}

// ViewError is why a job ended without a result.
type ViewError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ViewResult is what a job made. It is had at /v1/jobs/{id}/content.
type ViewResult struct {
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"` // bytes
	SHA256      string `json:"sha256"`
}

// View is the job as a client sees it.
func (j Job) View() View {
	v := View{ID: j.ID, Object: "media.job", Kind: j.Kind, Status: j.State, Model: j.Model, Progress: j.Progress, CreatedAt: j.CreatedAt.Unix(),
		FinishedAt: seconds(j.FinishedAt), Deadline: j.Deadline.Unix(), Error: j.viewError(), Message: j.viewMessage()}
	if r := j.Result; r != nil {
		v.Result = &ViewResult{ContentType: r.ContentType, Size: r.Size, SHA256: r.SHA256}
	}
	return v
}

// Announcement is the event of a job's end as its callback gets it, with the members that Standard Webhooks recommends
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, 2026-11-30): a receiver of many kinds of
// events tells them by their type. It is the same each time that it is told.
type Announcement struct {
	Type      string `json:"type"`      // "media.job." and the state
	Timestamp string `json:"timestamp"` // when the job ended, as RFC 3339
	Data      View   `json:"data"`
}

// Announcement is the event of the job's end. The job must be over.
func (j Job) Announcement() Announcement {
	return Announcement{Type: "media.job." + string(j.State), Timestamp: j.FinishedAt.UTC().Format(time.RFC3339Nano), Data: j.View()}
}

// VideoView is the job as OpenAI's SDKs know a video (https://platform.openai.com/docs/api-reference/videos, 2026-11-30). What the
// client asked for stands in it as it was asked.
type VideoView struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"` // "video"
	Status      string          `json:"status"`
	Progress    int             `json:"progress"`
	CreatedAt   int64           `json:"created_at"`
	CompletedAt *int64          `json:"completed_at"`
	ExpiresAt   *int64          `json:"expires_at"`
	Model       string          `json:"model"`
	Prompt      json.RawMessage `json:"prompt"`
	Seconds     json.RawMessage `json:"seconds"`
	Size        json.RawMessage `json:"size"`
	Error       *ViewError      `json:"error"`
	RemixedFrom *string         `json:"remixed_from_video_id"`
	Message     string          `json:"message,omitempty"` // View's, whose word for the job's state OpenAI has not
}

// openai is our states in OpenAI's four words. What is neither over nor surely begun is in progress: it may be.
var openai = map[State]string{Queued: "queued", Submitting: "queued", Running: "in_progress", Uncertain: "in_progress", Succeeded: "completed",
	Failed: "failed", Cancelled: "failed", Expired: "failed"}

// VideoView is a video job as OpenAI's SDKs know it.
func (j Job) VideoView() VideoView {
	v := VideoView{ID: j.ID, Object: "video", Status: openai[j.State], Progress: j.Progress, CreatedAt: j.CreatedAt.Unix(), Model: j.Model, Error: j.viewError(),
		Message: j.viewMessage()}
	var asked struct{ Prompt, Seconds, Size json.RawMessage }
	_ = json.Unmarshal(j.Request, &asked) // a body that is none was refused when the job was made
	v.Prompt, v.Seconds, v.Size = asked.Prompt, asked.Seconds, asked.Size
	if j.State == Succeeded {
		v.CompletedAt = seconds(j.FinishedAt)
	}
	return v
}

// viewError is why the job has no result; a job that was cancelled, or that expired, says so where it says nothing else.
func (j Job) viewError() *ViewError {
	switch {
	case j.Error != nil:
		return &ViewError{Code: j.Error.Code, Message: j.Error.Message}
	case j.State == Failed, j.State == Cancelled, j.State == Expired:
		return &ViewError{Code: string(j.State), Message: "the job is " + string(j.State)}
	default:
		return nil
	}
}

// viewMessage is what there is to say of a job beside its state.
func (j Job) viewMessage() string {
	switch {
	case j.State == Running && j.CancelAsked:
		return "the provider was asked to cancel the job, and has not said that it has; until then the job may still succeed"
	case j.State == Queued && j.LastError.Message != "":
		return "no provider has taken the job yet (" + j.LastError.Message + "); it is tried again until its deadline"
	case j.State != Uncertain:
		return ""
	}
	why := ""
	if j.LastError.Message != "" {
		why = " (" + j.LastError.Message + ")"
	}
	return "nobody knows whether the provider has taken the job" + why +
		"; it is not submitted again, and expires at its deadline unless it is found before. An order with another Idempotency-Key may be paid for twice"
}

func seconds(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	s := t.Unix()
	return &s
}
