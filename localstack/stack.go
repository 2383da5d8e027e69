package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"spillway/internal/catalog/source"
	"spillway/internal/runtimeapi"
	"spillway/internal/settings"
	"spillway/internal/simulate"
)

const templateFile = "template.yaml"

// run runs the stack until ctx ends, which is no error. Nothing that it started is left when it returns.
func run(ctx context.Context, o options, stdout, terminal io.Writer) error {
	stderr := &sharedWriter{to: terminal}
	d, err := readDeployment()
	if err != nil {
		return err
	}
	entrance, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("listening for clients (-addr chooses another address): %w", err)
	}
	defer entrance.Close()
	s, err := o.bringUp(ctx, d, d.functions, logOf, stderr)
	if err != nil {
		return stopped(ctx, err)
	}
	defer s.close()
	s.feed(o, d, stderr)
	front := s.functions[d.entrance()]
	o.greet(stdout, entrance.Addr(), front, s)
	return serve(ctx, entrance, front.front)
}

// running is the functions and what they call.
type running struct {
	simulator *simulator
	aws       *services
	functions map[string]*runningFunction // by logical id
	starve    context.CancelFunc          // ends what feeds the functions; nil: nothing does
	feeding   sync.WaitGroup
}

// A runningFunction is one function, started.
type runningFunction struct {
	function
	log   *os.File
	front *runtimeapi.Front
}

// logOf is the name of the log of a function.
func logOf(f function) string { return shortName(f.logicalID) + ".log" }

// bringUp builds functions and starts them, each with its log in a file of the name that logName gives it. All of them write
// what a person should see to stderr, at the same time.
func (o options) bringUp(ctx context.Context, d deployment, functions []function, logName func(function) string, stderr *sharedWriter) (_ *running, err error) {
	configuration, err := o.readConfiguration()
	if err != nil {
		return nil, err
	}
	bootstraps := map[string]string{}
	for _, f := range functions {
		if bootstraps[f.logicalID], err = build(ctx, f.logicalID, o.out, stderr); err != nil {
			return nil, err
		}
		if err := deploy(configuration, f, filepath.Dir(bootstraps[f.logicalID])); err != nil {
			return nil, err
		}
	}
	s := &running{functions: map[string]*runningFunction{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.simulator, err = startSimulator(); err != nil {
		return nil, err
	}
	if s.aws, err = o.startAWS(ctx, d); err != nil {
		return nil, err
	}
	for _, f := range functions {
		env, err := o.environment(f, s.aws.endpoint, s.simulator.url, configuration, os.LookupEnv)
		if err != nil {
			return nil, err
		}
		if s.functions[f.logicalID], err = o.startLogged(f, bootstraps[f.logicalID], env, logName(f), stderr); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// startLogged starts a function whose log goes into a file of this name, which is begun anew.
func (o options) startLogged(f function, bootstrap string, env []string, logName string, terminal io.Writer) (*runningFunction, error) {
	log, err := os.Create(filepath.Join(o.out, logName))
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", f.logicalID, err)
	}
	front, err := o.start(f, bootstrap, env, &functionLog{name: shortName(f.logicalID), file: log, terminal: terminal})
	if err != nil {
		log.Close()
		return nil, err
	}
	return &runningFunction{f, log, front}, nil
}

// A sharedWriter keeps the lines of several functions, and of this process, apart.
type sharedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p) //nolint:wrapcheck // it is the terminal's
}

// close ends what has been started of s.
func (s *running) close() {
	if s.starve != nil {
		s.starve()
	}
	for _, f := range s.functions {
		f.front.Close()
	}
	s.feeding.Wait() // not before the fronts: their end ends the invocations under way
	for _, f := range s.functions {
		f.log.Close()
	}
	if s.aws != nil {
		s.aws.close()
	}
	if s.simulator != nil {
		s.simulator.close()
	}
}

// stopped is nil when ctx has ended: what failed then failed because of that.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// readDeployment reads the template, which must hold one function with a function URL, beside any that only events invoke.
func readDeployment() (deployment, error) {
	text, err := os.ReadFile(templateFile)
	if err != nil {
		return deployment{}, fmt.Errorf("reading the template (run this from the project's root): %w", err)
	}
	d, err := readTemplate(templateFile, text)
	if err != nil {
		return deployment{}, err
	}
	if d.entrance() == "" {
		return deployment{}, fmt.Errorf("%s must hold one function with a function URL, no more: one is what listens here", templateFile)
	}
	return d, nil
}

// entrance is the logical id of the one function with a function URL; empty: there is none, or more than one.
func (d deployment) entrance() (logicalID string) {
	for _, f := range d.functions {
		switch {
		case f.url == nil:
		case logicalID != "":
			return ""
		default:
			logicalID = f.logicalID
		}
	}
	return logicalID
}

// readConfiguration returns the route configuration as JSON.
func (o options) readConfiguration() ([]byte, error) {
	configuration, err := source.Read(o.config)
	if err != nil {
		return nil, fmt.Errorf("using -config %s:\n%w", o.config, err)
	}
	return configuration, nil
}

// deploy puts the route configuration where the function looks for it in its task root.
func deploy(configuration []byte, f function, taskRoot string) error {
	name := f.env[settings.Config]
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%s is %q in %s, which is no path inside the deployed package", settings.Config, name, templateFile)
	}
	if err := os.WriteFile(filepath.Join(taskRoot, name), configuration, 0o600); err != nil {
		return fmt.Errorf("deploying the configuration: %w", err)
	}
	return nil
}

// A simulator is the simulated provider, listening.
type simulator struct {
	url      string
	provider *simulate.Provider
	serving  sync.WaitGroup
}

func startSimulator() (*simulator, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the simulated provider: %w", err)
	}
	s := &simulator{url: "http://" + listener.Addr().String() + "/v1", provider: simulate.New()}
	s.serving.Go(func() { _ = s.provider.Serve(listener) }) // ends with close; a provider that went away is what gateways are for
	return s, nil
}

func (s *simulator) close() {
	s.provider.Close()
	s.serving.Wait()
}

// start starts the function with one environment, so that a function that cannot start is heard of now. Strict: what
// would hang or surprise clients in Lambda is to fail here.
func (o options) start(f function, bootstrap string, env []string, log io.Writer) (*runtimeapi.Front, error) {
	mode := runtimeapi.Buffered
	if f.url != nil && f.url.stream {
		mode = runtimeapi.Stream
	}
	front, err := runtimeapi.New(runtimeapi.Function{
		Name:        f.logicalID,
		Bootstrap:   bootstrap,
		Env:         env,
		Timeout:     f.timeout,
		MemoryMB:    f.memoryMB,
		Concurrency: o.concurrency,
		Mode:        mode,
		Freeze:      true,
		Stdout:      log,
		Stderr:      log,
	}, runtimeapi.Prestart(1), runtimeapi.Strict())
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", f.logicalID, err)
	}
	return front, nil
}

// serve serves handler until ctx ends; connections are then cut.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 30 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	err := server.Close()
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// greet says where the stack is and what to try first.
func (o options) greet(w io.Writer, addr net.Addr, front *runningFunction, s *running) {
	url, simulator := "http://"+reachable(addr), strings.TrimSuffix(s.simulator.url, "/v1")
	fmt.Fprintf(w, "ready %s\nlogs  %s (warnings and errors are shown here too); Ctrl-C ends everything\n", url, strings.Join(s.logs(), ", "))
	if o.providers == simulated {
		fmt.Fprintf(w, "\nA model that answers 503 for ever, and the fallback that answers in its place:\n\n%s\n\n"+
			"The same answer however often it is asked for (Idempotent-Replayed from the second time on):\n\n%s\n\n"+
			"A video: a job that the poller looks after, what became of it, and what the receiver of its callback was told:\n\n%s\n\n  %s\n  curl %s/_sim/callbacks\n\n",
			fallbackCall(url), keyedCall(url), videoCall(url, simulator), jobsCall(url), simulator)
		fmt.Fprintf(w, "The simulated provider answers at %s (chat/completions, responses, messages, models/…:generateContent);\n"+
			"what it has been sent is at %s/_sim/log.\n", s.simulator.url, simulator)
	}
	fmt.Fprintf(w, "\nWhat the environments share:\n\n%s\n\n", s.aws.looks(front.function))
}

// logs are the paths of the logs.
func (s *running) logs() []string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(s.functions)) {
		all = append(all, s.functions[id].log.Name())
	}
	return all
}

func fallbackCall(url string) string {
	return call(url+"/v1/chat/completions", "", `{"model":"sim-f04","fallback_models":["sim-ok"],"stream":true,"messages":[{"role":"user","content":"hello"}]}`)
}

func keyedCall(url string) string {
	return call(url+"/v1/chat/completions", " -H 'Idempotency-Key: first'", `{"model":"sim-ok","messages":[{"role":"user","content":"hello"}]}`)
}

func videoCall(url, simulator string) string {
	return call(url+"/v1/videos", " -H 'Idempotency-Key: my-video'", `{"model":"sim-video","prompt":"a lighthouse in the rain","callback_url":"`+simulator+`/_sim/callback"}`)
}

func jobsCall(url string) string { return "curl -H 'Authorization: Bearer dev' " + url + "/v1/jobs" }

// call is a request as it is pasted into a shell.
func call(url, header, body string) string {
	return strings.Join([]string{
		"curl -N -i " + url,
		"-H 'Authorization: Bearer dev' -H 'Content-Type: application/json'" + header,
		"-d '" + body + "'",
	}, " \\\n  ")
}

// reachable is addr as a client on this machine writes it: a wildcard address is no destination.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
