package runtimeapi

import "time"

// InitLimit replaces the 10 s a process may take until its first `next`.
func InitLimit(d time.Duration) Option { return func(f *Front) { f.initLimit = d } }
