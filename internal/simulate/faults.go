package simulate

import "time"

// A fault makes the reply to one call of its model.
type fault func(exchange) Reply

// exchange is one call on its way to a reply.
type exchange struct {
	wire    wire
	request request
	id      int
	ordinal int       // which call of its model this is, from 1
	first   time.Time // when its model was first called
	gap     time.Duration
}

// faults are the models. "Once" fails every odd call and answers the even ones,
// so that a newcomer sees the fault each time and a fresh provider starts with it.
// What each row asks of a gateway stands in the fault suite.
var faults = map[string]fault{
	"sim-ok":        exchange.healthy,
	"sim-noprefill": noPrefill,

	"sim-f01":  once(failing(throttled.after(2))),
	"sim-f02":  failing(throttled.failure()),
	"sim-f03":  once(failing(serverError.failure())),
	"sim-f04":  failing(unavailable.failure()),
	"sim-f05":  once(unanswered(Reset)),
	"sim-f06":  unanswered(Stall),
	"sim-f07":  lateFirstToken(20 * time.Second),
	"sim-f08":  cutAfter(40),
	"sim-f09":  silentAfter(20, 30*time.Second),
	"sim-f10":  malformedAfter(30),
	"sim-f11":  withoutDone(30 * time.Second),
	"sim-f12":  failing(contextLength.failure()),
	"sim-f13":  failing(contentPolicy.failure()),
	"sim-f14":  cutAfter(40),
	"sim-f15":  downFor(60*time.Second, failing(overloaded.failure())),
	"sim-f16":  failing(overloaded.failure()),
	"sim-f17":  failingInside(overloaded.failure()),
	"sim-f18":  rotate(errorAsSuccess, empty, html(200), zeroBytes),
	"sim-f18a": errorAsSuccess,
	"sim-f18b": empty,
	"sim-f18c": html(200),
	"sim-f18d": zeroBytes,
	"sim-f19":  failing(noQuota.after(1)),
	"sim-f20":  failing(rejectedKey.failure()),
	"sim-f21":  cutInToolCall,
	"sim-f22":  rotate(invalidJSON, schemaViolation),
	"sim-f23":  failing(overloaded.failure()),
	"sim-f23a": failing(overloaded.failure()),
	"sim-f23b": html(502),
	"sim-f23c": failing(throttled.failure()),
	"sim-f24":  slowly(6*time.Second, failing(unavailable.failure())),
	"sim-f31":  failing(throttled.after(30)),
	"sim-f32":  cutAfter(0),
	"sim-f33":  rotate(unfinishedHeaders, stalledBody),
	"sim-f33a": unfinishedHeaders,
	"sim-f33b": stalledBody,
	"sim-f34":  failing(overloaded.failure()),
}
