package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"spillway/internal/runtimeapi"
)

// queueFaults are what goes wrong with messages between their queue and the function, as a standard queue may and as nobody
// sees it on a developer's machine by himself. The zero value is a queue without faults.
type queueFaults struct {
	drop, duplicate, late float64 // probabilities
	reorder               bool
}

// lateness is by how much a late message comes later, at most: past the next poll of a job that is quick.
const lateness = 10 * time.Second

// String implements flag.Value.
func (f *queueFaults) String() string {
	var all []string
	for _, p := range f.probabilities() {
		if *p.value > 0 {
			all = append(all, fmt.Sprintf("%s=%v", p.name, *p.value))
		}
	}
	if f.reorder {
		all = append(all, "reorder")
	}
	return strings.Join(all, ",")
}

// Set implements flag.Value.
func (f *queueFaults) Set(text string) error {
	for _, fault := range strings.Split(text, ",") {
		if err := f.add(strings.TrimSpace(fault)); err != nil {
			return err
		}
	}
	return nil
}

func (f *queueFaults) add(fault string) error {
	if fault == "reorder" {
		f.reorder = true
		return nil
	}
	name, text, _ := strings.Cut(fault, "=")
	for _, p := range f.probabilities() {
		if p.name != name {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || !(value >= 0 && value <= 1) { // a NaN is neither
			return fmt.Errorf("%s=P is a probability, from 0 to 1", name)
		}
		*p.value = value
		return nil
	}
	return fmt.Errorf("%q is none of drop=P, duplicate=P, late=P and reorder", fault)
}

type probability struct {
	name  string
	value *float64
}

func (f *queueFaults) probabilities() []probability {
	return []probability{{"drop", &f.drop}, {"duplicate", &f.duplicate}, {"late", &f.late}}
}

// spoil is a queue with the faults.
func (f queueFaults) spoil(q runtimeapi.Queue) runtimeapi.Queue {
	if f == (queueFaults{}) {
		return q
	}
	happens := func(p float64) func(runtimeapi.Message) bool {
		return func(runtimeapi.Message) bool { return rand.Float64() < p }
	}
	faulty := &runtimeapi.FaultyQueue{Queue: q, Drop: happens(f.drop), Duplicate: happens(f.duplicate)}
	late := happens(f.late)
	faulty.Delay = func(m runtimeapi.Message) time.Duration {
		if !late(m) {
			return 0
		}
		return rand.N(lateness)
	}
	if f.reorder {
		faulty.Shuffle = rand.Shuffle
	}
	return faulty
}
