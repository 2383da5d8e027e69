package state_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"spillway/internal/dynamo"
	"spillway/internal/media"
	"spillway/internal/simulate/state"
	"spillway/internal/sqsqueue"
	"spillway/internal/storetest"
)

const (
	visibility = time.Second
	receives   = 2
)

func openedJobs(t *testing.T) (*state.State, aws.Config, map[string]string) {
	t.Helper()
	s, err := state.OpenJobs(state.Jobs{Visibility: visibility, Receives: receives})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	config, env := told(t, s)
	return s, config, env
}

func TestJobsKeepTheirContractOverTheWire(t *testing.T) {
	s, config, _ := openedJobs(t)
	storetest.Jobs(t, &dynamo.Jobs{API: dynamo.New(config), Table: s.Names.Jobs})
}

func TestAMessageThatIsNeverDoneIsPutAside(t *testing.T) {
	s, config, env := openedJobs(t)
	sender := &sqsqueue.Queue{API: sqsqueue.New(config), URL: env["SPILLWAY_WEBHOOKS_QUEUE"]}
	require.NoError(t, sender.Send(t.Context(), []byte("to be told"), 0))
	calls := s.Calls()
	require.Len(t, calls, 1)
	assert.Equal(t, [2]string{"SendMessage", s.Names.Webhooks}, [2]string{calls[0].Operation, calls[0].Table})

	q := s.Queue(s.Names.Webhooks)
	for range receives {
		got, err := q.Receive(t.Context(), 10, 3*visibility)
		require.NoError(t, err)
		require.Len(t, got, 1)
		assert.Equal(t, "to be told", got[0].Body)
		time.Sleep(visibility + 100*time.Millisecond) // the emulator looks at what it hides only when it is asked
	}
	got, err := q.Receive(t.Context(), 10, 0)
	require.NoError(t, err)
	assert.Empty(t, got)
	dead, err := s.Dead(t.Context(), s.Names.Webhooks)
	require.NoError(t, err)
	require.Len(t, dead, 1)
	assert.Equal(t, "to be told", dead[0].Body)
	for _, other := range []string{s.Names.Polls, s.Names.Generate} {
		dead, err := s.Dead(t.Context(), other)
		require.NoError(t, err)
		assert.Empty(t, dead)
	}
}

func TestWhatWasAppliedSaysHowItEnded(t *testing.T) {
	s, config, _ := openedJobs(t)
	jobs := &dynamo.Jobs{API: dynamo.New(config), Table: s.Names.Jobs}
	var statuses []int
	s.Watch(func(c state.Call, m state.Moment) bool {
		if m == state.Applied {
			statuses = append(statuses, c.Status)
		} else {
			assert.Zero(t, c.Status)
		}
		return true
	})
	j := media.New("job_1", "acme", media.Video, "veo", []byte(`{}`), "evt_1", time.Now())
	require.NoError(t, jobs.Create(t.Context(), j))
	require.Error(t, jobs.Create(t.Context(), j))
	assert.Equal(t, []int{200, 400}, statuses)
}
