package runtimeapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// PeakRSS is the most memory that the process has had resident since it was started, in bytes: what Lambda reports as "Max
// Memory Used", but for the runtime's own. The process must still be there, frozen or not. It needs Linux.
func (e Environment) PeakRSS() (int64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(e.PID) + "/status")
	if err != nil {
		return 0, fmt.Errorf("reading the status of process %d: %w", e.PID, err)
	}
	peak, err := highWater(status)
	if err != nil {
		return 0, fmt.Errorf("reading the peak memory of process %d: %w", e.PID, err)
	}
	return peak, nil
}

// highWater is the VmHWM of a process's status (proc_pid_status(5)), in bytes. It is that of the program that runs: the maximum that
// wait4(2) tells of an ended process may be its parent's, from before the exec. A process that has ended and is not reaped has none.
func highWater(status []byte) (int64, error) {
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		value, ok := strings.CutPrefix(lines.Text(), "VmHWM:")
		if !ok {
			continue
		}
		kilo, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		n, err := strconv.ParseInt(kilo, 10, 53)
		if !ok || err != nil || n < 0 {
			return 0, fmt.Errorf("VmHWM is %q", value)
		}
		return n << 10, nil
	}
	return 0, errors.New("it has no VmHWM")
}
