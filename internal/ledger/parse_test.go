package ledger_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/fault"
	"spillway/internal/ledger"
)

func TestAResultIsKeptAsItWasWritten(t *testing.T) {
	s, err := ledger.Parse([]byte(`{ "state":"succeeded" , "owner":"o\u0031", "result": { "n" : 1.0e+3, "id": 9007199254740993, "t": "a\u00e9 b" } }`))
	require.Nil(t, err)
	assert.Equal(t, ledger.Said{State: ledger.Succeeded, Owner: "o1", Result: jsontext.Value(`{"n":1.0e+3,"id":9007199254740993,"t":"a\u00e9 b"}`)}, s)
	s, err = ledger.Parse([]byte(`{"state":"succeeded","owner":"o","result":null}`))
	require.Nil(t, err)
	assert.Equal(t, "null", string(s.Result))
}

func TestAnErrorRepeatsNothingOfTheBodyButAName(t *testing.T) {
	_, err := ledger.Parse([]byte(`{"state":"started","owner":"o","` + strings.Repeat("é", 100) + `":"PLANTED"}`))
	require.NotNil(t, err)
	assert.Equal(t, strings.Repeat("é", 32), err.Param)
	assert.NotContains(t, err.Message, "PLANTED")
}

// FuzzParse: whatever is read obeys the bounds, and a result is JSON that reads as itself.
func FuzzParse(f *testing.F) {
	for _, body := range []string{`{"state":"started","owner":"o"}`, `{"state":"succeeded","owner":"o","result":[1,{"a":"\u0000"}]}`, `{"state":"failed","owner":"é"} `,
		`{"owner":1}`, `{"state":"started","state":"failed"}`, `[]`, ``, "{\"\xff\":1}", `{"state":"succeeded","owner":"\ud800","result":-0}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		s, err := ledger.Parse(body)
		require.Equal(t, before, string(body), "the body is not changed")
		if err != nil {
			assert.NotEmpty(t, err.Message)
			assert.Contains(t, []fault.Code{fault.ValidationFailed, fault.RequestTooLarge}, err.Code)
			return
		}
		assert.Contains(t, []ledger.State{ledger.Started, ledger.Succeeded, ledger.Failed}, s.State)
		assert.NotEmpty(t, s.Owner)
		assert.LessOrEqual(t, len([]rune(s.Owner)), ledger.MaxOwner)
		if s.Result == nil {
			return
		}
		assert.Equal(t, ledger.Succeeded, s.State)
		require.True(t, s.Result.IsValid(), "%q", s.Result)
		again, err := ledger.Parse([]byte(`{"state":"succeeded","owner":"o","result":` + string(s.Result) + `}`))
		require.Nil(t, err)
		assert.Equal(t, s.Result, again.Result)
	})
}
