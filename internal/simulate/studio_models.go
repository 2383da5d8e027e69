package simulate

import "slices"

// conduct is how the jobs of a model differ from healthy ones. The zero value is healthy. What depends on a number depends on
// the job's own: nothing is left to chance.
type conduct struct {
	refuses    failure // what every order is answered with; nothing is begun
	lost       bool    // the order is taken, and the connection cut before a byte of the answer
	broken     int     // so many questions are answered by a proxy's 502
	strange    int     // so many questions are answered with a state that nobody knows
	remembered int     // after so many questions nobody knows the job any more; 0: always
	hint       int     // seconds to wait that an answer names while the job goes on; 0: none
	endless    bool    // it never ends
	empty      bool    // it succeeds and there is no work
	filtered   bool    // it ends, refused by moderation
	failed     bool    // it ends with an error of the provider's
	expired    bool    // the address of the work gives it out to nobody
	cut        bool    // the work breaks off in the middle the first time
	slow       bool    // the work trickles
	size       int64   // of the work in bytes; 0: the usual
}

const (
	usualSize = 200_000
	bigSize   = 60 << 20
)

// jobModel is a model that makes works.
type jobModel struct {
	conduct
	studio string
	does   string
}

// healthyModels are the models without a fault, by API.
var healthyModels = map[string]string{"veo": "sim-video", "fal": "sim-video-fal", "elevenlabs": "sim-music"}

var (
	everyAPI = []string{"veo", "fal", "elevenlabs"}
	polled   = []string{"veo", "fal"}
	theVeo   = []string{"veo"}
	theFal   = []string{"fal"}
	theSong  = []string{"elevenlabs"}
)

// jobConducts are the models' names behind those of the healthy ones, the APIs that have them, and what they do.
var jobConducts = []struct {
	suffix string
	of     []string
	conduct
	does string
}{
	{"", everyAPI, conduct{}, "always makes what was ordered"},
	{"-lost", everyAPI, conduct{lost: true}, "takes the order and cuts the connection before a byte of its answer: the job is there"},
	{"-refused", theVeo, conduct{refuses: throttled.after(7)}, "answers orders with a rate limit, 429, and a hint of 7 s"},
	{"-refused", theFal, conduct{refuses: noQuota.failure()}, "answers orders with an exhausted balance, 403"},
	{"-refused", theSong, conduct{refuses: throttled.after(7)}, "answers orders with too many at once, 429, and a hint of 7 s"},
	{"-down", everyAPI, conduct{refuses: unavailable.failure()}, "answers orders with 503 for ever, and takes none"},
	{"-502", polled, conduct{broken: 5}, "answers the first five polls of a job with a proxy's 502, then goes on"},
	{"-gone", polled, conduct{remembered: 1}, "knows a job for one poll, then answers 404"},
	{"-strange", polled, conduct{strange: 3}, "answers the first three polls with a state that nobody knows, then goes on"},
	{"-late", polled, conduct{hint: 8}, "answers polls with the hint to come again after 8 s"},
	{"-never", everyAPI, conduct{endless: true}, "takes the order and never ends"},
	{"-failed", polled, conduct{failed: true}, "ends with an error of its own"},
	{"-moderated", theVeo, conduct{filtered: true}, "refuses the content at the end"},
	{"-moderated", []string{"fal", "elevenlabs"}, conduct{refuses: contentPolicy.failure()}, "refuses the content of the order"},
	{"-empty", everyAPI, conduct{empty: true}, "succeeds and has no work"},
	{"-expired", polled, conduct{expired: true}, "succeeds, and the address of the work answers 403"},
	{"-cut", everyAPI, conduct{cut: true}, "breaks the work off in the middle, the first time: that of a job, or the music for a prompt"},
	{"-slow", everyAPI, conduct{slow: true}, "lets the work trickle over 20 s"},
	{"-big", everyAPI, conduct{size: bigSize}, "makes a work of 60 MB"},
}

// jobModels are the models by their names.
var jobModels = func() map[string]jobModel {
	out := map[string]jobModel{}
	for _, row := range jobConducts {
		for _, api := range row.of {
			out[healthyModels[api]+row.suffix] = jobModel{row.conduct, api, row.does}
		}
	}
	return out
}()

// JobModel is a model whose orders become jobs.
type JobModel struct {
	Name string
	// API is veo, fal or elevenlabs.
	API string
	// Does says what becomes of its jobs.
	Does string
}

// JobModels are all of them: each healthy one before those that misbehave.
func JobModels() []JobModel {
	var out []JobModel
	for _, api := range everyAPI {
		for _, row := range jobConducts {
			if slices.Contains(row.of, api) {
				out = append(out, JobModel{healthyModels[api] + row.suffix, api, row.does})
			}
		}
	}
	return out
}
