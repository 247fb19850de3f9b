# install: start, run, state; a result in every case.
# shellcheck disable=SC2016  # hostile words must reach the scripts as they are
. "${0%/*}/lib.sh"
exec 2>/dev/null     # the shells say "Killed" at every cut; findings go to stdout
healthy() {
    begin "$1"
    installed 1.4.0
    rm -f "$state/starts"
    unit active running success 0 0
    rm -f "$fake/limit"
}
result() { echo "$(value "$state/result" status) $(value "$state/result" class) $(value "$state/result" reason)"; }

healthy 'installs what was ordered'
run install run
check rc 0 "$rc"; check result 'installed none none' "$(result)"; check version 1.5.0 "$(files_version)"
check 'version, attempt' '1.5.0 7 0' "$(value "$state/result" version) $(value "$state/result" attempt) $(value "$state/result" exit)"
check 'package scripts are told' 1 "$(cat "$fake/transaction")"
check_no_log 'the host is left alone' 'systemctl start'; check_no_log 'the host is left alone' 'systemctl stop'
check 'no lock left' '' "$(locks)"; end

healthy 'c48 c49 start: a unit of its own, nobody waits'
run install start
check rc 0 "$rc"; check result 'installed none none' "$(result)"
check_log 'transient unit' 'systemd-run --quiet --collect --unit=nox-mesh-host-install.service'
check_no_log 'no wait' '--wait'; check_no_log 'no pipe' '--pipe'; end

healthy 'start without systemd: a session of its own'
rm -rf "$root/run/systemd"
run install start
check rc 0 "$rc"; check result 'installed none none' "$(result)"; check_no_log 'no systemd-run' systemd-run; end

healthy 'c49 start that fails says so'
: >"$fake/systemd-run-fails"
run install start
check rc 1 "$rc"; end

healthy 'state'
run install state; check idle idle "$said"
mkdir -p "$root/proc/4242"
echo '4242 (install) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20' >"$root/proc/4242/stat"
printf 'format=1\npid=4242\nstart=777\nboot_id=11111111-1111-1111-1111-111111111111\n' >"$state/install.lock"
run install state; check running running "$said"
run install start; check 'one at a time' 3 "$rc"
run install run; check 'one at a time' 3 "$rc"; check 'no result of another' '' "$(value "$state/result" status)"
rm -rf "$root/proc/4242"
run install state; check 'a dead one is idle' idle "$said"; end

for bad in 'version=--force' 'version=1.5' 'version=1.05.0' 'version=01.5.0' 'version=1.5.00' 'attempt=-1' 'attempt=' 'package=../../etc/passwd' 'package=nox-mesh-host_1.5.0_arm64.deb' \
    'sha256=xyz' 'sha256=$(reboot)'; do
    healthy "c62 an order that is not right: $bad"
    sed -i "s|^${bad%%=*}=.*|$bad|" "$state/order"
    run install run
    check rc 1 "$rc"; check status failed "$(value "$state/result" status)"; unchanged 1.4.0
    check 'one line a key' 8 "$(wc -l <"$state/result" | tr -d ' ')"; end
done

healthy 'no order at all'
rm -f "$state/order"
run install run
check rc 1 "$rc"; check result 'failed machine state' "$(result)"; end

healthy 'the package is missing'
rm -f "$state/packages/nox-mesh-host_1.5.0_amd64.deb"
run install run
check result 'failed machine unavailable' "$(result)"; unchanged 1.4.0; end

healthy 'the package is another one'
echo x >>"$state/packages/nox-mesh-host_1.5.0_amd64.deb"
run install run
check result 'failed machine package' "$(result)"; unchanged 1.4.0; end

healthy 'the package says that it is something else'
p=$state/packages/nox-mesh-host_1.5.0_amd64.deb
sed -i 's/1.5.0/1.6.0/' "$p"
order 1.5.0 7
run install run
check result 'failed release package' "$(result)"; unchanged 1.4.0; end

healthy 'c37 a pin holds'
echo hold >"$state/pin"
run install run
check result 'failed machine held' "$(result)"; check_has detail 'held by operator' "$(value "$state/result" detail)"; unchanged 1.4.0; end

healthy 'c37 a hold of the package manager holds'
echo 'hold ok installed 1.4.0' >"$fake/db"
run install run
check result 'failed machine held' "$(result)"; unchanged 1.4.0; end

for other in 'installed 1.6.0' 'echo hold >"$state/pin"' 'echo hold ok installed 1.4.0 >"$fake/db"' \
    'echo deinstall ok installed 1.4.0 >"$fake/db"' '/usr/bin/rm -f "$fake/db" "$lib/package"' \
    'echo "5061.00 1.0" >"$root/proc/uptime"'; do
    healthy "c37 a person did something else, or the claim ran out, while the lock was waited for: $other"
    echo claim_until=5060 >>"$state/order"
    want=held
    case $other in *uptime*) want=claim ;; esac
    while_locked "$other"
    run install run
    check result "failed machine $want" "$(result)"
    check exit 16 "$(value "$state/result" exit)"
    check 'not installed' '' "$(grep -l 1.5.0 "$fake/db" || :)"
    case $other in *1.6.0*) check version 1.6.0 "$(files_version)" ;; esac; end
done

for claim in 5001 5000 4999 x 05060 ''; do
    healthy "c53 the claim is good for a while only: <$claim>"
    echo "claim_until=$claim" >>"$state/order"
    run install run
    case $claim in
        5001 | '') check result 'installed none none' "$(result)" ;;
        *) check result 'failed machine claim' "$(result)"; unchanged 1.4.0 ;;
    esac
    end
done

healthy 'a hold that comes a moment after the installation does not undo it'
echo '#!/bin/sh
"$0.real" "$@" || exit
case $* in *--install*) sed -i s/^install/hold/ "$NOX_MESH_HOST_ROOT/fake/db" ;; esac' >"$root/bin/dpkg.new"
mv "$root/bin/dpkg" "$root/bin/dpkg.real"; mv "$root/bin/dpkg.new" "$root/bin/dpkg"; chmod +x "$root/bin/dpkg"
run install run
check result 'installed none none' "$(result)"; check version 1.5.0 "$(files_version)"; end

healthy 'c63 no space'
printf '#!/bin/sh\nprintf "Filesystem 1024-blocks Used Available Capacity Mounted on\\n/dev/x 100 50 50 50%% /\\n"\n' >"$root/bin/df"
chmod +x "$root/bin/df"
run install run
check result 'failed machine disk' "$(result)"; unchanged 1.4.0; end

healthy 'c52 a foreign lock that stays'
: >"$fake/locked"
run install run
check result 'failed machine lock' "$(result)"; check version 1.4.0 "$(files_version)"; end

for fail in '2 No space left on device=machine disk' '2 parsing file=machine database' '1 pre-installation script=release package' '1 the database was not found=release package' '124 =machine timeout'; do
    healthy "the cause is named: ${fail#*=}"
    echo "${fail%=*}" >"$fake/dpkg-fails"
    run install run
    check result "failed ${fail#*=}" "$(result)"; check version 1.4.0 "$(files_version)"; end
done

for stops in no yes; do
    healthy "c54 the new package's own scripts fail after its files are in place: the old one is put back; it stops the host: $stops"
    echo '#!/bin/sh
case $* in *--install*1.5.0*) ;; *) exec "$0.real" "$@" ;; esac
"$0.real" "$@" || exit
sed -i "s/ok installed/ok half-configured/" "$NOX_MESH_HOST_ROOT/fake/db"
[ ! -f "$NOX_MESH_HOST_ROOT/fake/stops" ] || systemctl stop nox-mesh-host.service
echo " installed nox-mesh-host package post-installation script subprocess returned error exit status 1" >&2
exit 1' >"$root/bin/dpkg.new"
    mv "$root/bin/dpkg" "$root/bin/dpkg.real"; mv "$root/bin/dpkg.new" "$root/bin/dpkg"; chmod +x "$root/bin/dpkg"
    [ $stops = no ] || : >"$fake/stops"
    run install run
    check result 'failed release package' "$(result)"; check version 1.4.0 "$(files_version)"
    check db 'install ok installed 1.4.0' "$(cat "$fake/db")"; check host active "$(active)"
    check 'started' $stops "$(there "$fake/started")"; end
done

healthy 'c61 the package manager is torn and the files still are the old ones: made whole again'
: >"$fake/dpkg-tears"
run install run
check status failed "$(value "$state/result" status)"; check version 1.4.0 "$(files_version)"
check db 'install ok installed 1.4.0' "$(cat "$fake/db")"; check 'binary' 1.4.0 "$(cat "$root/usr/bin/nox-mesh-host")"; end

healthy 'a host that did not run is not started by an install that fails'
unit inactive dead success 0 0
echo '1 subprocess returned error' >"$fake/dpkg-fails"
run install run
check result 'failed release package' "$(result)"; check 'not started' no "$(there "$fake/started")"; end

for torn in 'install reinstreq half-installed 1.4.0=1.4.0' 'install ok half-configured 1.5.0=1.5.0' 'install ok unpacked 1.5.0=1.5.0' \
    'install ok installed 1.5.0=whole'; do
    healthy "c61 a run that was killed: made whole again, and a result: ${torn%=*}"
    order 1.5.0 7
    printf 'format=1\nversion=1.4.0\nboot_id=x\n' >"$state/started"
    printf 'format=1\npid=4242\nstart=777\nboot_id=11111111-1111-1111-1111-111111111111\n' >"$state/install.lock"
    case $torn in *=1.4.0) ;; *) installed 1.5.0 ;; esac
    echo "${torn%=*}" >"$fake/db"
    run install ended
    case $torn in
        *=whole) check result 'installed none none' "$(result)" ;;
        *)
            check result 'failed machine timeout' "$(result)"; check version 1.4.0 "$(files_version)"
            check db 'install ok installed 1.4.0' "$(cat "$fake/db")"
            ;;
    esac
    check attempt 7 "$(value "$state/result" attempt)"; check 'no lock left' '' "$(locks)"
    rm -f "$state/result"
    run install ended; check 'one that ended by itself is left alone' '0 no' "$rc $(there "$state/result")"; end
done

healthy 'a shutdown does not cut the package manager short'
echo 'install' >"$fake/dpkg-terms"
run install run
check result 'installed none none' "$(result)"; end

for free in 8191 8192; do
    healthy "c63 enough space is what is needed, not less: $free"
    printf '#!/bin/sh\nprintf "Filesystem 1024-blocks Used Available Capacity Mounted on\\n/dev/x 9 9 %s 9%%%% /\\n"\n' $free >"$root/bin/df"
    chmod +x "$root/bin/df"
    run install run
    case $free in 8191) want='failed machine disk' ;; *) want='installed none none' ;; esac
    check result "$want" "$(result)"; end
done

begin 'each limit in time has an end for one that ignores TERM'
check 'timeout without --kill-after' '' \
    "$(cd "$repository" && grep -n 'timeout ' rollback.sh packaging/* 2>/dev/null | grep -v -e ': *#' -e build-deb -e kill-after -e reason= -e 'machine timeout' -e 'in timeout')"
end

healthy 'c61 an interrupted database is repaired first'
echo 'install ok half-configured 1.4.0' >"$fake/db"
run install run
check result 'installed none none' "$(result)"; check_log repaired '--configure --pending'; end

begin 'cut at every tool call: a result or none, never half; run again it ends well'
installed 1.4.0
run install run
last_call=$(cat "$fake/calls")
at=1
while [ "$at" -le "$last_call" ]; do
    fresh
    installed 1.4.0
    now_testing="install cut before call $at"
    echo "$at before" >"$fake/cut"
    run install run
    rm -f "$fake/cut"
    if [ -f "$state/result" ]; then check 'whole' 8 "$(wc -l <"$state/result" | tr -d ' ')"; fi
    run install run
    check result 'installed none none' "$(result)"; check version 1.5.0 "$(files_version)"
    at=$((at + ${NOX_TEST_EVERY:-1}))
done
end
for version in 1.5.0 0.0.1 10.20.30 1.5.0~rc.1 1.5.0+b01 01.5.0 1.05.0 1.5.00 1.5 1.5.0.1 1.5.0- 1234567890.0.0; do
    begin "c62 a version, or not, as every part of the project reads it: $version"
    want=no
    case $version in 1.5.0* | 0.0.1 | 10.20.30) want=yes ;; esac
    case $version in 1.5.00 | 1.5.0.1 | 1.5.0-) want=no ;; esac
    is=yes
    "$repository/packaging/build-deb" --check-version "$version" || is=no
    check 'the build' $want $is
    printf 'format=1\nversion=%s\nattempt=7\n' "$version" >"$state/order"
    run install run
    is=yes
    [ "$(value "$state/result" detail)" != 'the order names no version' ] || is=no
    check 'install' $want $is; end
done
report
