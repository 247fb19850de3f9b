#!/bin/sh
# rollback: brings the confirmed version of nox-mesh-host back when the installed one does not stay up.
# Installed as /usr/lib/nox-mesh-host/rollback, run by nox-mesh-host-rollback.service (OnFailure of the host).
# Shells: dash, busybox ash, mksh, yash. It shares nothing with the host, not even a run of its binary.
#
#   known-good   unit     installed       record of this rollback   what is done
#   unreadable   -        -               -                         says so, changes nothing
#   readable     active   = known-good    unfinished                repairs, outcome; no restart (C61)
#   readable     active   -               -, package not whole      makes it whole; no restart (C61)
#   readable     active   other           -                         nothing: the host runs
#   readable     trying   -, count < 3    -                         nothing: not at its limit yet (C01)
#   readable     trying   refused by the guard, or at its limit     as `down`: no start limit is needed (E6)
#   readable     down     = known-good    unfinished                finishes it: repair, start, outcome
#   readable     down     = known-good    other, clean exits        restart storm: started again, bounded
#   readable     down     = known-good    other                     stops loudly: not the binary
#   readable     down     broken package  -                         repairs; starts it if that is known-good
#   readable     down     other           clean exits, count < 3    started again, bounded
#   readable     down     other           crash, count 1 or 2       the same: others used the limit up (C08)
#   readable     down     other           none, or all settled      new record, then back to known-good
#   readable     down     other           unfinished, tries < 3     further try; the machine's causes go on
#   readable     down     other           unfinished, used up       stops loudly
#   readable     down     other           over, not settled         stops loudly: once means once (E8)
#
# Exit codes: 0 done or nothing to do, 3 gave up, a person is needed; other: not done, the unit tries again.
set -eu
LC_ALL=C; export LC_ALL
umask 077
root=${NOX_MESH_HOST_ROOT:-}
PATH=${root:+$root/bin:}/usr/sbin:/usr/bin:/sbin:/bin; export PATH
NOX_MESH_HOST_TRANSACTION=1; export NOX_MESH_HOST_TRANSACTION    # our package scripts leave the host alone
LOCK_WAIT_S=900; export LOCK_WAIT_S                              # longer than an upgrade waits (C52)
unit=nox-mesh-host.service
state=$root/var/lib/mesh-host; lib=$root/usr/lib/nox-mesh-host; records=$state/rollbacks
tries_max=3 starts_max=3 storms_max=3
EXPECT_DOWN=1           # a host that somebody has got to run meanwhile is left alone
which=installed        # version that must run in the end: any, where a healthy host must not be restarted

say() { printf '<%s>rollback: %s\n' "$1" "$2" >&2; }
give_up() { say 2 "$1; a person is needed, $unit stays as it is"; exit 3; }
unwritable() {    # a full disk may have room again; with the unit's own pause, a try a minute
    say 3 'the state folder cannot be written (state_unwritable): a fault of this machine; tried again'
    sleep 30
    exit 75
}
is_number() { case $1 in '' | *[!0-9]* | 0?* | ??????????*) return 1 ;; esac }
is_version() { "$lib/versions" is "$1"; }
get() (           # get FILE KEY: the first such value or nothing; never fails
    [ -f "$1" ] && [ -r "$1" ] || return 0
    while IFS= read -r line; do
        case $line in "$2="*) printf '%s\n' "${line#*=}"; return 0 ;; esac
    done <"$1"
)
number() ( n=$(get "$1" "$2"); if is_number "$n"; then echo "$n"; else echo 0; fi )
token() ( printf '%s\n' "$1" | tr -c '\012._:0-9A-Za-z~+-' '?' | cut -c 1-64 | head -n 1 )
put() {           # old or new, never half (C46)
    temporary=${1%/*}/.${1##*/}.new
    cat >"$temporary" && sync "$temporary" && mv -f "$temporary" "$1" && sync "${1%/*}"
}

take_lock() {     # a lock that cannot be asked for is no reason to leave the node down
    lock=$state/rollback.lock; code=0
    who=$("$lib/lock" take "$lock" $$) || code=$?
    case $code in
        0) trap '"$lib/lock" release "$lock"' EXIT ;;
        1) say 5 "already running${who:+ as process $who}"; exit 0 ;;
        2) unwritable ;;
        *) say 4 'the lock could not be asked for; going on without it' ;;
    esac
}
read_package() {  # installed, whole; the binary is never asked
    facts=$("$manager" status) || facts='broken -'
    installed=$("$lib/versions" installed) || installed=unknown
    whole=no
    case $facts in "ok $installed" | "held $installed") whole=yes ;; esac
    [ -x "$root/usr/bin/nox-mesh-host" ] || whole=no
}
read_unit() {
    # shellcheck disable=SC2046  # seven words
    set -- $("$lib/host-unit" facts || :)
    active=${1:-} result=${3:-} code=${4:-} status=${5:-} enabled=${6:-} exits=${7:-}
}

load() { token "$(get "$records/$record" "$1")"; }
load_record() {
    id=$record from=$(load from) attempt=$(load attempt) rollout=$(load rollout) begun=$(load begun)
    tries=$(number "$records/$id" tries) waits=$(number "$records/$id" waits) outcome=$(load state)
    [ "$(load boot_id)" = "$boot" ] || tries=0 waits=0    # a boot may have healed the machine
    left=$(sed -n '/^result=/p;/^code=/p;/^status=/p;/^log=/p' "$records/$id")
}
open_record() {   # one more try of an unfinished record
    load_record
    "$lib/record" may-go-on "$record" || used_up tries
    tries=$((tries + 1))
    write_record "$outcome" none no || unwritable
    say 5 "try $tries of rollback $id, from $from to $good"
}
new_record() {    # the failed version's words are kept before anything is touched (C29)
    from=$1 attempt=0 rollout='' tries=1 waits=0 begun=$(date +%s)
    id=$("$lib/record" next) || give_up 'the records cannot be read'
    if [ "$(get "$state/order" version)" = "$from" ]; then
        attempt=$(number "$state/order" attempt); rollout=$(token "$(get "$state/order" rollout)")
    fi
    left=$("$lib/evidence" "$from") || left='result='
    # A file where the folder should be hides no rollback.
    [ -d "$records" ] || [ ! -e "$records" ] || mv "$records" "$records.damaged.$begun" || unwritable
    if ! mkdir -p "$records" || ! write_record begun none no; then unwritable; fi
    say 4 "rollback $id: $from did not stay up, $good comes back"
}
write_record() {  # write_record STATE REASON STARTED
    printf '%s\n' format=1 "id=$id" "from=$from" "to=$good" "attempt=$attempt" "rollout=$rollout" \
        "boot_id=$boot" "begun=$begun" "tries=$tries" "waits=$waits" "state=$1" "reason=$2" \
        "started=$3" "$left" |
        put "$records/$id"
}

start_again() {   # start_again WHY: bounded in a row
    row=$("$lib/storm" "$storms_max") || return 1
    say 4 "$1; $installed is started again ($((row + 1)) of $storms_max), no version is changed"
    sleep $((row * 20))
    "$lib/host-unit" start any || give_up "$installed does not start"
    exit 0
}
used_up() { write_record failed "$1" yes || :; give_up "$tries tries did not bring $good back ($1)"; }
retry_later() {   # retry_later REASON: what the machine is to blame for ends some day, and is no try
    say 3 "$good could not be installed ($1)"
    if [ "$1" != package ]; then
        tries=$((tries - 1)) waits=$((waits + 1))
    elif [ "$tries" -ge "$tries_max" ]; then
        used_up "$1"
    fi
    write_record begun "$1" no || :
    sleep $((waits > 17 ? 900 : waits > 2 ? (waits - 2) * 60 : 0))    # the unit adds 30 s
    exit 75
}
finish() {        # known-good is installed; the outcome is on disk before its host reads it
    write_record rolled-back none no || say 4 'the outcome cannot be written'
    was=$enabled
    read_unit
    case $was/$enabled in
        enabled/disabled | enabled/masked*)
            write_record rolled-back none yes || :
            say 4 "done: $good is installed; not started, as somebody has made the unit $enabled meanwhile"
            exit 0
            ;;
    esac
    if ! "$lib/host-unit" start "$which"; then
        write_record failed start yes || :
        give_up "$good is back and does not start"
    fi
    write_record rolled-back none yes || say 4 'the outcome cannot be written'
    say 5 "done: $good is installed and started"
    exit 0
}
install_known_good() {
    trap '' TERM HUP   # a shutdown waits for the package manager, within the unit's stop limit
    reason=0 EXPECT_INSTALLED=$installed EXPECT_KNOWN_GOOD=$good
    export EXPECT_INSTALLED EXPECT_KNOWN_GOOD EXPECT_DOWN
    if package=$("$manager" retained "$state/packages" "$good"); then
        "$manager" install "$package" || reason=$?
    else
        say 4 "no verified package of $good in packages/; the package manager's own sources are asked"
        "$manager" install-version "$good" || reason=$?
    fi
    trap - TERM HUP
    case $reason in
        10) reason=lock ;; 11) reason=disk ;; 12) reason=database ;; 14) reason=timeout ;;
        15) reason=unavailable ;; 16) reason=changed ;; *) reason=package ;;
    esac
    read_package
    [ "$whole/$installed" = "yes/$good" ] || retry_later "$reason"
}

repair() { "$manager" repair || say 4 'the package database could not be repaired'; }
roll_back() {     # roll_back FROM
    if record=$("$lib/record" find "$good" "$1" "$(number "$state/rollbacks.settled" through)"); then
        "$lib/record" is-unfinished "$record" || give_up "rollback $record from $1 is over and did not last"
        open_record
    else
        new_record "$1"
    fi
    [ "$whole" = yes ] || repair
    install_known_good
    finish
}
broken_package() {   # finds out from where; a repair may be all that is needed
    if [ "$open" = yes ]; then from=$(load from); return; fi
    case $installed in "$good" | unknown) ;; *) return ;; esac
    repair
    read_package
    from=$installed why='the interrupted package is complete again'
    case $installed in "$good" | unknown) ;; *) return ;; esac
    from=$(get "$state/order" version)
    if ! is_version "$from" || [ "$from" = "$good" ]; then from=unknown; fi
}
mend() {          # the host runs and nothing is open: its package is made whole under it, no restart
    ! "$manager" whole || { say 5 'the host runs; there is nothing to do'; exit 0; }
    code=0
    "$lib/whole" "$manager" "$installed" "$good" || code=$?
    [ "$code" -eq 2 ] || exit 0
    sleep 300
    exit 75
}
host_runs() {     # a power cut may have left a record open and the package database half done (C61)
    which=any EXPECT_DOWN=''
    record=$("$lib/record" unfinished "$good") || mend
    repair
    read_package
    case $whole/$installed in
        "yes/$good") load_record ;;
        yes/*) say 5 "the host runs as $installed; there is nothing to do"; exit 0 ;;
        *) open_record; install_known_good ;;
    esac
    finish
}
decide() {
    starts=0 open=no limit=no from=$installed why=''
    case $(get "$state/starts" version)/$(get "$state/starts" refused) in
        "$installed/1") starts=$starts_max ;;
        "$installed/"*) starts=$(number "$state/starts" count) ;;
    esac
    ! record=$("$lib/record" unfinished "$good") || open=yes
    [ "$installed" = "$good" ] || [ "$starts" -lt "$starts_max" ] || limit=yes
    case $active/$limit/$open/$whole/$installed in
        activating/no/yes/no/* | activating/no/yes/yes/"$good") ;;
        activating/no/*) say 5 'the service manager is still trying'; exit 0 ;;
    esac
    [ "$whole" = yes ] || broken_package
    [ "$exits" != clean ] || why='restart storm, every exit was clean'
    if [ "$whole/$installed" = "yes/$good" ]; then
        [ "$open" = no ] || { load_record; repair; finish; }
        [ -z "$why" ] || start_again "$why" || give_up "$why, again and again"
        give_up "$good is the confirmed version: not the binary, the machine ($result $code/$status)"
    fi
    [ -n "$why" ] || [ "$starts" -eq 0 ] || why="only $starts of the last starts were its own"
    [ -z "$why" ] || [ "$whole" = no ] || [ "$starts" -ge "$starts_max" ] || start_again "$why" || :
    roll_back "$from"
}
main() {
    cd /
    IFS= read -r boot <"$root/proc/sys/kernel/random/boot_id" || boot=unknown
    take_lock
    good=$("$lib/versions" known-good) || good=
    [ -n "$good" ] || { say 4 'no readable known-good: nothing to go back to, nothing is changed'; exit 0; }
    manager=$("$lib/manager") || give_up 'no package manager that is known here owns the host'
    read_package
    read_unit
    case $active in active | reloading) host_runs ;; *) decide ;; esac
}
main "$@"
