package dynamo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"spillway/internal/media"
	"spillway/internal/usage"
)

// The attributes that tell a job's story to people, and are read back as they stand there. What is empty or false, or zero
// where a time is meant, is left out.
var (
	jobTexts = map[string]func(*media.Job) *string{
		"job":              func(j *media.Job) *string { return &j.ID },
		"organization":     func(j *media.Job) *string { return &j.Organization },
		"idempotency_key":  func(j *media.Job) *string { return &j.Key },
		"kind":             func(j *media.Job) *string { return (*string)(&j.Kind) },
		"status":           func(j *media.Job) *string { return (*string)(&j.State) },
		"model":            func(j *media.Job) *string { return &j.Model },
		"provider":         func(j *media.Job) *string { return &j.Provider },
		"channel":          func(j *media.Job) *string { return &j.Channel },
		"credential":       func(j *media.Job) *string { return &j.Credential }, // its alias
		"served_model":     func(j *media.Job) *string { return &j.Routing.Served },
		"routing":          func(j *media.Job) *string { return &j.Routing.Reason },
		"unknown_status":   func(j *media.Job) *string { return &j.Strange },
		"last_error":       func(j *media.Job) *string { return &j.LastError.Message },
		"last_error_code":  func(j *media.Job) *string { return &j.LastError.Code },
		"last_error_class": func(j *media.Job) *string { return &j.LastError.Class },
		"event_id":         func(j *media.Job) *string { return &j.EventID },
	}
	jobCounts = map[string]func(*media.Job) *int{
		"progress":      func(j *media.Job) *int { return &j.Progress },
		"attempts":      func(j *media.Job) *int { return &j.Attempts },
		"submits":       func(j *media.Job) *int { return &j.Submits },
		"refusals":      func(j *media.Job) *int { return &j.Refusals },
		"poll_failures": func(j *media.Job) *int { return &j.PollFailures },
		"tells":         func(j *media.Job) *int { return &j.Tells },
	}
	// version counts the changes, and poll_number is the poll that is due or, of a job that is over, was the last.
	jobNumbers = map[string]func(*media.Job) *uint64{
		"version":     func(j *media.Job) *uint64 { return &j.Version },
		"poll_number": func(j *media.Job) *uint64 { return &j.Seq },
	}
	jobFlags = map[string]func(*media.Job) *bool{
		"cancel_asked":        func(j *media.Job) *bool { return &j.CancelAsked },
		"fallback":            func(j *media.Job) *bool { return &j.Routing.Fallback },
		"credential_fallback": func(j *media.Job) *bool { return &j.Routing.CredentialFallback },
		"untold":              func(j *media.Job) *bool { return &j.Untold }, // and nobody tells any more
	}
	jobTimes = map[string]func(*media.Job) *time.Time{
		"created_at":   func(j *media.Job) *time.Time { return &j.CreatedAt },
		"updated_at":   func(j *media.Job) *time.Time { return &j.UpdatedAt },
		"finished_at":  func(j *media.Job) *time.Time { return &j.FinishedAt },
		"deadline_at":  func(j *media.Job) *time.Time { return &j.Deadline },
		"next_poll_at": func(j *media.Job) *time.Time { return &j.NextPollAt },
		"lease_until":  func(j *media.Job) *time.Time { return &j.LeaseUntil },
		"next_tell_at": func(j *media.Job) *time.Time { return &j.TellAt },
		"told_at":      func(j *media.Job) *time.Time { return &j.ToldAt },
	}
)

// jobDetail is what only code reads of a job, and what nobody should read in a table: a provider's handle, and a callback's
// address, may be as good as a key.
type jobDetail struct {
	Fingerprint string     `json:"fingerprint,omitempty"`
	Callback    string     `json:"callback,omitempty"`
	Owner       string     `json:"owner,omitempty"`
	Stamp       string     `json:"stamp,omitempty"`
	Upstream    string     `json:"upstream,omitempty"`
	Cost        media.Cost `json:"cost,omitzero"`
}

// writtenJob is a job as an item.
func writtenJob(j media.Job) (item, error) {
	detail, err := json.Marshal(jobDetail{Fingerprint: j.Fingerprint, Callback: j.Callback, Owner: j.Owner, Stamp: j.Stamp, Upstream: j.Upstream, Cost: j.Cost})
	if err != nil {
		return nil, fmt.Errorf("writing the job: %w", err)
	}
	it := item{keyName: text(jobID(j.Organization, j.ID)), "list_place": text(listPlace(j)), "request": binary(j.Request), ttlName: number(j.UpdatedAt.Add(keepJobs).Unix()), "detail": text(string(detail))}
	for name, of := range jobTexts {
		if value := *of(&j); value != "" {
			it[name] = text(value)
		}
	}
	for name, of := range jobCounts {
		it[name] = number(int64(*of(&j)))
	}
	for name, of := range jobNumbers {
		it[name] = number(int64(*of(&j))) //nolint:gosec // a count
	}
	for name, of := range jobTimes {
		if at := *of(&j); !at.IsZero() {
			it[name] = iso(at)
		}
	}
	for name, of := range jobFlags {
		if *of(&j) {
			it[name] = boolean(true)
		}
	}
	if o := j.Whole; o != nil {
		it["request_object"], it["request_size"], it["request_sha256"] = text(o.Object), number(o.Size), text(o.SHA256)
	}
	if len(j.RefusedBy) > 0 {
		it["refused_by"] = writtenRefusers(j.RefusedBy)
	}
	if r := j.Result; r != nil {
		it["result_object"], it["result_type"], it["result_size"], it["result_sha256"] = text(r.Object), text(r.ContentType), number(r.Size), text(r.SHA256)
	}
	if j.Cost.Known {
		it["cost_usd"] = &types.AttributeValueMemberN{Value: usage.Nano(j.Cost.Nano).String()}
	}
	if at := j.LookAt(); !at.IsZero() {
		it["due"], it["look_at"] = text(duePartition), number(at.UnixMilli())
	}
	return it, nil
}

// readJob is an item as a job.
func readJob(it item) (media.Job, error) {
	v := view(it)
	var d jobDetail
	if err := json.Unmarshal([]byte(v.text("detail")), &d); err != nil {
		return media.Job{}, fmt.Errorf("reading the job %s: its detail is not JSON", strconv.Quote(v.text("job")))
	}
	j := media.Job{Request: v.binary("request"), Fingerprint: d.Fingerprint, Callback: d.Callback, Owner: d.Owner, Stamp: d.Stamp, Upstream: d.Upstream, Cost: d.Cost}
	for name, of := range jobTexts {
		*of(&j) = v.text(name)
	}
	for name, of := range jobCounts {
		n, _ := v.number(name)
		*of(&j) = int(max(n, 0))
	}
	for name, of := range jobNumbers {
		n, _ := v.number(name)
		*of(&j) = uint64(max(n, 0)) //nolint:gosec // it is not negative
	}
	for name, of := range jobTimes {
		*of(&j) = v.iso(name)
	}
	for name, of := range jobFlags {
		*of(&j) = v.boolean(name)
	}
	if !slices.Contains(media.States(), j.State) {
		return media.Job{}, fmt.Errorf("reading the job %s: its status is %s", strconv.Quote(j.ID), strconv.Quote(string(j.State)))
	}
	if name := v.text("request_object"); name != "" {
		size, _ := v.number("request_size")
		j.Whole = &media.Kept{Object: name, Size: max(size, 0), SHA256: v.text("request_sha256")}
	}
	j.RefusedBy = readRefusers(it["refused_by"])
	if name := v.text("result_object"); name != "" {
		size, _ := v.number("result_size")
		j.Result = &media.Result{Object: name, ContentType: v.text("result_type"), Size: max(size, 0), SHA256: v.text("result_sha256")}
	}
	if why := j.LastError; j.State.Terminal() && j.State != media.Succeeded && why != (media.Error{}) {
		j.Error = &why // a job that ends without a result ends with its last error
	}
	return j, nil
}

// writtenRefusers are those who refused a job, for people and for code: a list of channels, each with the credential's alias.
func writtenRefusers(all []media.Refuser) types.AttributeValue {
	list := make([]types.AttributeValue, len(all))
	for i, r := range all {
		list[i] = &types.AttributeValueMemberM{Value: item{"channel": text(r.Channel), "credential": text(r.Credential)}}
	}
	return &types.AttributeValueMemberL{Value: list}
}

// readRefusers reads them. What is none of them is left out: then the job was refused by more than are named.
func readRefusers(from types.AttributeValue) (all []media.Refuser) {
	list, _ := from.(*types.AttributeValueMemberL)
	if list == nil {
		return nil
	}
	for _, value := range list.Value {
		if m, ok := value.(*types.AttributeValueMemberM); ok && m != nil {
			all = append(all, media.Refuser{Channel: view(m.Value).text("channel"), Credential: view(m.Value).text("credential")})
		}
	}
	return all
}
