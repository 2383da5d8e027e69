package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"spillway/internal/media"
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
// The table tells each job's story in the console: status, provider, progress, polls, last error and ISO times, which are whole
// milliseconds, are attributes of their own, and so is what it cost, where that is known. What only code reads stands in
// "detail" as JSON.
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
	// maxPages bounds how far a list of one state is looked through, in megabytes: some thousand jobs.
	maxPages = 8
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
	jobs, unread, err := s.query(ctx, in, limit)
	return jobs, cmp.Or(err, unread)
}

// Open implements media.Store.
func (s *Jobs) Open(ctx context.Context, before time.Time, limit int) ([]media.Job, error) {
	jobs, unread, err := s.query(ctx, &dynamodb.QueryInput{TableName: &s.Table, IndexName: aws.String(dueIndex), KeyConditionExpression: aws.String("#due = :open AND #look_at < :before"),
		ExpressionAttributeNames:  map[string]string{"#due": "due", "#look_at": "look_at"},
		ExpressionAttributeValues: item{":open": text(duePartition), ":before": number(before.UnixMilli())}}, limit)
	return jobs, cmp.Or(err, unread)
}

// query reads pages until there are enough. What is not filtered is read no further than that: a page is a megabyte. unread is why an item
// among them is no job, as an operator's hand or another version may have left it: the others are read all the same.
func (s *Jobs) query(ctx context.Context, in *dynamodb.QueryInput, limit int) (jobs []media.Job, unread, err error) {
	if in.FilterExpression == nil {
		in.Limit = aws.Int32(int32(min(limit, math.MaxInt32))) //nolint:gosec // it is bounded
	}
	for page := 1; ; page++ {
		out, err := s.API.Query(ctx, in)
		if err != nil {
			return nil, nil, fmt.Errorf("querying the jobs: %w", err)
		}
		for _, it := range out.Items {
			j, err := readJob(it)
			if err != nil {
				unread = cmp.Or(unread, err)
				continue
			}
			if jobs = append(jobs, j); len(jobs) == limit {
				return jobs, unread, nil
			}
		}
		if len(out.LastEvaluatedKey) == 0 || in.FilterExpression != nil && page == maxPages {
			return jobs, unread, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
