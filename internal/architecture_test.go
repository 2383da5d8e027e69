// Package internal_test holds the import rule of ARCHITECTURE.md.
package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "spillway/"

// layer is where a package stands. A package imports its own layer and those before it, except where the checks below
// say less.
type layer int

const (
	vocabulary layer = iota
	policy
	beside // telemetry, settings
	seam   // the interface that gateway and adapters share
	adapter
	gateway
	front
	function
	offstage // never linked into a function
	unplaced
)

// layers places each folder of ours; a folder stands where its nearest named parent does.
var layers = map[string]layer{
	"internal/chat": vocabulary, "internal/fault": vocabulary, "internal/sse": vocabulary, "internal/redact": vocabulary,

	"internal/catalog": policy, "internal/route": policy, "internal/breaker": policy, "internal/retry": policy,
	"internal/idempotency": policy, "internal/tenant": policy, "internal/contract": policy, "internal/media": policy,
	"internal/usage": policy, "internal/ledger": policy, "internal/trace": policy,

	"internal/telemetry": beside, "internal/settings": beside,

	"internal/provider": seam, "internal/provider/*": adapter,
	"internal/dynamo": adapter, "internal/sqsqueue": adapter, "internal/s3store": adapter, "internal/secret": adapter, "internal/fetch": adapter,

	"internal/gateway": gateway, "internal/jobs": gateway,
	"internal/dialect": front, "internal/edge": front,
	"functions/*": function, "functions/internal/graph": function,

	"internal/storetest": offstage, "internal/runtimeapi": offstage, "internal/simulate": offstage, "localstack": offstage,
}

func layerOf(pkg string) layer {
	dir, ours := strings.CutPrefix(pkg, module)
	for ; ours && dir != "."; dir = path.Dir(dir) {
		if l, ok := layers[dir]; ok {
			return l
		}
		if l, ok := layers[path.Dir(dir)+"/*"]; ok {
			return l
		}
	}
	return unplaced
}

// graph holds the imports of each file of each package, tests left out.
type graph map[string]map[string][]string

func (g graph) imports(pkg string) []string {
	all := map[string]bool{}
	for _, list := range g[pkg] {
		for _, i := range list {
			all[i] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// chain is a shortest way from a package to one that is meant, both included; nil when there is none.
func (g graph) chain(from string, meant func(string) bool) []string {
	came := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range g.imports(queue[0]) {
			if _, seen := came[next]; seen {
				continue
			}
			came[next] = queue[0]
			if meant(next) {
				var back []string
				for at := next; at != ""; at = came[at] {
					back = append([]string{at}, back...)
				}
				return back
			}
			queue = append(queue, next)
		}
	}
	return nil
}

func ours(pkg string) bool { return strings.HasPrefix(pkg, module) }

func isAWSSDK(pkg string) bool {
	return strings.HasPrefix(pkg, "github.com/aws/aws-sdk-go") || strings.HasPrefix(pkg, "github.com/aws/smithy-go")
}

// usesAWSSDK lists the folders that may import the AWS SDK. The functions have their clients from one of them.
var usesAWSSDK = map[string]bool{"internal/dynamo": true, "internal/sqsqueue": true, "internal/s3store": true, "internal/secret": true,
	"internal/provider/bedrock": true, "functions/internal/graph": true}

// violations lists each import that breaks the rule.
func violations(g graph) []string {
	var found []string
	note := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, pkg := range slices.Sorted(maps.Keys(g)) {
		if !ours(pkg) {
			continue
		}
		at := layerOf(pkg)
		if at == unplaced {
			note("%s stands in no layer", pkg)
			continue
		}
		checkDirect(g, pkg, at, note)
		checkReach(g, pkg, at, note)
	}
	return found
}

// checkDirect judges what a package imports by itself.
func checkDirect(g graph, pkg string, at layer, note func(string, ...any)) {
	for _, i := range g.imports(pkg) {
		to := layerOf(i)
		switch {
		case !ours(i) || to == unplaced || at == offstage:
		case pkg == module+"internal/chat":
			note("%s imports %s, but the vocabulary of all imports nothing of ours", pkg, i)
		case to > at:
			note("%s imports %s, against the direction of the layers", pkg, i)
		case at == policy && to == policy && i != module+"internal/catalog" && !sameFolder(pkg, i):
			note("%s imports %s, another policy", pkg, i)
		case at == beside && to != vocabulary && !sameFolder(pkg, i):
			note("%s imports %s, which is not the vocabulary", pkg, i)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(g[pkg])) {
		for _, i := range g[pkg][file] {
			allowed := usesAWSSDK[strings.TrimPrefix(pkg, module)] || at == offstage
			if isAWSSDK(i) && !allowed {
				note("%s: %s imports the AWS SDK: %s", pkg, file, i)
			}
		}
	}
}

// checkReach judges what a package is linked with.
func checkReach(g graph, pkg string, at layer, note func(string, ...any)) {
	forbid := func(what string, meant func(string) bool) {
		if c := g.chain(pkg, meant); c != nil {
			note("%s reaches %s: %s", pkg, what, strings.Join(c, " → "))
		}
	}
	in := func(set ...layer) func(string) bool {
		return func(p string) bool { return ours(p) && slices.Contains(set, layerOf(p)) }
	}
	switch at {
	case vocabulary, policy:
		forbid("AWS", func(p string) bool { return strings.HasPrefix(p, "github.com/aws/") })
		forbid("net/http", func(p string) bool { return p == "net/http" })
	case gateway:
		forbid("what wire.go hands it", in(adapter, front))
	case function:
		forbid("what is never linked into a function", in(offstage))
		forbid("schemas that an AWS client builds whenever it starts, used or not (the last version without them is pinned in go.mod)", func(p string) bool {
			return isAWSSDK(p) && strings.HasSuffix(p, "/schemas")
		})
	}
}

// sameFolder reports whether one package lies inside the other.
func sameFolder(a, b string) bool {
	return strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/")
}

func TestImportRule(t *testing.T) {
	g := load(t)
	require.Contains(t, g, module+"functions/gateway")
	require.Contains(t, g, module+"functions/poller")
	require.Contains(t, g, "net/http", "the graph reaches beyond our own packages")
	for _, v := range violations(g) {
		t.Error(v)
	}
}

// load reads the import graph of what is built. The sources of ours are read file by file, which also lets `go test`
// know that its cached result depends on them.
func load(t *testing.T) graph {
	t.Helper()
	for _, dir := range []string{".", "../functions"} {
		require.NoError(t, filepath.WalkDir(dir, func(string, os.DirEntry, error) error { return nil }))
	}
	list := exec.Command("go", "list", "-deps", "-tags", "lambda.norpc", "-json=ImportPath,Dir,GoFiles,Imports", "./internal/...", "./functions/...")
	list.Dir = ".."
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	var problems bytes.Buffer
	list.Stderr = &problems
	out, err := list.Output()
	require.NoError(t, err, "go list: %s", problems.String())

	g := graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir  string
			GoFiles, Imports []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return g
		} else if err != nil {
			require.NoError(t, err)
		}
		if !ours(p.ImportPath) {
			g[p.ImportPath] = map[string][]string{"": p.Imports}
			continue
		}
		if len(p.GoFiles) == 0 {
			continue // this very folder: tests only
		}
		g[p.ImportPath] = map[string][]string{}
		for _, file := range p.GoFiles {
			g[p.ImportPath][file] = importsOf(t, filepath.Join(p.Dir, file))
		}
	}
}

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly)
	require.NoError(t, err)
	var all []string
	for _, i := range parsed.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		require.NoError(t, err)
		all = append(all, name)
	}
	return all
}

// TestCheckerFindsEachBreach: a rule that no graph can break is no rule. Each made-up graph holds one breach, or none.
func TestCheckerFindsEachBreach(t *testing.T) {
	const sdk = "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	// one makes a graph of packages with one file each: "package: imports".
	one := func(lines ...string) graph {
		g := graph{}
		for _, line := range lines {
			pkg, imports, _ := strings.Cut(line, ":")
			file := "x.go"
			if p, f, ok := strings.Cut(pkg, "#"); ok {
				pkg, file = p, f
			}
			if strings.HasPrefix(pkg, "internal/") || strings.HasPrefix(pkg, "functions/") || strings.HasPrefix(pkg, "localstack") {
				pkg = module + pkg
			}
			var list []string
			for _, i := range strings.Fields(imports) {
				if strings.HasPrefix(i, "internal/") || strings.HasPrefix(i, "functions/") || strings.HasPrefix(i, "localstack") {
					i = module + i
				}
				list = append(list, i)
			}
			if g[pkg] == nil {
				g[pkg] = map[string][]string{}
			}
			g[pkg][file] = list
		}
		return g
	}
	for name, c := range map[string]struct {
		graph graph
		want  string // empty: the graph keeps the rule
	}{
		"all layers in their direction": {one(
			"internal/chat: strings", "internal/sse: bytes", "internal/redact: fmt", "internal/fault: internal/chat time",
			"internal/catalog: internal/chat internal/redact internal/fault", "internal/route: internal/catalog internal/chat",
			"internal/telemetry: internal/chat log/slog", "internal/settings: errors", "internal/provider: internal/catalog internal/chat",
			"internal/provider/wire: internal/fault net/http", "internal/provider/openai: internal/provider internal/provider/wire internal/sse",
			"internal/gateway: internal/provider internal/route internal/telemetry", "internal/dialect: internal/chat",
			"internal/dialect/openai: internal/dialect", "internal/edge: internal/gateway internal/dialect net/http",
			"functions/gateway#main.go: internal/edge", "functions/gateway#wire.go: internal/provider/openai functions/internal/graph",
			"functions/internal/graph: internal/dynamo internal/jobs "+sdk,
			"internal/dynamo: internal/idempotency "+sdk, "internal/idempotency: internal/catalog",
			"internal/simulate: net/http", "internal/runtimeapi: internal/simulate", "localstack: internal/runtimeapi internal/edge "+sdk), ""},
		"a policy may have folders of its own":       {one("internal/contract: internal/contract/schema", "internal/contract/schema: strings"), ""},
		"a function may import the Lambda library":   {one("functions/gateway: github.com/aws/aws-lambda-go/lambda", "internal/edge: github.com/aws/aws-lambda-go/lambda"), ""},
		"bedrock may import the SDK":                 {one("internal/provider/bedrock: " + sdk), ""},
		"telemetry may be used by the gateway":       {one("internal/gateway: internal/telemetry", "internal/telemetry: log/slog"), ""},
		"the gateway may import the interface":       {one("internal/gateway: internal/provider", "internal/provider: context"), ""},
		"an adapter may use net/http":                {one("internal/provider/wire: net/http"), ""},
		"a package that nobody has placed":           {one("internal/util: strings"), "spillway/internal/util stands in no layer"},
		"a package beside internal and functions":    {one("spillway/pkg: strings"), "spillway/pkg stands in no layer"},
		"the vocabulary imports a policy":            {one("internal/fault: internal/retry"), "internal/fault imports spillway/internal/retry, against the direction"},
		"chat imports another word":                  {one("internal/chat: internal/fault"), "internal/chat imports spillway/internal/fault, but the vocabulary of all"},
		"the vocabulary reaches net/http":            {one("internal/fault: net/url", "net/url: net/http"), "internal/fault reaches net/http: spillway/internal/fault → net/url → net/http"},
		"a policy imports another":                   {one("internal/route: internal/breaker"), "internal/route imports spillway/internal/breaker, another policy"},
		"catalog imports a policy":                   {one("internal/catalog: internal/route"), "internal/catalog imports spillway/internal/route, another policy"},
		"a policy imports an adapter":                {one("internal/idempotency: internal/dynamo"), "against the direction"},
		"a policy imports telemetry":                 {one("internal/route: internal/telemetry"), "against the direction"},
		"a policy imports net/http":                  {one("internal/route: net/http"), "internal/route reaches net/http"},
		"a policy reaches net/http through a friend": {one("internal/route: example.com/helper", "example.com/helper: net/http"), "route → example.com/helper → net/http"},
		"a policy reaches net/http through catalog":  {one("internal/route: internal/catalog", "internal/catalog: net/http"), "internal/route reaches net/http"},
		"a policy imports the AWS SDK":               {one("internal/usage: " + sdk), "internal/usage reaches AWS"},
		"a policy imports the Lambda library":        {one("internal/usage: github.com/aws/aws-lambda-go/events"), "internal/usage reaches AWS"},
		"telemetry imports a policy":                 {one("internal/telemetry: internal/catalog"), "internal/telemetry imports spillway/internal/catalog, which is not the vocabulary"},
		"settings imports telemetry":                 {one("internal/settings: internal/telemetry"), "internal/settings imports spillway/internal/telemetry, which is not the vocabulary"},
		"an adapter imports the gateway":             {one("internal/provider/openai: internal/gateway"), "against the direction"},
		"the interface imports an adapter":           {one("internal/provider: internal/provider/wire"), "against the direction"},
		"the gateway imports an adapter":             {one("internal/gateway: internal/provider/openai"), "internal/gateway reaches what wire.go hands it"},
		"the gateway imports the wire":               {one("internal/gateway: internal/provider/wire"), "internal/gateway reaches what wire.go hands it"},
		"the gateway imports a store":                {one("internal/gateway: internal/dynamo"), "internal/gateway reaches what wire.go hands it"},
		"the gateway imports a dialect":              {one("internal/gateway: internal/dialect/openai"), "internal/gateway imports spillway/internal/dialect/openai, against the direction"},
		"the gateway imports the edge":               {one("internal/gateway: internal/edge"), "against the direction"},
		"the gateway reaches an adapter":             {one("internal/gateway: internal/telemetry", "internal/telemetry: internal/secret"), "gateway → spillway/internal/telemetry → spillway/internal/secret"},
		"the edge imports a function":                {one("internal/edge: functions/gateway"), "against the direction"},
		"the edge imports the AWS SDK":               {one("internal/edge: " + sdk), "spillway/internal/edge: x.go imports the AWS SDK"},
		"the edge imports smithy":                    {one("internal/edge: github.com/aws/smithy-go"), "spillway/internal/edge: x.go imports the AWS SDK"},
		"another provider imports the AWS SDK":       {one("internal/provider/gemini: " + sdk), "spillway/internal/provider/gemini: x.go imports the AWS SDK"},
		"a function imports the AWS SDK":             {one("functions/gateway#wire.go: " + sdk), "spillway/functions/gateway: wire.go imports the AWS SDK"},
		"the edge imports what functions share":      {one("internal/edge: functions/internal/graph"), "internal/edge imports spillway/functions/internal/graph, against the direction"},
		"what functions share reaches the simulator": {one("functions/internal/graph: internal/simulate"), "functions/internal/graph imports spillway/internal/simulate, against the direction"},
		"a function starts with schemas": {one("functions/gateway: internal/sqsqueue", "internal/sqsqueue: github.com/aws/aws-sdk-go-v2/service/sqs",
			"github.com/aws/aws-sdk-go-v2/service/sqs: github.com/aws/aws-sdk-go-v2/service/sqs/schemas"), "functions/gateway reaches schemas that an AWS client builds"},
		"a function imports the simulator":     {one("functions/gateway#wire.go: internal/simulate"), "functions/gateway imports spillway/internal/simulate, against the direction"},
		"a function reaches the local runtime": {one("functions/gateway: internal/edge", "internal/edge: internal/runtimeapi"), "gateway → spillway/internal/edge → spillway/internal/runtimeapi"},
		"a function reaches the local stack":   {one("functions/gateway: internal/edge", "internal/edge: localstack"), "edge → spillway/localstack"},
		"the edge imports the simulator":       {one("internal/edge: internal/simulate/suite"), "internal/edge imports spillway/internal/simulate/suite, against the direction"},
	} {
		t.Run(name, func(t *testing.T) {
			found := violations(c.graph)
			if c.want == "" {
				assert.Empty(t, found)
				return
			}
			require.NotEmpty(t, found)
			assert.Contains(t, strings.Join(found, "\n"), c.want)
		})
	}
}
