# Read by the test files here: one throw-away root a case, and the checks. The scripts under test run with the
# shell that $NOX_TEST_SHELL names, through a link called `sh` so that each is in its POSIX mode.
set -u
repository=$(cd "$(dirname "$0")/../.." && pwd)
shell=${NOX_TEST_SHELL:-dash}
passed=0 failed=0
# In memory where programs may be run from there.
scratch=$(mktemp -d /dev/shm/nox-shell.XXXXXX 2>/dev/null) || scratch=
if [ -z "$scratch" ] || ! cp /bin/true "$scratch" || ! "$scratch/true"; then
    rm -rf "$scratch"
    scratch=$(mktemp -d)
fi
trap 'rm -rf "$scratch"' EXIT
mkfifo "$scratch/alive"

fake_package() {    # fake_package VERSION: into packages/, with its checksum
    ( cd "$root/var/lib/mesh-host/packages" || exit 1
      n=nox-mesh-host_$1_amd64.deb
      printf 'Package: nox-mesh-host\nVersion: %s\nArchitecture: amd64\n' "$1" >"$n"
      sha256sum "$n" >"$n.sha256" )
}

make_template() {
    root=$scratch/template
    mkdir -p "$root/bin" "$root/fake" "$root/run/systemd/system" "$root/usr/bin" "$root/usr/lib/nox-mesh-host" \
        "$root/var/lib/mesh-host/packages" "$root/proc/sys/kernel/random" "$root/var/cache/apt/archives" \
        "$root/var/lib/dpkg/updates"
    ln -s "$(command -v "$shell")" "$scratch/sh"
    cp "$repository"/tests/bin/* "$root/bin"
    for pair in rollback.sh:rollback packaging/start-guard:start-guard packaging/install:install \
        packaging/lock:lock packaging/record:record packaging/storm:storm packaging/evidence:evidence \
        packaging/host-unit:host-unit packaging/versions:versions packaging/still:still packaging/whole:whole packaging/manager:manager packaging/manager-dpkg:manager-dpkg; do
        sed "1s,.*,#!$scratch/sh," "$repository/${pair%%:*}" >"$root/usr/lib/nox-mesh-host/${pair#*:}"
        chmod +x "$root/usr/lib/nox-mesh-host/${pair#*:}"
    done
    echo 11111111-1111-1111-1111-111111111111 >"$root/proc/sys/kernel/random/boot_id"
    echo '5000.12 9000.00' >"$root/proc/uptime"
    echo 1.4.0 >"$root/var/lib/mesh-host/known-good"
    echo 1.4.0 >"$root/var/lib/mesh-host/known-good.copy"
    fake_package 1.4.0
    fake_package 1.5.0
    printf 'thread main panicked at boot\nnote: that is all\n' >"$root/fake/journal"
    echo 1.5.0 >"$root/fake/broken"
    places
    installed 1.5.0
    order 1.5.0 7
    starts 1.5.0 3
    unit failed failed exit-code 1 101
    : >"$fake/limit"
}
places() { state=$root/var/lib/mesh-host lib=$root/usr/lib/nox-mesh-host fake=$root/fake; }

# The node after three crashes of 1.5.0, as the failure handler meets it.
fresh() {
    root=$scratch/root
    rm -rf "$root"
    cp -a "$scratch/template" "$root"
    places
}
installed() {
    echo "install ok installed $1" >"$fake/db"
    echo "$1" >"$root/usr/bin/nox-mesh-host"
    chmod +x "$root/usr/bin/nox-mesh-host"
    printf 'format=1\nname=nox-mesh-host\nversion=%s\npackage_format=deb\narchitecture=amd64\n' "$1" >"$lib/package"
}
order() {
    sum=$(sha256sum <"$state/packages/nox-mesh-host_1.5.0_amd64.deb")
    printf 'format=1\nversion=%s\nrollout=r-1\nattempt=%s\npackage=nox-mesh-host_%s_amd64.deb\nsha256=%s\n' \
        "$1" "$2" "$1" "${sum%% *}" >"$state/order"
}
starts() {          # starts VERSION COUNT [HANGS [REFUSED]]
    printf 'format=1\nversion=%s\ncount=%s\nboot_id=x\nhangs=%s\nasked=0\nrefused=%s\n' "$1" "$2" "${3:-0}" "${4:-0}" \
        >"$state/starts"
}
unit() { printf 'ActiveState=%s\nSubState=%s\nResult=%s\nExecMainCode=%s\nExecMainStatus=%s\n' "$@" >"$fake/unit"; }
# while_locked COMMANDS: what another process does while it holds the package lock, with these functions.
while_locked() {
    : >"$fake/locked"; echo 2 >"$fake/lock-sleeps"
    printf 'root=%s fake=%s state=%s lib=%s\n' "$root" "$fake" "$state" "$lib" >"$fake/lock-does"
    cat >>"$fake/lock-does" <<'EOF_FUNCTIONS'
installed() {
    echo "install ok installed $1" >"$fake/db"
    echo "$1" >"$root/usr/bin/nox-mesh-host"
    sed "s/^version=.*/version=$1/" "$lib/package" >"$lib/package.new"
    /usr/bin/mv "$lib/package.new" "$lib/package"
}
unit() { printf 'ActiveState=%s\nSubState=%s\nResult=%s\nExecMainCode=%s\nExecMainStatus=%s\n' "$@" >"$fake/unit"; }
EOF_FUNCTIONS
    echo "$1" >>"$fake/lock-does"
}
record() { # record ID FROM TO TRIES STATE STARTED
    mkdir -p "$state/rollbacks"
    printf 'format=1\nid=%s\nfrom=%s\nto=%s\nattempt=7\nrollout=r-1\nboot_id=11111111-1111-1111-1111-111111111111\nbegun=1\ntries=%s\nstate=%s\nreason=none\nstarted=%s\nresult=exit-code\ncode=exited\nstatus=101\nlog=old words\n' \
        "$@" >"$state/rollbacks/$1"
}

# run SCRIPT ARGUMENT...: in a session of its own, so that a cut ends all of it at once; sets rc and said.
# It is over when nothing that the script started is there any more, in the background too: each has the write
# end of a pipe as descriptor 9.
run() {
    script=$lib/$1
    shift
    echo 0 >"$fake/calls"
    rc=0
    cat "$scratch/alive" >/dev/null &
    # shellcheck disable=SC2016,SC2034  # for the inner shell; rc is for the tests
    said=$(NOX_MESH_HOST_ROOT=$root setsid --wait sh -c 'echo $$ >"$NOX_MESH_HOST_ROOT/fake/pgid"; exec "$0" "$@"' \
        "$script" "$@" 2>&1 </dev/null 9>"$scratch/alive") || rc=$?
    wait $!
}
value() (           # value FILE KEY: the first such value
    [ -f "$1" ] || return 0
    while IFS= read -r line; do
        case $line in "$2="*) printf '%s\n' "${line#*=}"; return 0 ;; esac
    done <"$1"
)
active() { value "$fake/unit" ActiveState; }
files_version() { value "$lib/package" version; }
names() {           # names FOLDER PATTERN...: what is there, one word each
    ( cd "$1" 2>/dev/null || exit 0
      shift
      for pattern in "$@"; do
          # shellcheck disable=SC2086  # a pattern on purpose
          for name in $pattern; do [ ! -e "$name" ] || printf '%s ' "$name"; done
      done )
}
records() { names "$state/rollbacks" '*'; }
locks() { names "$state" '*.lock' '*.lock.*'; }
there() { if [ -e "$1" ]; then echo yes; else echo no; fi; }

now_testing=
begin() { now_testing=$1; case_ok=yes; fresh; }
check() {           # check WHAT EXPECTED FOUND
    [ "$2" = "$3" ] && return
    case_ok=no
    printf 'not so: [%s] %s: %s: expected <%s>, found <%s>\n' "$shell" "$now_testing" "$1" "$2" "$3"
}
check_has() {       # check_has WHAT NEEDLE HAYSTACK
    case $3 in *"$2"*) return ;; esac
    check "$1" "…$2…" "$3"
}
check_log() { check_has "$1" "$2" "$(cat "$fake/log" 2>/dev/null)"; }
check_no_log() { case $(cat "$fake/log" 2>/dev/null) in *"$2"*) check "$1" "no $2" "$2" ;; esac; }
end() {
    if [ "$case_ok" = yes ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '        said: %s\n' "$said"
    fi
}
rolled_back() {     # the end state that every way to it must reach
    check 'version on disk' 1.4.0 "$(files_version)"
    check 'database' 'install ok installed 1.4.0' "$(cat "$fake/db")"
    check 'host' active "$(active)"
    check 'known-good' 1.4.0 "$(cat "$state/known-good")"
}
unchanged() {
    check 'version on disk' "${1:-1.5.0}" "$(files_version)"
    check_no_log 'nothing installed' --install
    check_no_log 'nothing installed' 'apt-get'
}
report() { printf '%s %s\n' "$passed" "$failed" >"$NOX_TEST_COUNT"; }
make_template
