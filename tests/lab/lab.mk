# The lab: real nodes on this machine. Included by the top-level Makefile.
#
#   make test-lab             every scenario (root; makes the base systems that are missing, 25 s each, once)
#   make test-lab NAME=units  the scenarios with `units` in their name
#   make lab-bases            only the base systems
#   make tools                the tools that tests and lab need, from Debian

.PHONY: test-lab lab-bases tools build-tools

CARGO ?= cargo
BUILD_PACKAGES = gcc libc6-dev musl-tools musl-dev gcc-aarch64-linux-gnu file
LAB_PACKAGES = $(BUILD_PACKAGES) mmdebstrap debian-archive-keyring systemd-container iproute2 util-linux \
	qemu-user-static xz-utils shellcheck dash busybox mksh yash

test-lab: ## real machines: boot, break, power cut (needs root)
	$(CARGO) test --locked --features mesh --test lab -- $(NAME)

lab-bases: ## the base systems that the lab's machines boot from
	@tests/lab/bases

# Asks apt only for what is missing, and refreshes its lists only when it does not know a package.
# install_missing PACKAGES
define install_missing
	@missing=; for p in $(1); do \
	    dpkg-query -W -f '$${db:Status-Status}\n' $$p 2>/dev/null | grep -qx installed || \
	        missing="$$missing $$p"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ]; then \
	    echo "tools: missing, and only root can install them. As root:"; \
	    echo "tools: apt-get install --no-install-recommends$$missing"; exit 0; \
	fi; \
	for p in $$missing; do \
	    apt-cache policy $$p | grep -q 'Candidate: [0-9]' || { apt-get update && break; }; \
	done; \
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing
endef

tools: ## install what is missing of all tools (as root; else say what is missing)
	$(call install_missing,$(LAB_PACKAGES))

build-tools: ## the same, only for building
	$(call install_missing,$(BUILD_PACKAGES))
