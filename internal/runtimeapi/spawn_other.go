//go:build unix && !linux

package runtimeapi

import (
	"os/exec"
	"syscall"
)

// start starts cmd in a process group of its own, so that the terminal's signals reach this process alone. There is no
// parent-death signal here: a frozen environment outlives a parent that is killed without Close.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}
