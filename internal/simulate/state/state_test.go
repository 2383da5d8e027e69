package state_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/dynamo"
	"spillway/internal/idempotency"
	"spillway/internal/provider/wire"
	"spillway/internal/s3store"
	"spillway/internal/settings"
	"spillway/internal/simulate/state"
	"spillway/internal/storetest"
)

func opened(t *testing.T) (*state.State, aws.Config, *dynamo.Idempotency) {
	t.Helper()
	s, err := state.Open()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	config, env := told(t, s)
	return s, config, &dynamo.Idempotency{API: dynamo.New(config), Table: env["SPILLWAY_IDEMPOTENCY_TABLE"]}
}

// told is what a function reads of its environment.
func told(t *testing.T, s *state.State) (aws.Config, map[string]string) {
	t.Helper()
	env := map[string]string{"SPILLWAY_ADDR": "127.0.0.1:0"}
	for _, e := range s.Env() {
		for i := range e {
			if e[i] == '=' {
				env[e[:i]] = e[i+1:]
				break
			}
		}
	}
	read, err := settings.Load(func(name string) string { return env[name] })
	require.NoError(t, err, "what a function is told is what it needs")
	config := aws.Config{Region: read.State.Region, BaseEndpoint: &read.State.DynamoDB, HTTPClient: &http.Client{Transport: &wire.Client{}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		})}
	return config, env
}

func TestTheStoresKeepTheirContractsOverTheWire(t *testing.T) {
	s, config, claims := opened(t)
	t.Run("keys", func(t *testing.T) { storetest.Idempotency(t, claims) })
	t.Run("circuits", func(t *testing.T) {
		storetest.Circuits(t, &dynamo.Health{API: dynamo.New(config), Table: s.Names.Health})
	})
	t.Run("objects", func(t *testing.T) {
		storetest.Objects(t, &s3store.Objects{API: s3store.New(config), Bucket: s.Names.Results})
	})
}

var key = idempotency.Key{Organization: "o", Key: "k"}

func claiming() idempotency.Record {
	now := time.Now()
	return idempotency.Claiming(key, "f", "owner", "request", false, now.Add(time.Minute), now)
}

func TestACallIsCutOffInEitherMoment(t *testing.T) {
	for name, tc := range map[string]struct {
		at   state.Moment
		left int // items
	}{
		"when it arrives nothing is done":       {state.Arrived, 0},
		"when it is applied it is, and remains": {state.Applied, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, claims := opened(t)
			s.Watch(func(c state.Call, m state.Moment) bool { return c.Operation != "PutItem" || m != tc.at })
			_, err := claims.Claim(t.Context(), claiming(), time.Now())
			require.Error(t, err)
			items, err := s.Items(s.Names.Idempotency)
			require.NoError(t, err)
			require.Len(t, items, tc.left)
			calls := s.Calls()
			require.Len(t, calls, 1, "nothing beneath calls again")
			assert.Equal(t, [2]string{"PutItem", s.Names.Idempotency}, [2]string{calls[0].Operation, calls[0].Table})
		})
	}
}

func TestACallThatIsHeldIsDoneLater(t *testing.T) {
	s, _, claims := opened(t)
	arrived, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.Watch(func(_ state.Call, m state.Moment) bool {
		if m == state.Applied {
			close(done)
			return true
		}
		close(arrived)
		<-release
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := claims.Claim(ctx, claiming(), time.Now())
	require.ErrorIs(t, err, context.Canceled)
	items, err := s.Items(s.Names.Idempotency)
	require.NoError(t, err)
	require.Empty(t, items)
	close(release)
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		require.Fail(t, "it was not done")
	}
	items, err = s.Items(s.Names.Idempotency)
	require.NoError(t, err)
	require.Len(t, items, 1)
	assert.Equal(t, "owner", items[0]["owner"])
	assert.NotEmpty(t, items[0]["in_progress_until"])
}

func TestAStoreThatIsDownAnswersNothing(t *testing.T) {
	s, _, claims := opened(t)
	s.Watch(state.Refuse)
	_, err := claims.Get(t.Context(), key)
	require.Error(t, err)
	s.Watch(nil)
	_, err = claims.Get(t.Context(), key)
	require.NoError(t, err)
}

func TestARefusalSaysWhatStandsThere(t *testing.T) {
	s, _, claims := opened(t)
	_, err := claims.Claim(t.Context(), claiming(), time.Now())
	require.NoError(t, err)
	there, err := claims.Claim(t.Context(), claiming(), time.Now())
	require.NoError(t, err)
	require.NotNil(t, there)
	assert.Equal(t, "owner", there.Owner)
	assert.Len(t, s.Calls(), 2, "nothing is read beside the two claims")
}
