package main

import "syscall"

// endWithParent has the kernel send SIGTERM when the parent is gone: make, or `go run`, may be killed without a word.
// Elsewhere than on Linux this process then runs on.
func endWithParent() {
	// PR_SET_PDEATHSIG is a wish of the calling thread; it fails for no valid signal.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0)
}
