# The lab: real nodes on this machine. Included by the top-level Makefile.
#
#   make lab             every scenario (root; makes what is missing of the bases, about 25 s each, once)
#   make lab NAME=units  the scenarios with `units` in their name
#   make lab-bases       only the base systems
#   make lab-tools       what the lab needs from Debian

.PHONY: lab lab-tools lab-bases

LAB_PACKAGES = mmdebstrap debian-archive-keyring systemd-container iproute2 util-linux musl-tools \
	gcc-aarch64-linux-gnu shellcheck busybox mksh yash

lab:
	cargo test --features mesh --test lab -- $(NAME)

lab-bases:
	@tests/lab/bases

# Asks apt only for what is missing, and refreshes its lists only when it does not know a package.
lab-tools:
	@missing=; for p in $(LAB_PACKAGES); do \
	    dpkg-query -W -f '$${db:Status-Status}\n' $$p 2>/dev/null | grep -qx installed || missing="$$missing $$p"; \
	done; \
	if [ -z "$$missing" ]; then echo "lab-tools: all there"; exit 0; fi; \
	if [ "$$(id -u)" != 0 ]; then \
	    echo "lab-tools: missing:$$missing"; \
	    echo "lab-tools: as root: apt-get install --no-install-recommends$$missing"; exit 1; \
	fi; \
	for p in $$missing; do \
	    apt-cache policy $$p | grep -q 'Candidate: [0-9]' || { apt-get update && break; }; \
	done; \
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing
