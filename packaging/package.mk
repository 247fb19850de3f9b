# Packages of the host. Included by the top-level Makefile; the recipe knows no target by name, targets/ does.
#
#   make packages VERSION=1.5.0 [TARGET=x86_64-unknown-linux-musl] [PROFILE=release]
#   make packages VERSION=1.5.0 BINARY=path/to/nox-mesh-host      packages a finished binary
#   PACKAGE_FLAGS=--allow-broken                                  for the lab's deliberately broken versions
#
# The result is dist/nox-mesh-host_<version>_<arch>.deb. NOX_MESH_HOST_FAULT is unset here: a package that can be
# released is never built with a fault in it.

TARGET ?= x86_64-unknown-linux-musl
PROFILE ?= release
DIST ?= dist
CARGO ?= cargo

target_value = $(shell sed -n 's/^$(1)=//p' targets/$(TARGET).env)
target_var = $(subst -,_,$(TARGET))
target_upper = $(shell printf '%s' '$(target_var)' | tr a-z A-Z)
cargo_target_dir = $(or $(CARGO_TARGET_DIR),target)
built = $(cargo_target_dir)/$(TARGET)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/nox-mesh-host

# Only what the compiler does not have yet is asked for, so a build without a network works.
rust_targets = $(patsubst targets/%.env,%,$(wildcard targets/*-*.env))
target_missing = $(if $(wildcard $(shell rustc --print sysroot 2>/dev/null)/lib/rustlib/$(TARGET)/lib),,rust-targets)

.PHONY: packages host-binary rust-targets check-version

rust-targets:
	rustup target add $(rust_targets)

packages: check-version $(if $(BINARY),,host-binary) ## VERSION=1.2.3 TARGET=…: a package in dist/
	packaging/build-deb $(PACKAGE_FLAGS) '$(or $(BINARY),$(built))' '$(VERSION)' '$(TARGET)' '$(DIST)'

# Before a build of minutes, not after it.
check-version:
	@packaging/build-deb --check-version '$(VERSION)'

host-binary: check-version build-tools $(if $(BINARY),,$(target_missing))
	@test -f 'targets/$(TARGET).env' || { echo 'packages: there is no targets/$(TARGET).env' >&2; exit 2; }
	env -u NOX_MESH_HOST_FAULT NOX_MESH_HOST_VERSION='$(VERSION)' \
	    CC_$(target_var)='$(call target_value,cc)' AR_$(target_var)='$(call target_value,ar)' \
	    CFLAGS_$(target_var)='$(call target_value,cflags)' \
	    CARGO_TARGET_$(target_upper)_LINKER='$(call target_value,linker)' \
	    $(CARGO) build --locked --profile '$(PROFILE)' --bin nox-mesh-host --target '$(TARGET)'
