package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
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

// Jobs is a media.Store in a table with the string key "id" and three indexes: "by-organization" (organization, list_place),
// "by-status" (status, updated_at), which is for people, and "due" (due, look_at), which holds only the jobs that
// somebody has yet to look at, since only they have the attribute "due".
//
// The table tells each job's story in the console: status, provider, how it came to it, progress, polls, last error and ISO times, which are whole
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
	// maxPages bounds how far a list is looked through for one page of it, in megabytes: some thousand jobs.
	maxPages = 8
	// maxKey is the longest partition key that DynamoDB takes, in bytes
	// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html, 2026-11-30).
	maxKey = 2048
	// keepJobs is how long a job is kept after its last change.
	keepJobs = 30 * 24 * time.Hour
)

func jobID(organization, id string) string { return url.PathEscape(organization) + "#" + id }

// listPlace is where a job stands in lists: at the time it was made, and among jobs of the same millisecond at its id. DynamoDB
// promises no order among equal keys of an index, and no list can go on behind a job that has no place of its own.
func listPlace(j media.Job) string {
	return isoText(j.CreatedAt) + " " + j.ID
}

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
	item := jobID(organization, id)
	if len(item) > maxKey {
		return nil, nil // the table would call it a mistake, which is not what a client's made-up id is
	}
	out, err := s.API.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.Table, Key: key(item), ConsistentRead: aws.Bool(true)})
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

// List implements media.Store. What is not wanted is passed over in the index that has all of an organization's jobs. An index for
// each state, or kind, would find them at once, and would be written whenever a job's state changes, if not at every poll, for a
// question that is seldom asked: who does not poll a job by its id asks for the newest.
func (s *Jobs) List(ctx context.Context, organization string, w media.Wanted) (media.Page, error) {
	in := &dynamodb.QueryInput{TableName: &s.Table, IndexName: aws.String(byOrganization), ScanIndexForward: &w.OldestFirst,
		KeyConditionExpression: aws.String("#organization = :organization"), ExpressionAttributeNames: map[string]string{"#organization": "organization"},
		ExpressionAttributeValues: item{":organization": text(organization)}}
	if w.After != nil {
		behind := "<"
		if w.OldestFirst {
			behind = ">"
		}
		*in.KeyConditionExpression += " AND #place " + behind + " :after"
		in.ExpressionAttributeNames["#place"] = "list_place"
		in.ExpressionAttributeValues[":after"] = text(listPlace(*w.After))
	}
	filter(in, "status", string(w.State))
	filter(in, "kind", string(w.Kind))
	q, err := s.query(ctx, in, w.Limit+1) // one further, to know whether there is one
	if err != nil {
		return media.Page{}, err
	}
	if len(q.jobs) > w.Limit {
		return media.Page{Jobs: q.jobs[:w.Limit], More: true, Last: q.jobs[w.Limit-1].ID, Unread: q.unread}, nil
	}
	return media.Page{Jobs: q.jobs, More: q.last != "", Last: strings.TrimPrefix(q.last, jobID(organization, "")), Unread: q.unread}, nil
}

// filter has a query pass over what has another value; empty: any will do.
func filter(in *dynamodb.QueryInput, name, value string) {
	if value == "" {
		return
	}
	condition := "#" + name + " = :" + name
	if in.FilterExpression != nil {
		condition = *in.FilterExpression + " AND " + condition
	}
	in.FilterExpression = &condition
	in.ExpressionAttributeNames["#"+name] = name
	in.ExpressionAttributeValues[":"+name] = text(value)
}

// Open implements media.Store.
func (s *Jobs) Open(ctx context.Context, before time.Time, limit int) ([]media.Job, error) {
	q, err := s.query(ctx, &dynamodb.QueryInput{TableName: &s.Table, IndexName: aws.String(dueIndex), KeyConditionExpression: aws.String("#due = :open AND #look_at < :before"),
		ExpressionAttributeNames:  map[string]string{"#due": "due", "#look_at": "look_at"},
		ExpressionAttributeValues: item{":open": text(duePartition), ":before": number(before.UnixMilli())}}, limit)
	return q.jobs, cmp.Or(err, q.unread)
}

// queried is what a query has found.
type queried struct {
	jobs []media.Job
	// unread is why an item among them is no job, as an operator's hand or another version may have left it: the others are read
	// all the same.
	unread error
	// last is the key of the last item that was looked at, where there may be more that is not filtered out and was not looked for.
	last string
}

// query reads pages until there are enough jobs, or no more, or, where some are filtered out, too many pages. The first page is no longer
// than what is asked for: mostly all is on it, and a page is a megabyte.
func (s *Jobs) query(ctx context.Context, in *dynamodb.QueryInput, limit int) (q queried, err error) {
	in.Limit = aws.Int32(int32(min(limit, math.MaxInt32))) //nolint:gosec // it is bounded
	for page := 1; ; page++ {
		out, err := s.API.Query(ctx, in)
		if err != nil {
			return queried{}, fmt.Errorf("querying the jobs: %w", err)
		}
		for _, it := range out.Items {
			j, err := readJob(it)
			if err != nil {
				q.unread = cmp.Or(q.unread, err)
				continue
			}
			if q.jobs = append(q.jobs, j); len(q.jobs) == limit {
				return q, nil
			}
		}
		switch {
		case len(out.LastEvaluatedKey) == 0:
			return q, nil
		case in.FilterExpression == nil:
		case page == maxPages:
			q.last = view(out.LastEvaluatedKey).text(keyName)
			return q, nil
		default:
			in.Limit = nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
