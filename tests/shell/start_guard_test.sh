# start-guard's table, and how it tells an asked-for stop from a failure.
# shellcheck disable=SC2016  # hostile words must reach the scripts as they are
. "${0%/*}/lib.sh"
fresh_guard() {     # 1.5.0 installed, never started
    begin "$1"
    rm -f "$state/starts"
}
count() { value "$state/starts" count; }
stopped() {         # stopped RESULT CODE STATUS
    SERVICE_RESULT=$1 EXIT_CODE=$2 EXIT_STATUS=$3
    export SERVICE_RESULT EXIT_CODE EXIT_STATUS
    run start-guard stopped
    unset SERVICE_RESULT EXIT_CODE EXIT_STATUS
}
stopping() { MAINPID=$1; export MAINPID; run start-guard stopping; unset MAINPID; }

fresh_guard 'e4 e6 three tries of an unconfirmed version, the fourth is refused'
for try in 1 2 3; do
    run start-guard start; check "try $try" "0 $try" "$rc $(count)"
    stopped exit-code exited 101
done
run start-guard start
check 'fourth' '1 3' "$rc $(count)"
check_has 'says so' 'refused' "$said"
run start-guard start; check 'fifth' 1 "$rc"
check 'evidence is of the host' 'exit-code 101 1.5.0' "$(value "$state/last-exit" result) $(value "$state/last-exit" status) $(value "$state/last-exit" version)"
stopped exit-code '' ''
check 'a refusal leaves it' 101 "$(value "$state/last-exit" status)"
end

for how in timeout watchdog; do
    fresh_guard "c15 two hangs are enough: $how"
    for try in 1 2; do run start-guard start; check "try $try" 0 "$rc"; stopped $how killed KILL; done
    run start-guard start
    check third 1 "$rc"; end
done

fresh_guard 'one hang and one crash are not two hangs'
run start-guard start; stopped timeout killed TERM
run start-guard start; stopped exit-code exited 101
run start-guard start
check third '0 3' "$rc $(count)"; end

fresh_guard 'a confirmed version is not counted'
installed 1.4.0
for try in 1 2 3 4 5; do run start-guard start; done
check rc 0 "$rc"; check 'no count' no "$(there "$state/starts")"; end

fresh_guard 'the count belongs to one version'
starts 1.3.0 9
run start-guard start
check 'first of its own' '0 1 1.5.0' "$rc $(count) $(value "$state/starts" version)"; end

for why in no-known-good no-package no-checksum over used-up no-script; do
    fresh_guard "never refused when no rollback can follow: $why"
    starts 1.5.0 7
    case $why in
        no-known-good) rm -f "$state/known-good" "$state/known-good.copy" ;;
        no-package) rm -f "$state/packages/nox-mesh-host_1.4.0_amd64.deb" ;;
        no-checksum) : >"$state/packages/nox-mesh-host_1.4.0_amd64.deb.sha256" ;;
        over) record 1 1.5.0 1.4.0 1 rolled-back yes ;;
        used-up) record 1 1.5.0 1.4.0 3 begun no ;;
        no-script) chmod -x "$lib/rollback" ;;
    esac
    run start-guard start
    check rc 0 "$rc"; check 'counted' 8 "$(count)"; end
done

fresh_guard 'a record that is settled, or open, does not stop the refusal'
starts 1.5.0 3
record 1 1.5.0 1.4.0 1 rolled-back yes
record 2 1.5.0 1.4.0 2 begun no
printf 'format=1\nthrough=1\n' >"$state/rollbacks.settled"
run start-guard start
check rc 1 "$rc"; end

fresh_guard 'c24 an asked-for stop takes its start off'
run start-guard start; check counted 1 "$(count)"
stopping 4711; stopped success exited 0
check 'off again' 0 "$(count)"
run start-guard start; stopping ''; stopped exit-code exited 101
check 'died by itself: stays' 1 "$(count)"; end

for job in '12 nox-mesh-host.service stop running' '12 nox-mesh-host.service restart waiting'; do
    fresh_guard "c24 before READY the pending job tells: $job"
    run start-guard start
    echo "$job" >"$fake/jobs"
    stopped success killed TERM
    check 'off again' 0 "$(count)"; end
done

for job in '12 nox-mesh-host.service start running' '12 other.service stop running' ''; do
    fresh_guard "no asked-for stop: <$job>"
    run start-guard start
    echo "$job" >"$fake/jobs"
    stopped exit-code exited 101
    check 'stays' 1 "$(count)"; end
done

fresh_guard 'c24 a system that is going down'
run start-guard start
echo stopping >"$fake/system"
stopped success killed TERM
check 'off again' 0 "$(count)"; end

fresh_guard 'c24 reboots do not add up, a power cut does, once'
for boot in a b c d e; do
    echo "$boot" >"$root/proc/sys/kernel/random/boot_id"
    run start-guard start; check "boot $boot" 0 "$rc"
    stopping 4711; stopped success exited 0
done
run start-guard start
echo f >"$root/proc/sys/kernel/random/boot_id"
run start-guard start
check 'cut, then started' 2 "$(count)"; end

fresh_guard 'cut between ExecStop and ExecStopPost'
run start-guard start; stopping 4711
run start-guard start
check 'the asked-for one is off' 1 "$(count)"; end

fresh_guard 'a hanging stop that was asked for is no hang'
run start-guard start; stopping 4711; stopped timeout killed KILL
check 'count, hangs' '0 0' "$(count) $(value "$state/starts" hangs)"; end

fresh_guard 'the old version ends after the new one was installed'
installed 1.4.0
run start-guard start
installed 1.5.0
stopping 4711; stopped success exited 0
check 'exit of the old one' 1.4.0 "$(value "$state/last-exit" version)"
check 'new one not counted' '' "$(count)"
run start-guard start; check 'now it is' 1 "$(count)"; end

for trouble in no-package-file hostile-version no-state-folder state-is-a-file starts-is-a-folder hostile-starts no-boot-id no-systemctl; do
    fresh_guard "any trouble of its own lets it start: $trouble"
    case $trouble in
        no-package-file) rm -f "$lib/package" ;;
        hostile-version) printf 'version=1.5.0;reboot\n' >"$lib/package" ;;
        no-state-folder) rm -rf "$state" ;;
        state-is-a-file) rm -rf "$state"; : >"$state" ;;
        starts-is-a-folder) mkdir "$state/starts" ;;
        hostile-starts) printf 'version=1.5.0\ncount=a[$(touch %s/fake/owned)]\nhangs=-1\n' "$root" >"$state/starts" ;;
        no-boot-id) rm -rf "$root/proc" ;;
        no-systemctl) rm -f "$root/bin/systemctl" ;;
    esac
    run start-guard start
    check rc 0 "$rc"; check 'nothing ran' no "$(there "$fake/owned")"
    stopped exit-code exited 1; check 'stopped too' 0 "$rc"; end
done

fresh_guard 'hostile environment stays a word'
run start-guard start
stopped 'x
count=0' '$(reboot)' '`x`'
check 'one line a key' 6 "$(wc -l <"$state/last-exit" | tr -d ' ')"
check count 1 "$(count)"; end

called() { grep -c '^systemctl start --no-block nox-mesh-host-rollback.service' "$fake/log" 2>/dev/null || :; }

fresh_guard 'e6 a refusal starts the rollback itself, without waiting for it'
starts 1.5.0 3
run start-guard start; check refused '1 1' "$rc $(called)"
check 'on disk first' 1 "$(value "$state/starts" refused)"
echo activating >"$fake/rollback-unit"
run start-guard start; check 'one that works, or pauses, is left alone' '1 1' "$rc $(called)"
echo failed >"$fake/rollback-unit"
run start-guard start; check 'one that failed is started again' '1 2' "$rc $(called)"; end

fresh_guard 'an allowed start calls no rollback'
run start-guard start; check first '0 0' "$rc $(called)"
record 1 1.5.0 1.4.0 1 rolled-back yes
starts 1.5.0 7
echo another >"$root/proc/sys/kernel/random/boot_id"
run start-guard start; check 'none can follow' '0 0' "$rc $(called)"; end

for how in 'begun no 0' 'begun no 3' 'rolled-back no 0'; do
    fresh_guard "c61 the first start after a boot has an open record finished: $how"
    # shellcheck disable=SC2086  # three words
    set -- $how
    installed 1.4.0
    run start-guard start; check 'nothing to finish' '0 0' "$rc $(called)"
    record 3 1.5.0 1.4.0 1 "$1" "$2"
    printf 'format=1\nthrough=%s\n' "$3" >"$state/rollbacks.settled"
    run start-guard start; check 'the same boot' '0 0' "$rc $(called)"
    echo another >"$root/proc/sys/kernel/random/boot_id"
    run start-guard start; check 'after a boot' '0 1' "$rc $(called)"
    run start-guard start; check 'once' '0 1' "$rc $(called)"; end
done

for db in 'install ok half-configured 1.5.0' 'install reinstreq half-installed 1.4.0' journal; do
    fresh_guard "c61 the first start after a boot has a torn package made whole: $db"
    installed 1.4.0
    run start-guard start; check 'whole' '0 0' "$rc $(called)"
    if [ "$db" = journal ]; then : >"$root/var/lib/dpkg/updates/0001"; else echo "$db" >"$fake/db"; fi
    run start-guard start; check 'the same boot' '0 0' "$rc $(called)"
    echo another >"$root/proc/sys/kernel/random/boot_id"
    : >"$root/var/lib/dpkg/lock"
    echo "1: POSIX  ADVISORY  WRITE 77 08:01:$(stat -c %i "$root/var/lib/dpkg/lock") 0 EOF" >"$root/proc/locks"
    run start-guard start; check 'the package manager itself starts the host' '0 0' "$rc $(called)"
    : >"$root/proc/locks"
    echo a-third >"$root/proc/sys/kernel/random/boot_id"
    run start-guard start; check 'after a boot' '0 1' "$rc $(called)"
    rm -f "$state/started"
    run start-guard start; check 'the first start of all' '0 1' "$rc $(called)"; end
done

for state_now in 'rolled-back yes' 'failed yes'; do
    fresh_guard "a record that is over calls nothing: $state_now"
    installed 1.4.0
    record 3 1.5.0 1.4.0 1 "${state_now% *}" "${state_now#* }"
    run start-guard start; check rc '0 0' "$rc $(called)"; end
done

fresh_guard 'a rollback unit that cannot be started is no reason to fail'
installed 1.4.0
record 3 1.5.0 1.4.0 1 begun no
rm -f "$root/bin/systemctl"; printf '#!/bin/sh\nexit 1\n' >"$root/bin/systemctl"; chmod +x "$root/bin/systemctl"
run start-guard start; check rc 0 "$rc"; end

begin 'the units name no program that a Debian 11 with a separate /bin lacks'
check systemctl '' "$(grep -h '^Exec' "$repository"/packaging/systemd/* | grep /usr/bin/systemctl)"; end
report
