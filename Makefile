# trueup. The two commands for a newcomer: `make demo` and `make test`.

SHELL := /bin/bash
.DEFAULT_GOAL := build
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
CACHE   := $(or $(TRUEUP_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/trueup)
LINT_VERSION := v2.15.0
LINT    := $(CACHE)/tools/golangci-lint-$(LINT_VERSION)/golangci-lint
# Prometheus' own tool at a version of the Go module: v0.316.0 is Prometheus 3.16.0.
PROMTOOL_VERSION := v0.316.0
PROMTOOL := $(CACHE)/tools/promtool-$(PROMTOOL_VERSION)/promtool

.PHONY: build
build: ## compile the product to bin/trueup
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/trueup ./cmd/trueup

.PHONY: deps
deps: ## install the Debian packages that the lab and the tests need, if any is missing
	lab/deps.sh

.PHONY: kubernetes
kubernetes: ## compile Kubernetes and etcd from source, once per version, into the cache
	lab/kubernetes/build.sh >/dev/null

.PHONY: test
test: deps kubernetes vet unit integration lint packaging ## everything that must pass before a change lands

.PHONY: unit
unit: kubernetes ## the main module's tests: rules, simulated nodes, a real API server, a real OpenSSH server
	go test -count=1 -timeout 20m ./...

.PHONY: page
page: ## the server's page in a headless Chromium, at each width, in light and dark, by keyboard alone; needs the package chromium
	@command -v chromium >/dev/null || { echo "make page: no chromium: apt-get install chromium" >&2; exit 1; }
	go test -tags page -count=1 -run '^Test(Pages|ARolloutBy|ReadingAnd|WhatIsTyped)' ./internal/server/web

.PHONY: sim
SEEDS ?= 20000
sim: ## play SEEDS seeds of faults and third parties in the simulated world
	go test ./internal/world -count=1 -timeout 0 -run 'TestSeeds$$' -seeds $(SEEDS) -v

.PHONY: tour
tour: ## a simulated rollout before your eyes, without any set-up
	go run ./cmd/tour

.PHONY: race
race: kubernetes ## the same with the race detector
	go test -race -count=1 -timeout 40m ./...

.PHONY: mutants
mutants: kubernetes ## test the tests: break the engine in one small place at a time; each time a test must fail (half an hour)
	go run ./internal/mutants $(ARGS)

.PHONY: integration
integration: deps image ## the lab's tests: real guests, real kubelets, the real binary; one package after the other, for two cores
	cd lab && go test -count=1 -p 1 -timeout 55m -skip '^Test(Stories|Cold)$$' ./...

.PHONY: stories
stories: deps image ## clusters, guests and kubelets that are not as most are, on the lab: stopped, rebooted, misconfigured, hard to reach; the cold method (twenty minutes)
	cd lab && go test -count=1 -v -run '^Test(Stories|Cold)$$' -timeout 60m ./e2e

.PHONY: image
image: deps kubernetes ## build the guests' image, once per version of its inputs, into the cache
	go run ./lab/cmd/lab build

.PHONY: vet
vet:
	go vet ./...
	cd lab && go vet ./...

.PHONY: lint
lint: $(LINT) ## golangci-lint and shellcheck; the former is compiled once into the cache
	$(LINT) run ./...
	cd lab && $(LINT) run --config ../.golangci.yml ./...
	shellcheck lab/*.sh lab/*/*.sh lab/*/*/*.sh packaging/*.sh

$(LINT):
	@echo "Compiling golangci-lint $(LINT_VERSION) once: about 2 minutes on 2 cores" >&2
	GOBIN=$(dir $(LINT)) GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

.PHONY: packaging
packaging: $(PROMTOOL) ## the alerts' own tests, and the systemd unit; promtool is compiled once into the cache
	packaging/check.sh $(PROMTOOL)

# Without service discovery of clouds, which nothing here needs, there is far less to compile.
$(PROMTOOL):
	@echo "Compiling promtool $(PROMTOOL_VERSION) once: 2 to 3 minutes on 2 cores" >&2
	GOBIN=$(dir $(PROMTOOL)) GOFLAGS= go install -tags remove_all_sd github.com/prometheus/prometheus/cmd/promtool@$(PROMTOOL_VERSION)

.PHONY: vuln
vuln: ## govulncheck; needs access to the vulnerability database
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

.PHONY: demo
demo: deps image build ## a real cluster in software-emulated guests, scaled live before your eyes
	lab/demo.sh

.PHONY: bench
ROUNDS ?= 3
bench: deps image ## trueup beside a runbook and CloudStack's draft reconciler, each on a fresh lab (half an hour); results go to bin/compare
	@command -v jq curl >/dev/null || { echo "make bench: the runbook needs jq and curl: apt-get install jq curl" >&2; exit 1; }
	go run ./lab/cmd/compare --rounds $(ROUNDS)

.PHONY: bench-node
bench-node: deps image build ## what trueup itself adds to a node, and a status of 4 nodes, measured on the lab
	cd lab && go test -run '^$$' -bench . -benchtime 1x -timeout 40m ./e2e

.PHONY: soak
soak: deps image ## kill the real program 30 times at random moments, or SOAK_KILLS times, and resume it elsewhere (half an hour); SOAK_SEED repeats
	cd lab && go test -tags soak -count=1 -v -run '^TestSoak$$' -timeout 4h ./e2e

.PHONY: help
help:
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | column -t -s "$$(printf '\t')"
