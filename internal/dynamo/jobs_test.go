package dynamo_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/dynamo"
	"spillway/internal/media"
)

// putting takes items down; every other call panics.
type putting struct {
	dynamo.Querier
	put map[string]types.AttributeValue
}

func (p *putting) PutItem(_ context.Context, in *sdk.PutItemInput, _ ...func(*sdk.Options)) (*sdk.PutItemOutput, error) {
	p.put = in.Item
	return &sdk.PutItemOutput{}, nil
}

// TestACostIsReadInTheConsole: in dollars, exactly, and not at all where it is not known.
func TestACostIsReadInTheConsole(t *testing.T) {
	for name, c := range map[string]struct {
		cost media.Cost
		want types.AttributeValue
	}{
		"a listed one":          {media.Cost{Known: true, Nano: 3_200_000_001, Basis: "listed", Version: "v1"}, number("3.200000001")},
		"nothing, surely":       {media.Unmade(), number("0")},
		"one that nobody knows": {media.Cost{Version: "v1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			api := &putting{}
			j := media.New("job_1", "acme", media.Video, "veo", []byte(`{}`), "evt_1", time.Unix(0, 0))
			j.Cost = c.cost
			require.NoError(t, (&dynamo.Jobs{API: api, Table: "t"}).Create(t.Context(), j))
			assert.Equal(t, c.want, api.put["cost_usd"])
		})
	}
}

// TestAJobTellsItsStoryInTheConsole: every attribute of three jobs, as a person reads it. What could be as good as a key is in none but
// the detail.
func TestAJobTellsItsStoryInTheConsole(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	claim := media.Claim{Owner: "execution-1", Channel: "google/veo@eu", Provider: "google", Credential: "main",
		Routing: media.Routing{Reason: "google/veo:throttled;google/veo@eu:ok", Served: "veo-3.1", Fallback: true, CredentialFallback: true}}
	accepted := media.Accepted{Owner: "execution-1", Upstream: "https://provider.test/op?sig=S1", PollIn: 2 * time.Second}
	failed := media.Error{Code: "provider_unavailable", Message: "the provider answered with an error: server_error", Class: "server_error"}
	for name, c := range map[string]struct {
		events []media.Event
		want   string
	}{
		"one that runs, and could not be asked": {[]media.Event{claim, accepted, media.Pending{Seq: 1, Progress: 40, Strange: "REHEARSING", PollIn: 4 * time.Second},
			media.PollFailed{Seq: 2, PollIn: 8500 * time.Millisecond, Error: failed}, media.AskedToCancel{}}, `
			attempts: 1
			cancel_asked: true
			channel: google/veo@eu
			created_at: 2030-01-01T00:00:00.000Z
			credential: main
			credential_fallback: true
			deadline_at: 2030-01-01T00:30:00.000Z
			due: open
			event_id: evt_1
			expires_at: 1896048005
			fallback: true
			id: acme%2Fx#job_1
			idempotency_key: k 1
			job: job_1
			kind: video
			last_error: the provider answered with an error: server_error
			last_error_class: server_error
			last_error_code: provider_unavailable
			list_place: 2030-01-01T00:00:00.000Z job_1
			look_at: 1893456012500
			model: veo
			next_poll_at: 2030-01-01T00:00:12.500Z
			organization: acme/x
			poll_failures: 1
			poll_number: 3
			progress: 40
			provider: google
			refusals: 0
			request: {"prompt":"p"}
			routing: google/veo:throttled;google/veo@eu:ok
			served_model: veo-3.1
			status: running
			submits: 1
			tells: 0
			unknown_status: REHEARSING
			updated_at: 2030-01-01T00:00:05.000Z
			version: 5`},
		"one that succeeded, and was told": {[]media.Event{claim, accepted, media.Done{Result: media.Result{Object: "media/acme/job_1/x", ContentType: "video/mp4", Size: 5 << 20, SHA256: "ab"},
			Cost: media.Cost{Known: true, Nano: 3_200_000_000, Basis: "listed"}}, media.Told{N: 0}}, `
			attempts: 1
			channel: google/veo@eu
			cost_usd: 3.2
			created_at: 2030-01-01T00:00:00.000Z
			credential: main
			credential_fallback: true
			deadline_at: 2030-01-01T00:30:00.000Z
			event_id: evt_1
			expires_at: 1896048004
			fallback: true
			finished_at: 2030-01-01T00:00:03.000Z
			id: acme%2Fx#job_1
			idempotency_key: k 1
			job: job_1
			kind: video
			list_place: 2030-01-01T00:00:00.000Z job_1
			model: veo
			organization: acme/x
			poll_failures: 0
			poll_number: 1
			progress: 100
			provider: google
			refusals: 0
			request: {"prompt":"p"}
			result_object: media/acme/job_1/x
			result_sha256: ab
			result_size: 5242880
			result_type: video/mp4
			routing: google/veo:throttled;google/veo@eu:ok
			served_model: veo-3.1
			status: succeeded
			submits: 1
			tells: 1
			told_at: 2030-01-01T00:00:04.000Z
			updated_at: 2030-01-01T00:00:04.000Z
			version: 4`},
		"one that two have refused": {[]media.Event{claim, media.Refused{Owner: "execution-1", Error: failed},
			media.Claim{Owner: "execution-2", Channel: "fal/veo", Provider: "fal", Credential: "spare", Refusals: 1, Routing: media.Routing{Reason: "fal/veo:ok"}}, media.Refused{Owner: "execution-2", Error: failed}}, `
			attempts: 2
			created_at: 2030-01-01T00:00:00.000Z
			deadline_at: 2030-01-01T00:30:00.000Z
			due: open
			event_id: evt_1
			expires_at: 1896048004
			id: acme%2Fx#job_1
			idempotency_key: k 1
			job: job_1
			kind: video
			last_error: the provider answered with an error: server_error
			last_error_class: server_error
			last_error_code: provider_unavailable
			list_place: 2030-01-01T00:00:00.000Z job_1
			look_at: 1893456004000
			model: veo
			organization: acme/x
			poll_failures: 0
			poll_number: 0
			progress: 0
			refusals: 2
			refused_by: [channel: google/veo@eu, credential: main; channel: fal/veo, credential: spare]
			request: {"prompt":"p"}
			routing: fal/veo:ok
			status: queued
			submits: 0
			tells: 0
			updated_at: 2030-01-01T00:00:04.000Z
			version: 4`},
		"one of which nobody knows": {[]media.Event{claim, media.Lost{Owner: "execution-1", Error: media.Error{Code: "provider_unavailable", Message: "broken off"}}}, `
			attempts: 1
			channel: google/veo@eu
			created_at: 2030-01-01T00:00:00.000Z
			credential: main
			credential_fallback: true
			deadline_at: 2030-01-01T00:30:00.000Z
			due: open
			event_id: evt_1
			expires_at: 1896048002
			fallback: true
			id: acme%2Fx#job_1
			idempotency_key: k 1
			job: job_1
			kind: video
			last_error: broken off
			last_error_code: provider_unavailable
			list_place: 2030-01-01T00:00:00.000Z job_1
			look_at: 1893456002000
			model: veo
			organization: acme/x
			poll_failures: 0
			poll_number: 0
			progress: 0
			provider: google
			refusals: 0
			request: {"prompt":"p"}
			routing: google/veo:throttled;google/veo@eu:ok
			served_model: veo-3.1
			status: uncertain
			submits: 1
			tells: 0
			updated_at: 2030-01-01T00:00:02.000Z
			version: 2`},
	} {
		t.Run(name, func(t *testing.T) {
			api := &putting{}
			j := media.New("job_1", "acme/x", media.Video, "veo", []byte(`{"prompt":"p"}`), "evt_1", at)
			j.Key, j.Fingerprint, j.Callback = "k 1", "F", "https://example.com/hook?token=S2"
			for i, e := range c.events {
				var err error
				j, err = j.Next(e, at.Add(time.Duration(i+1)*time.Second))
				require.NoError(t, err)
			}
			require.NoError(t, (&dynamo.Jobs{API: api, Table: "t"}).Create(t.Context(), j))
			var got []string
			for _, name := range slices.Sorted(maps.Keys(api.put)) {
				var value any
				switch v := api.put[name].(type) {
				case *types.AttributeValueMemberS:
					value = v.Value
				case *types.AttributeValueMemberN:
					value = v.Value
				case *types.AttributeValueMemberL:
					value = refusers(t, v)
				case *types.AttributeValueMemberB:
					value = string(v.Value)
				case *types.AttributeValueMemberBOOL:
					value = v.Value
				}
				if name != "detail" {
					got = append(got, fmt.Sprint(name, ": ", value))
				}
			}
			assert.Equal(t, strings.ReplaceAll(strings.TrimSpace(c.want), "\t", ""), strings.Join(got, "\n"))
			for _, secret := range []string{"S1", "S2", "execution-1"} {
				assert.NotContains(t, strings.Join(got, "\n"), secret)
			}
			back, err := dynamo.ReadJob(api.put)
			require.NoError(t, err)
			assert.Equal(t, j, back)
		})
	}
}

// refusers is a list of maps of texts as the console shows it.
func refusers(t *testing.T, list *types.AttributeValueMemberL) string {
	t.Helper()
	var all []string
	for _, element := range list.Value {
		require.IsType(t, &types.AttributeValueMemberM{}, element)
		members := element.(*types.AttributeValueMemberM).Value //nolint:forcetypeassert // it is one
		var texts []string
		for _, name := range slices.Sorted(maps.Keys(members)) {
			require.IsType(t, &types.AttributeValueMemberS{}, members[name])
			texts = append(texts, name+": "+members[name].(*types.AttributeValueMemberS).Value) //nolint:forcetypeassert // it is one
		}
		all = append(all, strings.Join(texts, ", "))
	}
	return "[" + strings.Join(all, "; ") + "]"
}

// TestWhoRefusedAJobIsRead: also as versions before and after this one may have written it.
func TestWhoRefusedAJobIsRead(t *testing.T) {
	refuser := func(channel string) types.AttributeValue {
		return &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"channel": word(channel), "credential": word("main"), "at": number("5")}}
	}
	list := func(all ...types.AttributeValue) types.AttributeValue {
		return &types.AttributeValueMemberL{Value: all}
	}
	for name, c := range map[string]struct {
		attribute types.AttributeValue
		want      []media.Refuser
	}{
		"only their number":            {nil, nil},
		"all of them":                  {list(refuser("a"), refuser("b")), []media.Refuser{{Channel: "a", Credential: "main"}, {Channel: "b", Credential: "main"}}},
		"none":                         {list(), nil},
		"one that is none is left out": {list(word("a"), refuser("b"), number("1")), []media.Refuser{{Channel: "b", Credential: "main"}}},
		"no list":                      {word("a"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			it := map[string]types.AttributeValue{"status": word("queued"), "detail": word("{}"), "refusals": number("2")}
			if c.attribute != nil {
				it["refused_by"] = c.attribute
			}
			j, err := dynamo.ReadJob(it)
			require.NoError(t, err)
			assert.Equal(t, c.want, j.RefusedBy)
			assert.Equal(t, 2, j.Refusals)
		})
	}
}

// endless is an index that always has one more page, on which there is nothing that is wanted.
type endless struct {
	dynamo.Querier
	limits []*int32
}

func (e *endless) Query(_ context.Context, in *sdk.QueryInput, _ ...func(*sdk.Options)) (*sdk.QueryOutput, error) {
	e.limits = append(e.limits, in.Limit)
	return &sdk.QueryOutput{LastEvaluatedKey: map[string]types.AttributeValue{"id": word(fmt.Sprint("acme%2Fx#job_", len(e.limits)))}}, nil
}

// TestAListIsLookedThroughForSoManyPages, and goes on where it was left: also where nothing was found.
func TestAListIsLookedThroughForSoManyPages(t *testing.T) {
	for name, w := range map[string]media.Wanted{"of one state": {State: media.Running, Limit: 10}, "of one kind": {Kind: media.Music, Limit: 10}} {
		t.Run(name, func(t *testing.T) {
			api := &endless{}
			page, err := (&dynamo.Jobs{API: api, Table: "t"}).List(t.Context(), "acme/x", w)
			require.NoError(t, err)
			assert.Equal(t, media.Page{More: true, Last: "job_8"}, page)
			require.Len(t, api.limits, 8)
			assert.EqualValues(t, 11, *api.limits[0])
			assert.Nil(t, api.limits[1], "whole megabytes from the second on")
		})
	}
}

// TestAnIDThatIsNoKeyIsNobodys: no call is made for it, which DynamoDB would refuse.
func TestAnIDThatIsNoKeyIsNobodys(t *testing.T) {
	j, err := (&dynamo.Jobs{API: &putting{}, Table: "t"}).Get(t.Context(), "acme", strings.Repeat("x", 2048))
	require.NoError(t, err)
	assert.Nil(t, j)
}

// onePage is an index with one page.
type onePage struct {
	dynamo.Querier
	items []map[string]types.AttributeValue
}

func (l onePage) Query(context.Context, *sdk.QueryInput, ...func(*sdk.Options)) (*sdk.QueryOutput, error) {
	return &sdk.QueryOutput{Items: l.items}, nil
}

// TestAnItemThatIsNoJobKeepsNoOtherFromBeingFound: an operator's hand, or another version, may have written it. It stands first among the
// due ones for as long as it is there, so that without this no sweep would find anything any more.
func TestAnItemThatIsNoJobKeepsNoOtherFromBeingFound(t *testing.T) {
	good, err := dynamo.WriteJob(media.New("job_1", "acme", media.Video, "veo", []byte(`{}`), "evt_1", time.Unix(0, 0)))
	require.NoError(t, err)
	for why, broken := range map[string]map[string]types.AttributeValue{
		`reading the job "job_2": its status is "paused"`: {"job": word("job_2"), "status": word("paused"), "detail": word("{}")},
		`reading the job "job_3": its detail is not JSON`: {"job": word("job_3"), "status": word("running"), "detail": word("S1")},
	} {
		table := &dynamo.Jobs{API: onePage{items: []map[string]types.AttributeValue{broken, good}}, Table: "t"}
		open, err := table.Open(t.Context(), time.Now(), 10)
		require.EqualError(t, err, why)
		require.Len(t, open, 1)
		assert.Equal(t, "job_1", open[0].ID)
		page, err := table.List(t.Context(), "acme", media.Wanted{Limit: 10})
		require.NoError(t, err)
		require.EqualError(t, page.Unread, why)
		assert.Equal(t, open, page.Jobs)
	}
}

// leaves is an index whose pages are as short as a megabyte may make them.
type leaves struct {
	dynamo.Querier
	items [][]map[string]types.AttributeValue
	asked []*sdk.QueryInput
}

func (l *leaves) Query(_ context.Context, in *sdk.QueryInput, _ ...func(*sdk.Options)) (*sdk.QueryOutput, error) {
	asked := *in
	l.asked = append(l.asked, &asked)
	n := len(l.asked)
	out := &sdk.QueryOutput{Items: l.items[n-1]}
	if n < len(l.items) {
		out.LastEvaluatedKey = map[string]types.AttributeValue{"id": word(fmt.Sprint("after leaf ", n))}
	}
	return out, nil
}

// TestAListIsReadOnUntilItsPageIsFull: the pages of the index are not those of the list.
func TestAListIsReadOnUntilItsPageIsFull(t *testing.T) {
	written := func(id string) map[string]types.AttributeValue {
		it, err := dynamo.WriteJob(media.New(id, "acme", media.Video, "veo", []byte(`{}`), "evt_1", time.Unix(0, 0)))
		require.NoError(t, err)
		return it
	}
	a, b, c := written("job_a"), written("job_b"), written("job_c")
	for name, tt := range map[string]struct {
		items [][]map[string]types.AttributeValue
		w     media.Wanted
		ids   []string
		last  string
		asked int
	}{
		"two short pages and one too many":    {[][]map[string]types.AttributeValue{{a}, {b, c}, {c}}, media.Wanted{Limit: 2}, []string{"job_a", "job_b"}, "job_b", 2},
		"a page that is empty in the middle":  {[][]map[string]types.AttributeValue{{a}, {}, {b}}, media.Wanted{Limit: 2}, []string{"job_a", "job_b"}, "", 3},
		"with a filter, all the same":         {[][]map[string]types.AttributeValue{{}, {a}, {b}}, media.Wanted{Limit: 2, Kind: media.Video}, []string{"job_a", "job_b"}, "", 3},
		"nothing at all":                      {[][]map[string]types.AttributeValue{{}}, media.Wanted{Limit: 2}, nil, "", 1},
		"exactly as many as are on one leaf":  {[][]map[string]types.AttributeValue{{a, b}}, media.Wanted{Limit: 2}, []string{"job_a", "job_b"}, "", 1},
		"the last one of those is not wanted": {[][]map[string]types.AttributeValue{{a, b}, {}}, media.Wanted{Limit: 2, State: media.Queued}, []string{"job_a", "job_b"}, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			api := &leaves{items: tt.items}
			page, err := (&dynamo.Jobs{API: api, Table: "t"}).List(t.Context(), "acme", tt.w)
			require.NoError(t, err)
			var ids []string
			for _, j := range page.Jobs {
				ids = append(ids, j.ID)
			}
			assert.Equal(t, tt.ids, ids)
			assert.Equal(t, tt.last != "", page.More)
			assert.Equal(t, tt.last, page.Last)
			require.Len(t, api.asked, tt.asked)
			for n, in := range api.asked[1:] {
				assert.Equal(t, map[string]types.AttributeValue{"id": word(fmt.Sprint("after leaf ", n+1))}, in.ExclusiveStartKey)
			}
		})
	}
}

func FuzzReadJob(f *testing.F) {
	f.Add("status=running\ndetail={}\nseq=1\nnext_poll_at=2030-01-01T00:00:12.500Z\ncancel_asked=true")
	f.Add("status=failed\ndetail={\"upstream\":\"x\"}\n#poll_number=-1\n#version=99999999999999999999\nlast_error=x\nresult_object=o\n#result_size=-5")
	f.Add("status=dancing\ndetail={}")
	f.Add("status=queued\ndetail={}\n#refusals=3\n@channel=fal/veo\n@credential=main\n@channel=")
	f.Fuzz(func(t *testing.T, lines string) {
		it, refusers := map[string]types.AttributeValue{}, &types.AttributeValueMemberL{}
		for line := range strings.Lines(lines) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if name, isNumber := strings.CutPrefix(name, "#"); isNumber {
				it[name] = number(value)
				continue
			}
			if name, isOfRefuser := strings.CutPrefix(name, "@"); isOfRefuser {
				refusers.Value = append(refusers.Value, &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{name: word(value)}})
				it["refused_by"] = refusers
				continue
			}
			it[name] = word(value)
		}
		j, err := dynamo.ReadJob(it)
		if err != nil {
			return
		}
		if !slices.Contains(media.States(), j.State) || j.Progress < 0 || j.Submits < 0 || j.Result != nil && j.Result.Size < 0 {
			t.Fatalf("%+v", j)
		}
		again, err := dynamo.WriteJob(j)
		if err != nil {
			t.Fatal(err)
		}
		back, err := dynamo.ReadJob(again)
		if err != nil || back.State != j.State || back.Seq != j.Seq || !reflect.DeepEqual(back.Error, j.Error) || !reflect.DeepEqual(back.Result, j.Result) || !slices.Equal(back.RefusedBy, j.RefusedBy) {
			t.Fatalf("%v: %+v became %+v", err, j, back)
		}
	})
}
