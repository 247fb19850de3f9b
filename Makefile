# nox-mesh-host: build, package, install, test.
#
#   make demo       see it work: three real nodes, a good version, a broken one, the report
#   make test       everything that must hold
#   make packages   VERSION=1.2.3 TARGET=x86_64-unknown-linux-musl: a package in dist/
#
# A target installs the tools it needs when it is run as root on a Debian machine; otherwise it
# says which are missing.

SHELL := /bin/sh
.DEFAULT_GOAL := help

CARGO ?= cargo
CARGO_TARGET_DIR ?= target
DIST ?= dist
VERSION ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
TARGET ?= x86_64-unknown-linux-musl
PROFILE ?= release

include packaging/package.mk
include tests/lab/lab.mk

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | sort -u | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

.PHONY: build
build: build-tools ## both programs, for this machine
	$(CARGO) build --locked --profile mesh --features mesh --bin nox-mesh
	$(CARGO) build --locked --release --bin nox-mesh-host

.PHONY: demo
demo: tools ## three real nodes, a good version, a broken one, the report (root)
	$(CARGO) test --quiet --locked --features mesh --test lab -- --live demo

.PHONY: test
test: tools format lint shellcheck test-unit test-shell test-packages test-lab ## everything that must hold

.PHONY: format
format: ## is the code formatted?
	$(CARGO) fmt --check

.PHONY: lint
lint: ## clippy with warnings denied, the host alone and both sides
	$(CARGO) clippy --locked --lib --bin nox-mesh-host -- -D warnings
	$(CARGO) clippy --locked --all-targets --features mesh -- -D warnings

SHELL_SCRIPTS = $(shell git ls-files 2>/dev/null | grep -v "^tests/bin/" | while read -r f; do \
	[ -f "$$f" ] && head -c 12 "$$f" | grep -aq '^#!/bin/sh' && echo "$$f"; done)

.PHONY: shellcheck
shellcheck: ## shellcheck over every script
	shellcheck --shell=sh --severity=style $(SHELL_SCRIPTS) $(wildcard tests/shell/*.sh)

.PHONY: test-unit
test-unit: ## unit and integration tests, without the lab
	$(CARGO) test --locked --features mesh --lib --test tests --test host --test mesh

.PHONY: test-shell
test-shell: ## the scripts' decision tables under four shells
	tests/shell/run

.PHONY: test-packages
test-packages: build-tools ## the packages of both architectures, from outside
	tests/packages/run
