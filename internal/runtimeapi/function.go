package runtimeapi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Limits of Lambda. https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html (2026-11)
const (
	// maxPayload bounds an event, base64 and JSON included.
	maxPayload = 6 << 20
	// maxBuffered bounds a response that is not streamed: the sources of the emulator allow 100 bytes more.
	maxBuffered = maxPayload + 100
	// maxStreamed bounds the body of a stream.
	maxStreamed = 200 << 20
	// initLimit is how long a process may take until its first `next`.
	initLimit = 10 * time.Second
	// killGrace lies between SIGTERM and SIGKILL, for a process that registered an extension.
	killGrace = 400 * time.Millisecond
)

// InvokeMode is the InvokeMode of a function URL.
type InvokeMode int

const (
	Buffered InvokeMode = iota // the answer is collected, then decoded as JSON
	Stream                     // RESPONSE_STREAM: the answer is passed on as it is written
)

// A Function says what to run and how. Name and Bootstrap are required.
type Function struct {
	Name      string
	Bootstrap string // path of the binary
	Dir       string // LAMBDA_TASK_ROOT and working directory; default: the folder of Bootstrap

	// Env is added, as "NAME=value", to the environment Lambda gives a function; of two equal names the later one
	// counts, so the region and the (invalid) credentials can be replaced. Nothing is inherited from this process.
	Env []string

	Timeout     time.Duration // of one invocation, from event to the next `next`; default 3 s, as in Lambda
	MemoryMB    int           // only told to the function; default 128
	Concurrency int           // the most environments at a time; default 10

	Mode InvokeMode // of ServeHTTP; Invoke is always buffered

	// Freeze stops an idle process (SIGSTOP) and continues it before its next event, as Lambda does: work left
	// behind by a handler stands still. Off: idle processes run on.
	Freeze bool

	// Stdout and Stderr receive what the processes of all environments write, and Stderr the platform's own lines
	// about timeouts and exits. Writes are serialised, also if both are the same writer. nil: discarded.
	Stdout, Stderr io.Writer
}

func (fn Function) withDefaults() Function {
	if fn.Dir == "" {
		fn.Dir = filepath.Dir(fn.Bootstrap)
	}
	if fn.Timeout == 0 {
		fn.Timeout = 3 * time.Second
	}
	if fn.MemoryMB == 0 {
		fn.MemoryMB = 128
	}
	if fn.Concurrency == 0 {
		fn.Concurrency = 10
	}
	return fn
}

func (fn Function) check() error {
	var problems []error
	if fn.Name == "" {
		problems = append(problems, errors.New("a function needs a name"))
	}
	if info, err := os.Stat(fn.Bootstrap); err != nil {
		problems = append(problems, err)
	} else if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		problems = append(problems, fmt.Errorf("%s is not an executable file", fn.Bootstrap))
	}
	if fn.Timeout < 0 || fn.MemoryMB < 0 || fn.Concurrency < 0 {
		problems = append(problems, errors.New("timeout, memory and concurrency cannot be negative"))
	}
	return errors.Join(problems...)
}

const (
	region  = "us-east-1"
	version = "$LATEST"
)

func (fn Function) arn() string {
	return "arn:aws:lambda:" + region + ":000000000000:function:" + fn.Name
}

// environ is what Lambda sets for a custom runtime, then Env. The credentials are well-formed and open nothing.
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html (2026-11)
func (fn Function) environ(api, logStream string) []string {
	return append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + api,
		"_HANDLER=bootstrap",
		"LAMBDA_TASK_ROOT=" + fn.Dir,
		"LAMBDA_RUNTIME_DIR=/var/runtime",
		"AWS_LAMBDA_FUNCTION_NAME=" + fn.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=" + version,
		fmt.Sprintf("AWS_LAMBDA_FUNCTION_MEMORY_SIZE=%d", fn.MemoryMB),
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + fn.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME=" + logStream,
		"AWS_REGION=" + region,
		"AWS_DEFAULT_REGION=" + region,
		"AWS_ACCESS_KEY_ID=local",
		"AWS_SECRET_ACCESS_KEY=local",
		"AWS_SESSION_TOKEN=local",
		"PATH=/usr/local/bin:/usr/bin:/bin:/opt/bin",
		"LANG=en_US.UTF-8",
		"TZ=:UTC",
	}, fn.Env...)
}

// An Option changes how New builds a Front.
type Option func(*Front)

// Prestart boots n environments before New returns; one that dies at init makes New fail.
func Prestart(n int) Option { return func(f *Front) { f.prestart = n } }

// RoundRobin gives an event to the environment that has been idle longest. Without it the one used last is taken
// first, which is what Lambda is observed to do.
func RoundRobin() Option { return func(f *Front) { f.roundRobin = true } }
