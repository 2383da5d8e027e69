package dynamo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"

	"spillway/internal/breaker"
	"spillway/internal/dynamo"
)

// silent refuses every write by its condition, does not say what stands there, and cannot be read.
type silent struct{ dynamo.API }

func (silent) UpdateItem(context.Context, *sdk.UpdateItemInput, ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error) {
	return nil, &types.ConditionalCheckFailedException{}
}

func (silent) GetItem(context.Context, *sdk.GetItemInput, ...func(*sdk.Options)) (*sdk.GetItemOutput, error) {
	return nil, errors.New("throttled")
}

// TestARefusalIsARefusal: a lease that was refused is nobody's to take, also when nobody can read who has it.
func TestARefusalIsARefusal(t *testing.T) {
	s := &dynamo.Health{API: silent{}, Table: "t"}
	c, err := s.Swap(t.Context(), breaker.Key{Provider: "p"}, 1, breaker.Circuit{State: breaker.HalfOpen, Version: 2}, time.Now())
	assert.ErrorIs(t, err, breaker.ErrChanged)
	assert.Zero(t, c)
}
