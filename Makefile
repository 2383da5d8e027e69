# Everything is built one way: no cgo, and without the RPC mode of aws-lambda-go, which provided.al2023 never uses.
# The race detector is the one exception: it needs cgo, and so a C compiler.
TAGS   := lambda.norpc
GO     := CGO_ENABLED=0 go
PYTHON ?= python3

# What `make run` passes to the stack: make run ARGS='-addr 127.0.0.1:4000 -queue-faults duplicate=0.2,drop=0.05,reorder'
ARGS ?=

# A function's source folder is its logical id in template.yaml without the suffix, in lower case:
# GatewayFunction is functions/gateway. `go run ./localstack` follows the same rule.
FUNCTIONS := GatewayFunction PollerFunction SweeperFunction
source     = ./functions/$(shell echo $(1:Function=) | tr '[:upper:]' '[:lower:]')

# What /healthz calls itself.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# $(call configuration,file) checks infra/gateway.yaml and writes it as the JSON that functions read. It runs on this
# machine, whatever is built.
configuration = GOOS= GOARCH= $(GO) run -tags $(TAGS) ./internal/catalog/source/compile -in infra/gateway.yaml -out $(1)

# $(call build-function,LogicalId,folder) leaves in folder what Lambda unpacks into /var/task.
define build-function
	mkdir -p $(2)
	$(GO) build -trimpath -tags $(TAGS) -ldflags '-s -w -X main.version=$(VERSION)' -o $(2)/bootstrap $(call source,$(1))
	$(call configuration,$(2)/gateway.json)
endef

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# `go run ./localstack` does the same; without it in between, the stack ends even when make is killed with SIGKILL.
.PHONY: run
run: ## The whole stack on this machine, on http://127.0.0.1:3000, with simulated providers (Ctrl-C ends it)
	@$(GO) build -tags $(TAGS) -o build/local/localstack ./localstack && exec build/local/localstack $(ARGS)

.PHONY: job-demo
job-demo: ## Media jobs from their orders to their works, on a stack of its own: states, replay, cancel, link, callback, the table's row
	@$(GO) build -tags $(TAGS) -o build/local/localstack ./localstack && exec build/local/localstack -demo $(ARGS)

# Of the shape that a function URL sends: see events/README.md.
EVENT ?= events/chat-stream.json

.PHONY: invoke
invoke: ## One event through the real binary, printed while it streams: make invoke EVENT=events/chat.json
	@$(GO) build -tags $(TAGS) -o build/local/localstack ./localstack && exec build/local/localstack -invoke $(EVENT) $(ARGS)

.PHONY: test
test: ## Every test: no network, no Docker, no C compiler
	$(GO) test -tags $(TAGS) ./...

# The packages whose tests heed AWS_ENDPOINT_URL. -p 1: an emulator has one process, and a suite counts its seconds.
ENDPOINT_TESTS = $(addprefix ./,$(sort $(dir $(shell grep -rl --include='*_test.go' AWS_ENDPOINT_URL functions infra internal localstack))))

.PHONY: test-aws
test-aws: ## What speaks to AWS against AWS_ENDPOINT_URL: LocalStack, moto, DynamoDB's own emulator with an S3 beside it
	@test -n "$$AWS_ENDPOINT_URL" || { echo "make test-aws: AWS_ENDPOINT_URL names no endpoint; make moto brings one, and localstack/compose.yaml another"; exit 1; }
	$(GO) test -tags $(TAGS) -count=1 -p 1 $(ENDPOINT_TESTS)

.PHONY: moto
moto: ## make test-aws against moto, which is strict about expressions and sizes (needs Python 3)
	@PYTHON=$(PYTHON) sh infra/moto/run.sh $(MAKE) --no-print-directory test-aws

.PHONY: check
check: static race ## Before a commit: format, vet, tidy modules, and every test under the race detector

.PHONY: static
static: ## Format, vet, tidy modules
	@unformatted=$$(gofmt -l functions internal infra localstack); \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w mends it):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet -tags $(TAGS) ./...
	$(GO) mod tidy -diff

# Only packages that have tests, so that the output ends with results.
.PHONY: race
race: ## Every test under the race detector (needs a C compiler)
	@cc=$$(go env CC); command -v $${cc%% *} >/dev/null || { \
		echo "make race: the race detector needs a C compiler and '$$cc' is not on PATH; install gcc, or name one in CC"; exit 1; }
	CGO_ENABLED=1 go test -race -tags $(TAGS) \
		$$(go list -tags $(TAGS) -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)

.PHONY: lint
lint: .tools/golangci-lint ## golangci-lint, at the version pinned in infra/tools/go.mod
	.tools/golangci-lint run

.tools/golangci-lint: infra/tools/go.mod infra/tools/go.sum
	$(GO) -C infra/tools build -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: rie
rie: .tools/aws-lambda-rie ## Every event of each function under AWS's Runtime Interface Emulator, at the version pinned in infra/tools/go.mod
	AWS_LAMBDA_RIE=$(CURDIR)/$< $(GO) test -tags $(TAGS) -count=1 -v -p 1 -run RuntimeInterfaceEmulator ./functions/gateway ./functions/poller ./functions/sweeper

.tools/aws-lambda-rie: infra/tools/go.mod infra/tools/go.sum
	$(GO) -C infra/tools build -o $(CURDIR)/$@ github.com/aws/aws-lambda-runtime-interface-emulator/cmd/aws-lambda-rie

.PHONY: prices
prices: ## The price table anew, from its pinned source and infra/prices/overrides.json (needs npm and node)
	$(GO) run -tags $(TAGS) ./infra/prices

.PHONY: simulate
simulate: ## What circuits cost and gain over thousands of simulated outages (minutes; ends with whether every bound holds)
	@$(GO) run -tags $(TAGS) ./internal/breaker/simulation

.PHONY: bench
bench: build ## What the gateway costs beside a direct call of the same upstream: a table, in about 8 minutes; gates nothing
	@$(GO) run -tags $(TAGS) ./internal/simulate/bench

# How long each fuzz target runs.
FUZZTIME ?= 20s

.PHONY: fuzz
fuzz: ## Every decoder's fuzz target, FUZZTIME each
	@mkdir -p build; for file in $$(grep -rlE '^func Fuzz' --include='*_test.go' internal); do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9]*)\(.*/\1/p' $$file); do \
			echo "$$target in $$(dirname $$file)"; \
			if $(GO) test -tags $(TAGS) -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x ./$$(dirname $$file) \
				>build/fuzz.log 2>&1; then tail -n 1 build/fuzz.log; continue; fi; \
			if ! grep -q 'context deadline exceeded' build/fuzz.log || grep -q 'Failing input' build/fuzz.log; then cat build/fuzz.log; exit 1; fi; \
			echo "no finding: the time ran out in the middle of an input (https://go.dev/issue/56238)"; \
		done; \
	done

.PHONY: faults
faults: ## The fault suite: real function binaries against providers that misbehave, one line a fault
	@$(GO) run -tags $(TAGS) ./internal/simulate/faults

# A module of its own: the SDKs never reach the product's module graph. Without -race: they are slow to build with it.
.PHONY: clients
clients: ## The official SDKs as clients of the real binary
	$(GO) -C internal/clients test -tags $(TAGS) ./...

.PHONY: build
build: ## What is deployed: linux/arm64 functions, each in build/<LogicalId>
build: $(addprefix build/,$(FUNCTIONS))

.PHONY: $(addprefix build/,$(FUNCTIONS))
$(addprefix build/,$(FUNCTIONS)): export GOOS := linux
$(addprefix build/,$(FUNCTIONS)): export GOARCH := arm64
$(addprefix build/,$(FUNCTIONS)): build/%:
	$(call build-function,$*,build/$*)

# `sam build` (BuildMethod: makefile) asks for build-<LogicalId> and takes what it finds in ARTIFACTS_DIR.
.PHONY: $(addprefix build-,$(FUNCTIONS))
$(addprefix build-,$(FUNCTIONS)): export GOOS := linux
$(addprefix build-,$(FUNCTIONS)): export GOARCH := arm64
$(addprefix build-,$(FUNCTIONS)): build-%:
	$(call build-function,$*,$(ARTIFACTS_DIR))

.PHONY: sam-check
sam-check: ## Lint template.yaml and check what the SAM transform makes of it (needs Python 3)
	@PYTHON=$(PYTHON) sh infra/samcheck/run.sh template.yaml

.PHONY: clean
clean: ## Remove what make has built and installed in this folder
	rm -rf build .tools .venv .aws-sam
