# Commands for people who change the code; `make` alone explains them.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# go.mod pins the toolchain; auto lets an older installed Go fetch it.
export GOTOOLCHAIN := auto

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PKGS     ?= ./...
FUZZTIME ?= 60s

.PHONY: help
help: ## Explain the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/antiphon and bin/fakeupstream: static, reproducible, with their version
	CGO_ENABLED=0 go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/...

.PHONY: test
test: ## Run the tests with the race detector, in random order (PKGS=./...)
	go test -race -shuffle=on $(PKGS)

.PHONY: lint
lint: ## Check formatting, go vet and staticcheck
	@unformatted=$$(git ls-files -z -co --exclude-standard '*.go' | xargs -0 "$$(go env GOROOT)/bin/gofmt" -l); \
	if [[ -n $$unformatted ]]; then echo "not formatted:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...

# Each line of the list is "package target". A package that does not compile
# stops the search: a target that is not found must not look like one that passed.
.PHONY: fuzz
fuzz: ## Fuzz every target in the tree, one after another (FUZZTIME=60s each)
	@listing=$$(go test -list '^Fuzz' ./...) || { echo "$$listing"; exit 1; }; \
	targets=$$(awk '/^Fuzz/ { names[++n] = $$1 } \
		/^ok/ { for (i = 1; i <= n; i++) print $$2, names[i]; n = 0 }' <<< "$$listing"); \
	[[ -n $$targets ]] || { echo "no fuzz target found"; exit 1; }; \
	while read -r pkg target; do \
		echo "--- $$target ($$pkg)"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s "$$pkg" < /dev/null; \
	done <<< "$$targets"

.PHONY: fuzz-short
fuzz-short: ## Fuzz every target for 4 s
	@$(MAKE) --no-print-directory fuzz FUZZTIME=4s

.PHONY: conformance
conformance: ## Run real clients and outside suites against a running gateway
	go test -count=1 ./conformance/...

.PHONY: bench
bench: ## Measure allocations, then load, ratios and memory
	go test -run '^$$' -bench . -benchmem ./...
	go run ./bench

.PHONY: bench-relay
bench-relay: ## Measure answers that pass as they came, beside a bare proxy and nginx, and with 100,000 keys
	go run ./bench relay

# A must-show of the spine is an ordinary test, in the package that it is
# about, whose name begins with TestSpine.
.PHONY: show-spine
show-spine: ## Show what the spine promises: its tests, then its loads at full size
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; status=0; \
	go test -count=1 -v -run '^TestSpine' ./... > "$$log" 2>&1 || status=$$?; \
	grep -E '^--- (PASS|FAIL|SKIP): TestSpine' "$$log" || { echo "no test is named TestSpine…"; status=1; }; \
	if (( status != 0 )); then cat "$$log"; exit "$$status"; fi
	@echo "--- every golden, cut and closed at every byte (about two minutes)"
	go test -count=1 -run '^TestGoldens$$' ./upstream/chat ./upstream/native -every-byte
	go run ./bench spine

# Each of these tests logs rows of a table, which begin with a bar.
.PHONY: show-routing
show-routing: ## Show routing, reload and limits at full size: tables of what was seen (about three minutes)
	@table() { sed -n 's/^ *[a-z_]*_test.go:[0-9]*: |/|/p; /^FAIL/p; /--- FAIL/p; /^ *[a-z_]*_test.go:[0-9]*: [^|]/p'; }; \
	echo "--- one of three targets is bad: 2,000 requests for each fault, 50 at a time"; \
	go test -count=1 -v -run '^TestRoutingSurvives$$' . -routing-requests 2000 | table; \
	echo "--- how load is shared"; \
	go test -count=1 -v -run '^(TestShow.*|TestWeights|TestEjection)$$' ./internal/route -show-turns 100000 | table; \
	echo "--- the file changes under load"; \
	go test -count=1 -v -run '^TestReloadUnderLoad$$' ./cmd/antiphon -reload-time 30s -reload-streams 200 | table; \
	echo "--- limits of keys at ten times the load"; \
	go test -count=1 -v -run '^TestLimitsUnderLoad$$' ./cmd/antiphon -limit-time 60s | table; \
	echo "--- tenants that share an upstream that remembers"; \
	go test -count=1 -v -run '^TestUpstreamState' ./standard | sed -n '/^--- /p'

# A must-show of the state is an ordinary test whose name begins with TestState;
# TestStore… are the suite of the contract.
.PHONY: show-state
show-state: ## Show what is promised of memory: its tests, 200 conversations over two gateways, its figures
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; status=0; \
	go test -count=1 -v -run '^TestState|^TestStore' . ./internal/engine ./standard ./store/... > "$$log" 2>&1 || status=$$?; \
	grep -E '^--- (PASS|FAIL|SKIP): TestSto|^ *--- (PASS|FAIL|SKIP): TestState|state_test.go:[0-9]*: [0-9]' "$$log" || { echo "no test is named TestState…"; status=1; }; \
	if (( status != 0 )); then cat "$$log"; exit "$$status"; fi
	@echo "--- 200 conversations of 50 turns, each turn to one of two gateways"
	@go test -count=1 -v -timeout 30m -run '^TestStateTwoGateways$$' ./conformance -state-conversations 200 -state-turns 50 | sed -n 's/^ *state_test.go:[0-9]*: //p; /^FAIL/p; /--- FAIL/p; /^ok/p'
	@echo "--- figures, each beside the bare server (about five minutes)"
	@go run ./bench redis postgres retention

.PHONY: show-codex
show-codex: ## Show Codex as an upstream: clients, proofs and loads over the real app-server, at full size (about 5 minutes)
	CI=true go test -count=1 ./internal/stdiorpc ./upstream/codex
	@CI=true go test -count=1 -v -timeout 20m -parallel 1 -run '^TestCodexUpstream' ./conformance -codex-turns 1000 -codex-clients 50 \
		| sed -n 's/^ *codex_upstream[a-z_]*.go:[0-9]*: //p; /^ *--- /p; /^FAIL/p; /^ok/p'

# A must-show of the tool loop is a test whose name begins with TestTools.
.PHONY: show-tools
show-tools: ## Show tools that the gateway runs: the loop, limits, approval, MCP, addresses, clients, cost
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; status=0; \
	go test -count=1 -v -run '^TestTools' . > "$$log" 2>&1 || status=$$?; \
	go test -count=1 -v ./tool/... ./internal/netguard >> "$$log" 2>&1 || status=$$?; \
	grep -E '^(    )?--- (PASS|FAIL|SKIP): Test' "$$log" || { echo "no test ran"; status=1; }; \
	if (( status != 0 )); then cat "$$log"; exit "$$status"; fi
	@echo "--- real clients and real MCP servers"
	go test -count=1 -v -run '^TestToolClients$$' ./conformance | grep -E '^ *--- |^(ok|FAIL)|passed'
	@echo "--- what a round of the loop costs beside the bare calls"
	go run ./bench tools

.PHONY: show-operate
show-operate: ## Show how it is run: packages, metrics in a real Prometheus, traces, planted faults, documents, cost
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; status=0; \
	CI=true go test -count=1 -v ./deploy ./internal/telemetry > "$$log" 2>&1 || status=$$?; \
	CI=true go test -count=1 -v -run '^TestTraceOfAResponse$$' ./standard >> "$$log" 2>&1 || status=$$?; \
	CI=true go test -count=1 -v -run '^(TestPlantedFaults|TestLinks|TestShellBlocks|TestTroubleshootingQuotes|TestDocumentsNameMetrics)$$' ./conformance >> "$$log" 2>&1 || status=$$?; \
	grep -E '^ *--- (PASS|FAIL|SKIP): Test' "$$log" || { echo "no test ran"; status=1; }; \
	if (( status != 0 )); then cat "$$log"; exit "$$status"; fi
	go run ./bench telemetry

.PHONY: release
release: ## Build what is published into dist/: six platforms, checksums, bills of materials
	go run ./deploy/release -version "$(VERSION)" -out dist

# A package is asked to rewrite its goldens if its tests know the -update flag.
.PHONY: update
update: ## Rewrite the golden files; read the diff before you commit it
	@for pkg in $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do \
		if out=$$(go test "$$pkg" -update 2>&1); then echo "$$out"; \
		elif [[ $$out != *'flag provided but not defined: -update'* ]]; then echo "$$out"; exit 1; fi; \
	done

.PHONY: clean
clean: ## Remove what the targets above left in the tree
	rm -rf bin dist
	find . -name node_modules -prune -o \( -name '*.test' -o -name '*.prof' \) -type f -exec rm -f {} +
