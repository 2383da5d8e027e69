package dynamo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"spillway/internal/breaker"
	"spillway/internal/fault"
)

// Health is a breaker.Store in a table with the string key "id" and the time to live "expires_at".
//
// One item, "snapshot", holds every circuit that is not plainly closed and every hold, one top-level attribute each:
// "circuit:<key>" is the version, a bar and the rest as JSON, so that a write can demand a version; "hold:<key>" is JSON. The
// window of each version of a circuit is an item of its own, "window <key> @<version>", with the attributes w_<slot>
// (weight of failures) and n_<slot> (attempts) of each bucket of 5 s. A change of state is one conditional write to the
// snapshot, and begins an empty window by naming the next one.
//
// A crash after that write and before the mark in the old window (successor) costs a failing provider one call more for
// each environment: the next snapshot tells them.
type Health struct {
	API   API
	Table string

	mu sync.Mutex
	// stale are the attributes of a window that were seen to be too old, to be removed by the next report.
	stale map[string][]string
	// size is the snapshot's, in bytes, when it was read last; pruned is when it was pruned last.
	size   int
	pruned time.Time
}

var _ breaker.Store = (*Health)(nil)

const (
	snapshotID = "snapshot"
	// No space in them: the emulator in the process puts names into the text of a condition before it reads it.
	circuitPre = "circuit:"
	holdPre    = "hold:"
	// successorName is the attribute of a window that marks it as replaced.
	successorName = "successor"
	windowTTL     = 15 * time.Minute
	// maxSnapshot is what a snapshot may hold (policy.md §6): past it no watch is added, which only costs knowledge.
	maxSnapshot = 8 << 10
	pruneEvery  = time.Minute
	pruneAtOnce = 10
)

func windowID(k breaker.Key, version uint64) string {
	return "window " + k.String() + " @" + strconv.FormatUint(version, 10)
}

// Tell implements breaker.Store: one update whose returned item is the sum.
func (s *Health) Tell(ctx context.Context, k breaker.Key, version uint64, reported []breaker.Bucket, now time.Time) (breaker.Told, error) {
	id := windowID(k, version)
	u := newUpdate()
	u.set(ttlName, number(now.Add(windowTTL).Unix()))
	for _, b := range reported {
		u.add("n_"+strconv.FormatInt(b.Slot, 10), number(int64(b.Attempts)))
		u.add("w_"+strconv.FormatInt(b.Slot, 10), real64(b.Weight))
	}
	u.remove(s.toRemove(id, u)...)
	in := u.input(s.Table, id)
	in.ReturnValues = types.ReturnValueAllNew
	out, err := s.API.UpdateItem(ctx, in)
	if err != nil {
		return breaker.Told{}, fmt.Errorf("adding to the window: %w", err)
	}
	told, old := readWindow(view(out.Attributes), now)
	s.remember(id, old)
	return told, nil
}

const (
	// maxStale bounds the attributes that one report removes.
	maxStale = 40
	// maxStaleWindows bounds the windows of which they are remembered: of one that nobody tells of again they never go.
	maxStaleWindows = 256
	// successorAge is how old a mark of a successor may be. An older one is of a circuit that may have been forgotten since,
	// and whose versions began anew.
	successorAge = breaker.ForgetAfter / 2
)

// remember notes what the next report of a window removes.
func (s *Health) remember(id string, stale []string) {
	if len(stale) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stale == nil || len(s.stale) >= maxStaleWindows {
		s.stale = map[string][]string{}
	}
	s.stale[id] = stale
}

// toRemove is what a report removes of a window. What it adds to stays: by its own clock it is not too old.
func (s *Health) toRemove(id string, u *update) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	stale := s.stale[id]
	delete(s.stale, id)
	return slices.DeleteFunc(stale, func(name string) bool { return u.names[name] != "" })
}

// readWindow reads a window's item, and the names of what is too old to count.
func readWindow(v view, now time.Time) (told breaker.Told, stale []string) {
	var buckets []breaker.Bucket
	oldest := breaker.SlotOf(now.Add(-breaker.WindowLength))
	for name := range v {
		digits, ok := strings.CutPrefix(name, "n_")
		slot, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil {
			continue
		}
		if slot <= oldest {
			if len(stale) < maxStale {
				stale = append(stale, name, "w_"+digits)
			}
			continue
		}
		attempts, _ := v.number(name)
		buckets = append(buckets, breaker.Bucket{Slot: slot, Attempts: int(min(max(attempts, 0), maxCounted)), Weight: min(v.real("w_"+digits), maxCounted)})
	}
	told.Window = told.Window.Merge(now, buckets)
	c, changed, err := parseChanged(v.text(successorName))
	switch {
	case err != nil:
	case now.Sub(changed) <= successorAge:
		told.Successor = &c
	default:
		stale = append(stale, successorName)
	}
	return told, stale
}

// maxCounted bounds what is believed of a count: no sum of them overflows.
const maxCounted = 1 << 30

// real is a number that is not negative.
func (v view) real(name string) float64 {
	n, _ := v[name].(*types.AttributeValueMemberN)
	if n == nil {
		return 0
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || !(f >= 0) { // NaN is neither
		return 0
	}
	return f
}

// Swap implements breaker.Store: one conditional update of the snapshot. Around it stand the window that next brings, which
// is there before its version is, and the mark in the old one.
func (s *Health) Swap(ctx context.Context, k breaker.Key, old uint64, next breaker.Circuit, now time.Time) (breaker.Circuit, error) {
	if next.Version == old && s.full() {
		return breaker.Circuit{}, errors.New("watching the circuit: the snapshot is full")
	}
	if given := next.Window.Buckets(now); next.Version != old && len(given) > 0 {
		if err := s.beginWindow(ctx, k, next.Version, given, now); err != nil {
			return breaker.Circuit{}, err
		}
	}
	name := circuitPre + k.String()
	value := formatCircuit(next, now)
	u := newUpdate()
	u.set(name, text(value))
	in := u.input(s.Table, snapshotID)
	in.ExpressionAttributeNames["#circuit"] = name
	in.ExpressionAttributeValues[":old"] = text(strconv.FormatUint(old, 10) + "|")
	condition := "begins_with(#circuit, :old)"
	if old == 0 {
		condition = "attribute_not_exists(#circuit) OR " + condition
	}
	in.ConditionExpression = &condition
	in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	_, err := s.API.UpdateItem(ctx, in)
	there, ok := refused(err)
	switch {
	case err == nil:
		if next.Version != old {
			s.mark(ctx, k, old, value, now)
		}
		return next, nil
	case !ok:
		return breaker.Circuit{}, fmt.Errorf("changing the circuit: %w", err)
	}
	if there == nil {
		if there, err = s.snapshot(ctx, true); err != nil { // it was refused all the same: nobody may take it for lost
			return breaker.Circuit{}, fmt.Errorf("%w, and how is not known: %w", breaker.ErrChanged, err)
		}
	}
	if there[name] == nil { // it was forgotten meanwhile
		return breaker.Circuit{}, breaker.ErrChanged
	}
	c, err := parseCircuit(view(there).text(name))
	if err != nil { // another version of the gateway wrote it: it is not ours to replace
		return breaker.Circuit{}, err
	}
	return c, breaker.ErrChanged
}

// beginWindow writes the window that a version begins with, unless somebody has begun it: who is too late to change the
// circuit finds it in use.
func (s *Health) beginWindow(ctx context.Context, k breaker.Key, version uint64, given []breaker.Bucket, now time.Time) error {
	u := newUpdate()
	u.set(ttlName, number(now.Add(windowTTL).Unix()))
	for _, b := range given {
		u.begin("n_"+strconv.FormatInt(b.Slot, 10), number(int64(b.Attempts)))
		u.begin("w_"+strconv.FormatInt(b.Slot, 10), real64(b.Weight))
	}
	if _, err := s.API.UpdateItem(ctx, u.input(s.Table, windowID(k, version))); err != nil {
		return fmt.Errorf("beginning the window: %w", err)
	}
	return nil
}

// mark tells who reports to a version that has been replaced. Without it they learn of it from the next snapshot.
func (s *Health) mark(ctx context.Context, k breaker.Key, old uint64, successor string, now time.Time) {
	u := newUpdate()
	u.set(ttlName, number(now.Add(windowTTL).Unix()))
	u.set(successorName, text(successor))
	_, _ = s.API.UpdateItem(ctx, u.input(s.Table, windowID(k, old)))
}

// Hold implements breaker.Store. The last one to write wins: what two environments hold for is the same refusal.
func (s *Health) Hold(ctx context.Context, k breaker.Key, h breaker.Holds, now time.Time) error {
	u := newUpdate()
	if h.None(now) {
		u.remove(holdPre + k.String())
	} else {
		u.set(holdPre+k.String(), text(formatHolds(h)))
	}
	if _, err := s.API.UpdateItem(ctx, u.input(s.Table, snapshotID)); err != nil {
		return fmt.Errorf("writing the hold: %w", err)
	}
	return nil
}

// Snapshot implements breaker.Store: one eventually consistent read.
func (s *Health) Snapshot(ctx context.Context) (breaker.Snapshot, error) {
	it, err := s.snapshot(ctx, false)
	if err != nil {
		return nil, err
	}
	all, size := breaker.Snapshot{}, 0
	for name, value := range it {
		v, _ := value.(*types.AttributeValueMemberS)
		if v == nil {
			continue
		}
		size += len(name) + len(v.Value)
		if k, ok := strings.CutPrefix(name, circuitPre); ok {
			if c, err := parseCircuit(v.Value); err == nil {
				e := all[k]
				e.Circuit = c
				all[k] = e
			}
		}
		if k, ok := strings.CutPrefix(name, holdPre); ok {
			e := all[k]
			e.Holds = parseHolds(v.Value)
			all[k] = e
		}
	}
	s.mu.Lock()
	s.size = size
	s.mu.Unlock()
	s.prune(ctx, it, time.Now())
	return all, nil
}

func (s *Health) snapshot(ctx context.Context, consistent bool) (item, error) {
	out, err := s.API.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.Table, Key: key(snapshotID), ConsistentRead: &consistent})
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	return out.Item, nil
}

func (s *Health) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size > maxSnapshot
}

// prune removes from the snapshot what says nothing any more, some at a time, each only if it is still as it was read.
func (s *Health) prune(ctx context.Context, it item, now time.Time) {
	s.mu.Lock()
	due := now.Sub(s.pruned) >= pruneEvery
	if due {
		s.pruned = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	u, condition := newUpdate(), []string{}
	for name, value := range it {
		v, _ := value.(*types.AttributeValueMemberS)
		if v == nil || !spent(name, v.Value, now) || len(condition) == pruneAtOnce {
			continue
		}
		u.remove(name)
		condition = append(condition, u.names[name]+" = "+u.value(v))
	}
	if len(condition) == 0 {
		return
	}
	in := u.input(s.Table, snapshotID)
	in.ConditionExpression = aws.String(strings.Join(condition, " AND "))
	_, _ = s.API.UpdateItem(ctx, in) // what has changed meanwhile is left for the next time
}

// spent reports whether an attribute of the snapshot says nothing any more: a hold that has run out; a circuit that is closed
// and not watched, and whose version nobody can mistake any more.
func spent(name, value string, now time.Time) bool {
	if strings.HasPrefix(name, holdPre) {
		return parseHolds(value).None(now)
	}
	if !strings.HasPrefix(name, circuitPre) {
		return false
	}
	c, changed, err := parseChanged(value)
	return err == nil && c.Plain(now) && (c.Version == 0 || now.Sub(changed) > breaker.ForgetAfter)
}

// storedCircuit is a circuit in the snapshot, for people too.
type storedCircuit struct {
	State      string    `json:"state"`
	Class      string    `json:"class,omitempty"`
	OpenedAt   time.Time `json:"opened_at,omitzero"`
	Until      time.Time `json:"until,omitzero"`
	Opens      int       `json:"opens,omitempty"`
	Passed     int       `json:"passed,omitempty"`
	Lease      uint64    `json:"lease,omitempty"`
	LeaseUntil time.Time `json:"lease_until,omitzero"`
	WatchUntil time.Time `json:"watch_until,omitzero"`
	ChangedAt  time.Time `json:"changed_at"`
}

func formatCircuit(c breaker.Circuit, now time.Time) string {
	b, err := json.Marshal(storedCircuit{State: c.State.String(), Class: string(c.Class), OpenedAt: c.OpenedAt.UTC(), Until: c.Until.UTC(), Opens: c.Opens, Passed: c.Passed,
		Lease: c.Lease.Number, LeaseUntil: c.Lease.Until.UTC(), WatchUntil: c.WatchUntil.UTC(), ChangedAt: now.UTC()})
	if err != nil {
		panic("a circuit always encodes: " + err.Error())
	}
	return strconv.FormatUint(c.Version, 10) + "|" + string(b)
}

func parseCircuit(s string) (breaker.Circuit, error) {
	c, _, err := parseChanged(s)
	return c, err
}

func parseChanged(s string) (breaker.Circuit, time.Time, error) {
	version, rest, ok := strings.Cut(s, "|")
	if !ok {
		return breaker.Circuit{}, time.Time{}, errors.New("reading a circuit: it has no version")
	}
	var st storedCircuit
	v, err := strconv.ParseUint(version, 10, 64)
	if err == nil {
		err = json.Unmarshal([]byte(rest), &st)
	}
	if err != nil {
		return breaker.Circuit{}, time.Time{}, fmt.Errorf("reading a circuit: %w", err)
	}
	state := slices.IndexFunc([]breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen}, func(x breaker.State) bool { return x.String() == st.State })
	if state < 0 {
		return breaker.Circuit{}, time.Time{}, errors.New("reading a circuit: its state is unknown")
	}
	c := breaker.Circuit{State: breaker.State(state), Version: v, OpenedAt: st.OpenedAt, Until: st.Until, Opens: st.Opens, Passed: st.Passed, //nolint:gosec // 0, 1 or 2
		Lease: breaker.Lease{Number: st.Lease, Until: st.LeaseUntil}, Class: fault.Class(st.Class), WatchUntil: st.WatchUntil}
	if err := possible(c); err != nil {
		return breaker.Circuit{}, time.Time{}, fmt.Errorf("reading a circuit: %w", err)
	}
	return c, st.ChangedAt, nil
}

// possible says what is wrong with a circuit that no version of ours can have written.
func possible(c breaker.Circuit) error {
	switch {
	case c.Opens < 0 || c.Opens > maxCounted || c.Passed < 0 || c.Passed > maxCounted || c.Version > maxCounted:
		return errors.New("it has a count that is out of bounds")
	case c.State != breaker.HalfOpen && (c.Lease.Number != 0 || c.Passed != 0):
		return errors.New("it is probed and not half-open")
	case c.Lease.Number > c.Version:
		return errors.New("its lease is newer than it")
	case c.State == breaker.Closed && c.Opens != 0:
		return errors.New("it is closed and counts openings")
	case c.State != breaker.Closed && c.OpenedAt.IsZero():
		return errors.New("it was never opened and is not closed")
	case c.Class != "" && !c.Class.Known():
		return errors.New("its class is unknown")
	default:
		return nil
	}
}

// storedHolds are holds in the snapshot.
type storedHolds struct {
	ThrottledUntil time.Time `json:"throttled_until,omitzero"`
	Class          string    `json:"class,omitempty"`
	Status         int       `json:"status,omitempty"`
	Code           string    `json:"code,omitempty"`
	Since          time.Time `json:"since,omitzero"`
	Until          time.Time `json:"until,omitzero"`
}

func formatHolds(h breaker.Holds) string {
	r := h.Remembered
	b, err := json.Marshal(storedHolds{ThrottledUntil: h.ThrottledUntil.UTC(), Class: string(r.Class), Status: r.Status, Code: r.Code, Since: r.Since.UTC(), Until: r.Until.UTC()})
	if err != nil {
		panic("holds always encode: " + err.Error())
	}
	return string(b)
}

func parseHolds(s string) breaker.Holds {
	var st storedHolds
	if json.Unmarshal([]byte(s), &st) != nil {
		return breaker.Holds{} // nobody is held for what cannot be read
	}
	h := breaker.Holds{ThrottledUntil: st.ThrottledUntil}
	if class := fault.Class(st.Class); class.Known() && st.Status >= 0 && st.Status < 600 {
		h.Remembered = breaker.Remembered{Class: class, Status: st.Status, Code: st.Code, Since: st.Since, Until: st.Until}
	}
	return h
}
