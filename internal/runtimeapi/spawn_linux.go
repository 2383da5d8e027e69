package runtimeapi

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// start starts cmd in a process group of its own, so that the terminal's signals reach this process alone, and has the
// kernel kill it when this process is gone, however it went: a frozen child would outlive it and hold its memory.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	spawner() <- func() { started <- cmd.Start() }
	return <-started
}

// spawner is the one goroutine of this package that outlives its caller. The parent-death signal is sent when the
// *thread* that spawned the child ends (prctl(2), PR_SET_PDEATHSIG), and the Go runtime ends threads; this goroutine
// keeps its thread until the process ends.
var spawner = sync.OnceValue(func() chan<- func() {
	requests := make(chan func())
	go func() {
		runtime.LockOSThread()
		for spawn := range requests {
			spawn()
		}
	}()
	return requests
})
