package dynamo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"spillway/internal/media"
	"spillway/internal/usage"
)

// Querier is the part of DynamoDB that reads indexes.
type Querier interface {
	API
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Jobs is a media.Store in a table with the string key "id" and three indexes: "by-organization" (organization, created_at),
// "by-status" (status, updated_at), which is for people, and "due" (due, look_at), which holds only the jobs that
// somebody has yet to look at, since only they have the attribute "due".
//
// The table tells each job's story in the console: status, provider, progress, polls, last error and ISO times are
// attributes of their own, and so is what it cost, where that is known. What only code reads stands in "detail" as JSON.
type Jobs struct {
	API   Querier
	Table string
}

var _ media.Store = (*Jobs)(nil)

// The indexes, and the one partition of the due jobs: thousands of open jobs fit into it, each written once a poll.
const (
	byOrganization = "by-organization"
	dueIndex       = "due"
	duePartition   = "open"
	// keepJobs is how long a job is kept after its last change.
	keepJobs = 30 * 24 * time.Hour
)

func jobID(organization, id string) string { return url.PathEscape(organization) + "#" + id }

// Create implements media.Store.
func (s *Jobs) Create(ctx context.Context, j media.Job) error {
	return s.put(ctx, j, "attribute_not_exists(#id)", map[string]string{"#id": keyName}, nil)
}

// Replace implements media.Store.
func (s *Jobs) Replace(ctx context.Context, next media.Job) error {
	return s.put(ctx, next, "#version = :before", map[string]string{"#version": "version"}, item{":before": number(int64(next.Version) - 1)}) //nolint:gosec // a count of changes
}

func (s *Jobs) put(ctx context.Context, j media.Job, condition string, names map[string]string, values item) error {
	it, err := writtenJob(j)
	if err != nil {
		return err
	}
	_, err = s.API.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.Table, Item: it, ConditionExpression: &condition,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values})
	if _, ok := refused(err); ok {
		return media.ErrChanged
	}
	if err != nil {
		return fmt.Errorf("putting the job: %w", err)
	}
	return nil
}

// Get implements media.Store.
func (s *Jobs) Get(ctx context.Context, organization, id string) (*media.Job, error) {
	out, err := s.API.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.Table, Key: key(jobID(organization, id)), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, fmt.Errorf("reading the job: %w", err)
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	j, err := readJob(out.Item)
	if err != nil {
		return nil, err
	}
	return &j, nil
}

// List implements media.Store.
func (s *Jobs) List(ctx context.Context, organization string, state media.State, limit int) ([]media.Job, error) {
	in := &dynamodb.QueryInput{TableName: &s.Table, IndexName: aws.String(byOrganization), ScanIndexForward: aws.Bool(false),
		KeyConditionExpression: aws.String("#organization = :organization"), ExpressionAttributeNames: map[string]string{"#organization": "organization"},
		ExpressionAttributeValues: item{":organization": text(organization)}}
	if state != "" {
		in.FilterExpression = aws.String("#status = :status")
		in.ExpressionAttributeNames["#status"] = "status"
		in.ExpressionAttributeValues[":status"] = text(string(state))
	}
	return s.query(ctx, in, limit)
}

// Open implements media.Store.
func (s *Jobs) Open(ctx context.Context, before time.Time, limit int) ([]media.Job, error) {
	return s.query(ctx, &dynamodb.QueryInput{TableName: &s.Table, IndexName: aws.String(dueIndex), KeyConditionExpression: aws.String("#due = :open AND #look_at < :before"),
		ExpressionAttributeNames:  map[string]string{"#due": "due", "#look_at": "look_at"},
		ExpressionAttributeValues: item{":open": text(duePartition), ":before": number(before.UnixMilli())}}, limit)
}

// query reads pages until there are enough.
func (s *Jobs) query(ctx context.Context, in *dynamodb.QueryInput, limit int) ([]media.Job, error) {
	var jobs []media.Job
	for {
		out, err := s.API.Query(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("querying the jobs: %w", err)
		}
		for _, it := range out.Items {
			j, err := readJob(it)
			if err != nil {
				return nil, err
			}
			if jobs = append(jobs, j); len(jobs) == limit {
				return jobs, nil
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return jobs, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// jobDetail is what only code reads of a job.
type jobDetail struct {
	Key         string        `json:"key,omitempty"`
	Fingerprint string        `json:"fingerprint,omitempty"`
	Callback    string        `json:"callback,omitempty"`
	EventID     string        `json:"event_id,omitempty"`
	Tells       int           `json:"tells,omitempty"`
	TellAt      time.Time     `json:"tell_at,omitzero"`
	Untold      bool          `json:"untold,omitempty"`
	Channel     string        `json:"channel,omitempty"`
	Credential  string        `json:"credential,omitempty"`
	Owner       string        `json:"owner,omitempty"`
	LeaseUntil  time.Time     `json:"lease_until,omitzero"`
	Upstream    string        `json:"upstream,omitempty"`
	Seq         uint64        `json:"seq,omitempty"`
	NextPollAt  time.Time     `json:"next_poll_at,omitzero"`
	CancelAsked bool          `json:"cancel_asked,omitempty"`
	CreatedAt   time.Time     `json:"created_at"`
	UpdatedAt   time.Time     `json:"updated_at"`
	FinishedAt  time.Time     `json:"finished_at,omitzero"`
	Deadline    time.Time     `json:"deadline"`
	Error       *media.Error  `json:"error,omitempty"`
	Result      *media.Result `json:"result,omitempty"`
	Cost        media.Cost    `json:"cost,omitzero"`
	Whole       *media.Kept   `json:"whole,omitempty"`
}

// writtenJob is a job as an item.
func writtenJob(j media.Job) (item, error) {
	detail, err := json.Marshal(jobDetail{Key: j.Key, Fingerprint: j.Fingerprint, Callback: j.Callback, EventID: j.EventID, Tells: j.Tells, TellAt: j.TellAt, Untold: j.Untold, Channel: j.Channel, Credential: j.Credential,
		Owner: j.Owner, LeaseUntil: j.LeaseUntil, Upstream: j.Upstream, Seq: j.Seq, NextPollAt: j.NextPollAt, CancelAsked: j.CancelAsked, CreatedAt: j.CreatedAt,
		UpdatedAt: j.UpdatedAt, FinishedAt: j.FinishedAt, Deadline: j.Deadline, Error: j.Error, Result: j.Result, Cost: j.Cost, Whole: j.Whole})
	if err != nil {
		return nil, fmt.Errorf("writing the job: %w", err)
	}
	it := item{keyName: text(jobID(j.Organization, j.ID)), "job": text(j.ID), "organization": text(j.Organization), "kind": text(string(j.Kind)), "status": text(string(j.State)),
		"version": number(int64(j.Version)), "model": text(j.Model), "request": binary(j.Request), "created_at": iso(j.CreatedAt), "updated_at": iso(j.UpdatedAt), //nolint:gosec // a count of changes
		"deadline_at": iso(j.Deadline), "progress": number(int64(j.Progress)), "submits": number(int64(j.Submits)), "refusals": number(int64(j.Refusals)),
		"poll_failures": number(int64(j.PollFailures)), ttlName: number(j.UpdatedAt.Add(keepJobs).Unix()), "detail": text(string(detail))}
	for name, value := range map[string]string{"provider": j.Provider, "unknown_status": j.Strange} {
		if value != "" {
			it[name] = text(value)
		}
	}
	if j.Error != nil {
		it["last_error"] = text(j.Error.Code + ": " + j.Error.Message)
	}
	if j.Result != nil {
		it["result"] = text(j.Result.Object)
	}
	if j.Cost.Known {
		it["cost_usd"] = &types.AttributeValueMemberN{Value: usage.Nano(j.Cost.Nano).String()}
	}
	if at := j.LookAt(); !at.IsZero() {
		it["due"], it["look_at"], it["look_at_time"] = text(duePartition), number(at.UnixMilli()), iso(at)
	}
	return it, nil
}

// readJob is an item as a job.
func readJob(it item) (media.Job, error) {
	v := view(it)
	var d jobDetail
	if err := json.Unmarshal([]byte(v.text("detail")), &d); err != nil {
		return media.Job{}, fmt.Errorf("reading a job: %w", err)
	}
	state := media.State(v.text("status"))
	if !slices.Contains(media.States(), state) {
		return media.Job{}, fmt.Errorf("reading a job: its status is %s", strconv.Quote(string(state)))
	}
	count := func(name string) int {
		n, _ := v.number(name)
		return int(n)
	}
	return media.Job{ID: v.text("job"), Organization: v.text("organization"), Kind: media.Kind(v.text("kind")), State: state, Version: uint64(count("version")), //nolint:gosec // a count of changes
		Model: v.text("model"), Channel: d.Channel, Provider: v.text("provider"), Credential: d.Credential, Request: v.binary("request"), Key: d.Key,
		Fingerprint: d.Fingerprint, Callback: d.Callback, EventID: d.EventID, Tells: d.Tells, TellAt: d.TellAt, Untold: d.Untold, Owner: d.Owner, LeaseUntil: d.LeaseUntil, Submits: count("submits"),
		Refusals: count("refusals"), Upstream: d.Upstream, Seq: d.Seq, PollFailures: count("poll_failures"), NextPollAt: d.NextPollAt, Progress: count("progress"),
		Strange: v.text("unknown_status"), CancelAsked: d.CancelAsked, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, FinishedAt: d.FinishedAt, Deadline: d.Deadline,
		Error: d.Error, Result: d.Result, Cost: d.Cost, Whole: d.Whole}, nil
}
