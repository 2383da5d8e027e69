//go:build linux

package runtimeapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spillway/internal/runtimeapi"
)

func TestEachWriteReachesTheClientBeforeTheNext(t *testing.T) {
	s, dir := start(t, streaming()), t.TempDir()
	resp := s.get(t, "/gated?dir="+dir)
	body := bufio.NewReader(resp.Body)
	for i := range 3 {
		equal(t, fmt.Sprintf("tick %d", i), readLine(t, body))
		open(t, dir, strconv.Itoa(i)) // only now the function writes on
	}
	_, err := body.ReadByte()
	equal(t, io.EOF, err)
	equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
}

func TestThePreludeBecomesTheHeadOfTheResponse(t *testing.T) {
	s := start(t, streaming())
	resp := s.get(t, "/head")
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	equal(t, 418, resp.StatusCode)
	equal(t, "short and stout", string(body))
	equal(t, "text/x-tea", resp.Header.Get("Content-Type"))
	equal(t, "short", resp.Header.Get("X-Pot"))
	equal(t, []string{"a=1; Path=/", "b=2"}, resp.Header.Values("Set-Cookie"))
	equal(t, "3", resp.Header.Get("X-Amzn-Remapped-Content-Length"), "the length is the platform's to say")
	check(t, resp.Header.Get("X-Amzn-Requestid") != "", "no request id")
}

func TestFailuresBeforeTheStatusAre502(t *testing.T) {
	tests := map[string]struct {
		fn   runtimeapi.Function
		path string
		log  string
	}{
		"the function returns an error":       {streaming(), "/refused", "errorString: refused"},
		"the process exits":                   {streaming(), "/dead", "exit status 3"},
		"the prelude has no end":              {raw("no separator"), "/", "ended before the end of its prelude"},
		"the prelude is over 16 KB":           {raw("endless prelude"), "/", "no end of the prelude within 16384 bytes"},
		"the prelude is not JSON":             {raw("prelude is not JSON"), "/", "decoding the prelude"},
		"the status is informational":         {raw("informational status"), "/", "103 is not a status"},
		"the report is not JSON":              {raw("report"), "/", "Function.Odd: not JSON"},
		"a buffered function reports failure": {buffered(), "/", "unexpected end of JSON input"},
		"a stream behind a buffered URL":      {with(raw("byte by byte"), func(fn *runtimeapi.Function) { fn.Mode = runtimeapi.Buffered }), "/", "its URL is BUFFERED"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.fn)
			if name == "a buffered function reports failure" {
				test.log = "told to fail: on purpose"
				resp, err := http.Post(s.url, "application/json", strings.NewReader(`{"fail":"on purpose"}`))
				must(t, err)
				resp.Body.Close()
				equal(t, 502, resp.StatusCode)
			} else {
				status, body, err := s.fetch(t, test.path)
				must(t, err)
				equal(t, 502, status)
				equalJSON(t, `{"message":"Internal Server Error"}`, body)
			}
			contains(t, s.logs.String(), test.log)
		})
	}
}

func with(fn runtimeapi.Function, change func(*runtimeapi.Function)) runtimeapi.Function {
	if change != nil {
		change(&fn)
	}
	return fn
}

func TestFailuresAfterTheStatusCutTheStream(t *testing.T) {
	tests := map[string]struct {
		fn    runtimeapi.Function
		path  string
		first string
		boots int // after one more request
		log   string
	}{
		"an error in the trailers leaves the environment alive": {streaming(), "/broken", "partial", 1, "upstream died"},
		"a panic ends the process":                              {streaming(), "/panic", "partial", 2, "exit status 2"},
		"the deadline ends the process": {
			with(streaming(), func(fn *runtimeapi.Function) { fn.Timeout = 200 * time.Millisecond }),
			"/hang", "begun", 2, "Task timed out after 0.20 seconds",
		},
		"a broken connection ends the process": {raw("break off"), "/", "partial", 2, "Runtime.TruncatedResponse"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.fn.Concurrency = 1
			s, dir := start(t, test.fn), t.TempDir()
			resp := s.get(t, test.path+"?dir="+dir)
			equal(t, 200, resp.StatusCode)
			body := bufio.NewReader(resp.Body)
			equal(t, test.first, readLine(t, body))
			open(t, dir, "panic")
			rest, err := io.ReadAll(body)
			errorIs(t, err, io.ErrUnexpectedEOF)
			equal(t, "", string(rest))
			contains(t, s.logs.String(), test.log)

			again := s.get(t, "/pid")
			equal(t, 200, again.StatusCode, "the place is not free again")
			equal(t, test.boots, s.Boots())
		})
	}
}

func TestAPanicEndsOnlyItsOwnEnvironment(t *testing.T) {
	s, dir := start(t, streaming()), t.TempDir()
	good, bad := s.get(t, "/gated?dir="+dir), s.get(t, "/panic?dir="+dir)
	body := bufio.NewReader(good.Body)
	equal(t, "tick 0", readLine(t, body))
	equal(t, 2, len(s.Environments()))

	open(t, dir, "panic")
	_, err := io.ReadAll(bad.Body)
	errorIs(t, err, io.ErrUnexpectedEOF)
	equal(t, 1, len(s.Environments()))

	open(t, dir, "0")
	equal(t, "tick 1", readLine(t, body))
	open(t, dir, "1")
	open(t, dir, "2")
	_, err = io.ReadAll(body)
	must(t, err)
}

func TestTheDeadlineKills(t *testing.T) {
	fn := streaming()
	fn.Timeout, fn.Concurrency = 200*time.Millisecond, 1
	s := start(t, fn, runtimeapi.Prestart(1))
	pid := s.Environments()[0].PID

	began := time.Now()
	status, _, err := s.fetch(t, "/stall")
	must(t, err)
	equal(t, 502, status)
	check(t, time.Since(began) >= fn.Timeout, "answered before the deadline")
	eventually(t, "the process is gone", func() bool { return !alive(pid) })
	check(t, strconv.Itoa(pid) != s.pid(t), "the environment is not replaced")
	contains(t, s.logs.String(), "Task timed out after 0.20 seconds")
}

func TestAnIdleEnvironmentOutlivesItsLastDeadline(t *testing.T) {
	fn := streaming()
	fn.Timeout = 100 * time.Millisecond
	s := start(t, fn)
	pid := s.pid(t)
	<-time.After(2 * fn.Timeout) // nothing is to happen
	equal(t, pid, s.pid(t))
	equal(t, 1, s.Boots())
}

func TestAnExtensionIsSentSIGTERMFirst(t *testing.T) {
	tests := map[string]func(t *testing.T, s stack){
		"at the deadline": func(t *testing.T, s stack) {
			status, _, err := s.fetch(t, "/stall")
			must(t, err)
			equal(t, 502, status)
		},
		"at Close, even when frozen": func(t *testing.T, s stack) {
			eventually(t, "frozen", func() bool { return stopped(s.Environments()[0].PID) })
			must(t, s.Close())
		},
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fn := streaming()
			fn.Timeout, fn.Freeze = 200*time.Millisecond, true
			fn.Env = []string{"TERM_FILE=" + filepath.Join(dir, "terminated")}
			s := start(t, fn, runtimeapi.Prestart(1))
			pid := s.Environments()[0].PID
			end(t, s)
			eventually(t, "the function heard SIGTERM", func() bool { return exists(dir, "terminated") })
			eventually(t, "the process is gone", func() bool { return !alive(pid) })
		})
	}
}

func TestBeyondTheCapRequestsAreThrottled(t *testing.T) {
	fn := streaming()
	fn.Concurrency = 1
	s, dir := start(t, fn), t.TempDir()
	first := s.get(t, "/gated?dir="+dir)

	resp := s.get(t, "/pid")
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	equal(t, 429, resp.StatusCode)
	equal(t, "TooManyRequestsException", resp.Header.Get("X-Amzn-Errortype"))
	equalJSON(t, `{"Reason":"ConcurrentInvocationLimitExceeded","Type":"User","message":"Rate Exceeded."}`, string(body))
	_, err = s.Invoke(t.Context(), []byte(`{}`))
	errorIs(t, err, runtimeapi.ErrThrottled)

	for i := range 3 {
		open(t, dir, strconv.Itoa(i))
	}
	_, err = io.ReadAll(first.Body)
	must(t, err)
	s.pid(t)
	equal(t, 1, s.Boots())
}

func TestAFunctionRunsOnWhenItsClientHasLeft(t *testing.T) {
	fn := streaming()
	fn.Concurrency = 1
	s, dir := start(t, fn), t.TempDir()
	resp := s.get(t, "/flood?dir="+dir)
	equal(t, "begun", readLine(t, bufio.NewReader(resp.Body)))
	resp.Body.Close()

	open(t, dir, "flood") // 32 MB that nobody takes
	eventually(t, "everything is written", func() bool { return exists(dir, "written") })
	eventually(t, "the invocation is over", func() bool { return s.Environments()[0].Served == 1 })
	s.pid(t)
	equal(t, 1, s.Boots())
}

func TestTheDeadlineAlsoEndsAClientThatDoesNotRead(t *testing.T) {
	fn := streaming()
	fn.Timeout = 300 * time.Millisecond
	s, dir := start(t, fn), t.TempDir()
	resp := s.get(t, "/flood?dir="+dir)
	equal(t, "begun", readLine(t, bufio.NewReader(resp.Body)))
	open(t, dir, "flood")
	eventually(t, "the environment is gone", func() bool { return len(s.Environments()) == 0 })
	check(t, !exists(dir, "written"), "the function wrote everything")
	must(t, s.Close()) // waits for the goroutine that wrote to the client
}

func TestCloseDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	fn := streaming()
	fn.Timeout = time.Hour
	s, dir := start(t, fn), t.TempDir()
	resp := s.get(t, "/flood?dir="+dir)
	equal(t, "begun", readLine(t, bufio.NewReader(resp.Body)))
	open(t, dir, "flood")
	must(t, s.Close())
	_, err := io.ReadAll(resp.Body)
	check(t, err != nil, "the stream ended well")
	status, _, err := s.fetch(t, "/pid")
	must(t, err)
	equal(t, 503, status)
}

func TestCloseAnswersTheRequestsUnderWay(t *testing.T) {
	fn := streaming()
	s := start(t, fn)
	status := make(chan int)
	go func() {
		resp, err := http.Get(s.url + "/stall")
		if err != nil {
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	eventually(t, "busy", func() bool { all := s.Environments(); return len(all) == 1 && all[0].Busy })
	must(t, s.Close())
	equal(t, 503, <-status)
	must(t, s.Close())
}

func TestKillDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	fn := streaming()
	fn.Timeout = time.Hour
	s, dir := start(t, fn), t.TempDir()
	resp := s.get(t, "/flood?dir="+dir)
	equal(t, "begun", readLine(t, bufio.NewReader(resp.Body)))
	open(t, dir, "flood")
	must(t, s.Kill(s.Environments()[0].PID))
}

func TestAFrozenProcessStandsStill(t *testing.T) {
	size := func(dir string) int64 {
		info, err := os.Stat(filepath.Join(dir, "count"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for _, freeze := range []bool{true, false} {
		t.Run(fmt.Sprintf("freeze %v", freeze), func(t *testing.T) {
			fn := streaming()
			fn.Freeze = freeze
			s, dir := start(t, fn), t.TempDir()
			_, _, err := s.fetch(t, "/leave?dir="+dir)
			must(t, err)
			pid := s.Environments()[0].PID
			if freeze {
				eventually(t, "the process is stopped", func() bool { return stopped(pid) })
				check(t, s.Environments()[0].Frozen, "not listed as frozen")
				before := size(dir)
				// Nothing is to happen in this time, in which the control makes hundreds of steps.
				<-time.After(300 * time.Millisecond)
				equal(t, before, size(dir))
			} else {
				before := size(dir)
				eventually(t, "the goroutine counts on", func() bool { return size(dir) > before+50 })
				check(t, !stopped(pid), "stopped without Freeze")
			}

			gates := t.TempDir()
			resp := s.get(t, "/gated?dir="+gates)
			before := size(dir)
			eventually(t, "the goroutine counts during an invocation", func() bool { return size(dir) > before+50 })
			for i := range 3 {
				open(t, gates, strconv.Itoa(i))
			}
			_, err = io.ReadAll(resp.Body)
			must(t, err)
			equal(t, 1, s.Boots())
		})
	}
}

func TestFreezingLosesNoEvent(t *testing.T) {
	fn := streaming()
	fn.Freeze, fn.Concurrency = true, 2
	s := start(t, fn)
	equal(t, map[int]int{200: 400}, s.hammer(t, 2, 200))
	check(t, s.Boots() <= 2, "more environments than clients")
}

// hammer sends requests from some clients at once and counts the statuses of whole answers.
func (s stack) hammer(t *testing.T, clients, requests int) map[int]int {
	t.Helper()
	var (
		group    sync.WaitGroup
		mu       sync.Mutex
		statuses = map[int]int{}
		failures []error
	)
	for range clients {
		group.Go(func() {
			for range requests {
				status, err := 0, error(nil)
				if resp, getErr := http.Get(s.url + "/pid"); getErr != nil {
					err = getErr
				} else {
					status = resp.StatusCode
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				mu.Lock()
				if err != nil {
					failures = append(failures, err)
				} else {
					statuses[status]++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	must(t, errors.Join(failures...))
	return statuses
}

func TestWhichEnvironmentServes(t *testing.T) {
	tests := map[string]struct {
		options  []runtimeapi.Option
		distinct int
	}{
		"the one used last":             {nil, 1},
		"each in turn with round robin": {[]runtimeapi.Option{runtimeapi.RoundRobin()}, 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, streaming(), append(test.options, runtimeapi.Prestart(3))...)
			var pids []string
			for range 6 {
				pids = append(pids, s.pid(t))
			}
			equal(t, pids[:3], pids[3:])
			slices.Sort(pids)
			equal(t, test.distinct, len(slices.Compact(pids)))
			equal(t, 3, s.Boots())
		})
	}
}

func TestManyClientsShareFewEnvironments(t *testing.T) {
	fn := streaming()
	fn.Concurrency = 4
	s := start(t, fn)
	statuses := s.hammer(t, 16, 20)
	equal(t, 320, statuses[200]+statuses[429], statuses)
	check(t, s.Boots() <= 4, "the cap is exceeded")
	served := 0
	for _, e := range s.Environments() {
		served += e.Served
	}
	equal(t, statuses[200], served)
}

func TestKillFreesThePlace(t *testing.T) {
	fn := streaming()
	fn.Concurrency, fn.Freeze = 1, true
	s := start(t, fn, runtimeapi.Prestart(1))
	pid := s.Environments()[0].PID
	must(t, s.Kill(pid)) // it is frozen
	check(t, !alive(pid), "alive after Kill")
	equal(t, 0, len(s.Environments()))
	check(t, strconv.Itoa(pid) != s.pid(t), "the environment is not replaced")
	equal(t, 2, s.Boots())
	check(t, s.Kill(pid) != nil, "no error")
	contains(t, s.Kill(pid).Error(), "no environment")
}

func TestAProcessThatDiesWhileIdleIsReplaced(t *testing.T) {
	fn := streaming()
	fn.Concurrency = 1
	s := start(t, fn, runtimeapi.Prestart(1))
	pid := s.Environments()[0].PID
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "the death is noticed", func() bool { return len(s.Environments()) == 0 })
	check(t, strconv.Itoa(pid) != s.pid(t), "the environment is not replaced")
	contains(t, s.logs.String(), "signal: killed")
}

func TestAFailedInitIsReportedAndHeld(t *testing.T) {
	tests := map[string]struct {
		fn      runtimeapi.Function
		options []runtimeapi.Option
		report  []string
	}{
		"the process exits":        {raw("exit at init"), nil, []string{"exit status 3", "last output: no such table: jobs"}},
		"the process reports":      {raw("report at init"), nil, []string{"Config.Bad: two routes are called a", "last output: reporting"}},
		"the process is not ready": {raw("never ready"), []runtimeapi.Option{runtimeapi.InitLimit(100 * time.Millisecond)}, []string{"init timed out after 0.10 seconds"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.fn, test.options...)
			for range 5 {
				status, body, err := s.fetch(t, "/")
				must(t, err)
				equal(t, 502, status)
				equalJSON(t, `{"message":"Internal Server Error"}`, body)
			}
			equal(t, 1, s.Boots(), "no process for each request")
			_, err := s.Invoke(t.Context(), []byte(`{}`))
			failure := functionError(t, err)
			equal(t, "Runtime.InitError", failure.Type)
			for _, part := range test.report {
				contains(t, failure.Message, part)
				contains(t, s.logs.String(), part)
			}

			test.fn.Name = "prestarted"
			_, err = runtimeapi.New(test.fn, append(test.options, runtimeapi.Prestart(1))...)
			check(t, err != nil, "no error")
			contains(t, err.Error(), test.report[0])
		})
	}
}

func TestNewRefusesWhatCannotRun(t *testing.T) {
	good := with(raw("echo"), func(fn *runtimeapi.Function) { fn.Name = "good" })
	tests := map[string]struct {
		change  func(*runtimeapi.Function)
		options []runtimeapi.Option
		problem string
	}{
		"no name":                     {func(fn *runtimeapi.Function) { fn.Name = "" }, nil, "needs a name"},
		"no binary":                   {func(fn *runtimeapi.Function) { fn.Bootstrap += ".none" }, nil, "no such file"},
		"a folder for a binary":       {func(fn *runtimeapi.Function) { fn.Bootstrap = bootstraps }, nil, "not an executable file"},
		"a negative timeout":          {func(fn *runtimeapi.Function) { fn.Timeout = -1 }, nil, "negative"},
		"a negative limit":            {nil, []runtimeapi.Option{runtimeapi.LimitAnswers(runtimeapi.Limits{Streamed: -1})}, "cannot be negative"},
		"a bandwidth of nothing":      {nil, []runtimeapi.Option{runtimeapi.Shape(runtimeapi.Bandwidth{Burst: 1})}, "at least one byte"},
		"more prestarted than capped": {func(fn *runtimeapi.Function) { fn.Concurrency = 1 }, []runtimeapi.Option{runtimeapi.Prestart(2)}, "exceed the cap of 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := runtimeapi.New(with(good, test.change), test.options...)
			check(t, err != nil, "no error")
			contains(t, err.Error(), test.problem)
		})
	}
}

func TestInvoke(t *testing.T) {
	s := start(t, buffered())
	tests := map[string]struct {
		event, answer string
		errorType     string
		message       string
	}{
		"the answer comes back as it is": {event: `{"answer":{"batchItemFailures":[]}}`, answer: `{"batchItemFailures":[]}`},
		"the function fails":             {event: `{"fail":"no"}`, errorType: "errorString", message: "told to fail: no"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer, err := s.Invoke(t.Context(), []byte(test.event))
			if test.errorType == "" {
				must(t, err)
				equal(t, test.answer, string(answer))
				return
			}
			failure := functionError(t, err)
			equal(t, test.errorType, failure.Type)
			equal(t, test.message, failure.Message)
			check(t, failure.Payload != nil, "no payload")
		})
	}
	t.Run("an event over 6 MB is refused", func(t *testing.T) {
		_, err := s.Invoke(t.Context(), make([]byte, 6<<20+1))
		errorIs(t, err, runtimeapi.ErrTooLarge)
	})
	equal(t, 1, s.Boots(), "a reported failure does not cost the environment")
	t.Run("an answer over 6 MB fails", func(t *testing.T) {
		_, err := s.Invoke(t.Context(), []byte(`{"size":6291600}`))
		failure := functionError(t, err)
		equal(t, "Function.ResponseSizeTooLarge", failure.Type)
		eventually(t, "the process has ended over its 413", func() bool { return len(s.Environments()) == 0 })
		contains(t, s.logs.String(), "unexpected status code: 413")
	})
	t.Run("an answer of 6 MB and 100 bytes is passed on", func(t *testing.T) {
		answer, err := s.Invoke(t.Context(), []byte(`{"size":6291556}`))
		must(t, err)
		equal(t, 6291556, len(answer))
	})
}

func TestInvokeReturnsWithItsContextAndTheFunctionRunsOn(t *testing.T) {
	s, dir := start(t, streaming()), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error)
	go func() {
		_, err := s.Invoke(ctx, []byte(`{"rawPath":"/gated","rawQueryString":"dir=`+dir+`"}`))
		returned <- err
	}()
	eventually(t, "busy", func() bool { all := s.Environments(); return len(all) == 1 && all[0].Busy })
	cancel()
	errorIs(t, <-returned, context.Canceled)
	for i := range 3 {
		open(t, dir, strconv.Itoa(i))
	}
	eventually(t, "the invocation is over", func() bool { all := s.Environments(); return len(all) == 1 && all[0].Served == 1 })
}

// TestKillOfTheParentLeavesNothing ends a parent of a frozen environment as no Close can see: by SIGKILL.
func TestKillOfTheParentLeavesNothing(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "BE_A_PARENT_OF="+filepath.Join(bootstraps, "raw"))
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	must(t, err)
	must(t, parent.Start())
	defer func() { _ = parent.Process.Kill(); _ = parent.Wait() }()

	pid, err := strconv.Atoi(readLine(t, bufio.NewReader(out)))
	must(t, err)
	eventually(t, "the environment is frozen", func() bool { return stopped(pid) })
	must(t, parent.Process.Kill())
	eventually(t, "the environment is gone", func() bool { return !alive(pid) })
}

// beParent is what the test binary does when it is started as that parent.
func beParent(bootstrap string) {
	f, err := runtimeapi.New(runtimeapi.Function{
		Name: "orphan", Bootstrap: bootstrap, Env: []string{"BEHAVIOUR=outlive"}, Freeze: true,
	}, runtimeapi.Prestart(1))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(f.Environments()[0].PID)
	select {}
}

// TestAnEnvironmentOutlivesTheThreadThatAskedForIt guards the price of the parent-death signal: the kernel sends it
// when the thread that started the process ends, and the Go runtime moves goroutines between threads and ends them.
func TestAnEnvironmentOutlivesTheThreadThatAskedForIt(t *testing.T) {
	var s stack
	asked := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		s = start(t, raw("echo"), runtimeapi.Prestart(1))
		asked <- syscall.Gettid()
	}()
	threads := []int{<-asked}

	// Whichever thread did the work for that goroutine is idle now: take every one there is, and end them too.
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		finish = make(chan struct{})
	)
	for range 50 {
		all.Add(1)
		go func() {
			runtime.LockOSThread()
			mu.Lock()
			threads = append(threads, syscall.Gettid())
			mu.Unlock()
			all.Done()
			<-finish
		}()
	}
	all.Wait()
	close(finish)
	eventually(t, "the threads are gone", func() bool {
		return !slices.ContainsFunc(threads, func(tid int) bool {
			return tid != os.Getpid() && exists("/proc/self/task", strconv.Itoa(tid)) // the main thread stays
		})
	})
	answer, err := s.Invoke(t.Context(), []byte(`{"still":"here"}`))
	must(t, err)
	equal(t, `{"still":"here"}`, string(answer))
	equal(t, 1, s.Boots())
}
