package dynamo_test

import (
	"context"
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
