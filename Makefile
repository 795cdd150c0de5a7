# The words people type. `make help` lists them.

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 10s
LONG     ?=
SIMFLAGS ?=

TOOL     = go tool -modfile=tools/go.mod
BUILD    = go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'
TARGETS  = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

.DEFAULT_GOAL := help
.PHONY: help build test check scenario sim bench fuzz generate dev release clean

help: ## list these words
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/headrace and its live siblings (Kubernetes: minutes)
	$(BUILD) -o bin/headrace ./cmd/headrace
	go -C live build -trimpath -o ../bin/ ./cmd/...

test: ## run the tests; LONG=1 adds the long ones
	$(if $(LONG),HEADRACE_LONG=1 go test -timeout 60m ./... && go -C api test ./... && HEADRACE_LONG=1 go -C live test -timeout 60m ./...,go test ./... && go -C api test ./... && go -C live test ./...)

check: ## format, vet, staticcheck, house tests, generated files
	@.ci/formatted
	go vet ./...
	$(TOOL) staticcheck ./...
	go -C api vet ./...
	go -C live vet ./...
	cd live && go tool -modfile=../tools/go.mod staticcheck ./...
	go test ./internal/archtest
	@.ci/generated

scenario: ## run every scenario file
	go run ./cmd/headrace scenario scenarios/...

sim: ## simulate a day; more with SIMFLAGS='...'
	go run ./cmd/headrace sim $(SIMFLAGS)

bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchmem ./internal/...

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' internal cmd | \
	while IFS=: read -r file fn; do \
		echo "== $${fn#func } in $${file%/*}"; \
		go test -run '^$$' -fuzz "^$${fn#func }\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x "./$${file%/*}" </dev/null || exit 1; \
	done

generate: ## rewrite generated files and format all code
	go generate ./...
	$(TOOL) gofumpt -w .

dev: ## fetch and build the tools, and print their versions
	@go version
	@for t in gofumpt staticcheck; do echo "$$t $$($(TOOL) $$t -version)"; done
	@for t in benchstat deadcode; do $(TOOL) -n $$t >/dev/null && echo "$$t ready"; done

release: ## cross-compile into dist/, with checksums
	@rm -rf dist && mkdir dist
	@for t in $(TARGETS); do \
		echo "dist/headrace-$${t%/*}-$${t#*/}"; \
		CGO_ENABLED=0 GOOS=$${t%/*} GOARCH=$${t#*/} $(BUILD) -o "dist/headrace-$${t%/*}-$${t#*/}" ./cmd/headrace || exit 1; \
	done
	@cd dist && if command -v sha256sum >/dev/null; then sha256sum headrace-*; else shasum -a 256 headrace-*; fi >SHA256SUMS

clean: ## remove what builds and runs leave behind
	rm -rf bin dist report.html
