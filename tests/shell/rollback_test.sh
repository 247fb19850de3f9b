# The rows of rollback's table, and the cases that gave them their names.
# shellcheck disable=SC2016  # hostile words must reach the scripts as they are
. "${0%/*}/lib.sh"

begin 'crash loop of an unconfirmed version: back to known-good (C07 C29 E5)'
run rollback
check rc 0 "$rc"; rolled_back
check records '1 ' "$(records)"
r=$state/rollbacks/1
check state 'rolled-back yes' "$(value "$r" state) $(value "$r" started)"
check pair '1.5.0 1.4.0 7 r-1 1' "$(value "$r" from) $(value "$r" to) $(value "$r" attempt) $(value "$r" rollout) $(value "$r" tries)"
check evidence 'exit-code exited 101' "$(value "$r" result) $(value "$r" code) $(value "$r" status)"
check 'last words' 'thread main panicked at boot' "$(value "$r" log)"
check 'package scripts are told' 1 "$(cat "$fake/transaction")"
check 'reloaded before the start' no "$(there "$fake/started-unreloaded")"
check 'no lock left' '' "$(locks)"
check_has 'evidence before the package' "$(printf 'journalctl')" "$(sed '/--install/q' "$fake/log")"
end

for kind in missing empty nul two-lines not-a-version leading-zero no-newline option command folder; do
    begin "c34 c45 no readable known-good: $kind"
    rm -rf "$state/known-good" "$state/known-good.copy"
    case $kind in
        missing) ;;
        empty) : >"$state/known-good" ;;
        nul) printf '\000\000\000\000\000\000' >"$state/known-good" ;;
        two-lines) printf '1.4.0\n1.3.0\n' >"$state/known-good" ;;
        not-a-version) echo 1.4 >"$state/known-good" ;;
        leading-zero) echo 1.04.0 >"$state/known-good" ;;
        no-newline) printf '1.1' >"$state/known-good" ;;
        option) echo --force-all >"$state/known-good" ;;
        command) printf '1.4.0;touch %s/fake/owned\n' "$root" >"$state/known-good" ;;
        folder) mkdir "$state/known-good" ;;
    esac
    [ -d "$state/known-good" ] || [ $kind = missing ] || cp "$state/known-good" "$state/known-good.copy"
    run rollback
    check rc 0 "$rc"; unchanged
    check_has 'says so' 'no readable known-good' "$said"
    check records '' "$(records)"
    check 'nothing ran' no "$(there "$fake/owned")"
    end
done

begin 'c45 one damaged copy does not remove recovery'
printf '\000\000\000\000\000\000' >"$state/known-good"
run rollback
echo 1.4.0 >"$state/known-good"
check rc 0 "$rc"; rolled_back; end

begin 'c43 a tail of an older text is not a version'
printf '1.9.0\n0\n' >"$state/known-good"
run rollback
echo 1.4.0 >"$state/known-good"
check rc 0 "$rc"; rolled_back; end

begin 'known-good itself crashes: not the binary'
installed 1.4.0
run rollback
check rc 3 "$rc"; unchanged 1.4.0; check host failed "$(active)"; check records '' "$(records)"
check_has 'says so' 'not the binary' "$said"; end

begin 'e3 c03 restart storm of a healthy known-good'
installed 1.4.0
unit failed failed start-limit-hit 1 0
run rollback
check rc 0 "$rc"; unchanged 1.4.0; check host active "$(active)"; check records '' "$(records)"
check_has 'says so' 'restart storm' "$said"; end

begin 'e3 killed by TERM at a restart is clean too'
installed 1.4.0
unit failed failed start-limit-hit 2 15
run rollback
check rc 0 "$rc"; check host active "$(active)"; end

begin 'e3 restart storms are bounded'
installed 1.4.0
for _ in 1 2 3 4; do
    unit failed failed start-limit-hit 1 0
    : >"$fake/limit"
    run rollback
done
check rc 3 "$rc"; unchanged 1.4.0; check host failed "$(active)"
echo '9000.00 1.0' >"$root/proc/uptime"
run rollback
check 'ten quiet minutes end the row' '0 active' "$rc $(active)"; end

begin 'a boot ends the row of storms'
installed 1.4.0
printf 'format=1\nboot_id=an-older-one\nuptime=4990\ncount=3\n' >"$state/storms"
unit failed failed start-limit-hit 1 0
run rollback
check rc 0 "$rc"; check host active "$(active)"; end

begin 'clean exits of an unconfirmed version below its count: started again'
echo none >"$fake/broken"
starts 1.5.0 1
unit failed failed start-limit-hit 1 0
run rollback
check rc 0 "$rc"; unchanged; check host active "$(active)"; check records '' "$(records)"; end

begin 'clean exits of an unconfirmed version at its count: rolled back'
unit failed failed start-limit-hit 1 0
run rollback
check rc 0 "$rc"; rolled_back; end

begin 'c10 the result is not the reason: exit-code at the count rolls back'
starts 1.5.0 3
run rollback
check rc 0 "$rc"; rolled_back; end

begin 'c08 a crash when the limit was used up by the starts of others: started again'
echo none >"$fake/broken"
starts 1.5.0 1
run rollback
check rc 0 "$rc"; unchanged; check host active "$(active)"; check records '' "$(records)"
check_has 'says why' 'only 1 of the last starts' "$said"; end

begin 'c25 a crash without a count: the limit is all there is, rolled back'
rm -f "$state/starts"
run rollback
check rc 0 "$rc"; rolled_back; end

begin 'c01 the service manager still tries'
starts 1.5.0 1
unit activating auto-restart exit-code 1 101
run rollback
check rc 0 "$rc"; unchanged; check records '' "$(records)"; end

for unit_state in 'failed failed' 'inactive dead' 'activating auto-restart'; do
    begin "c14 unit is $unit_state"
    # shellcheck disable=SC2086
    unit $unit_state exit-code 1 101
    run rollback
    check rc 0 "$rc"; rolled_back; end
done

begin 'an active host is left alone'
unit active running success 0 0
run rollback
check rc 0 "$rc"; unchanged; check records '' "$(records)"; end

begin 'e8 c08 once means once: a finished record that is not settled'
record 1 1.5.0 1.4.0 1 rolled-back yes
run rollback
check rc 3 "$rc"; unchanged; check records '1 ' "$(records)"; end

begin 'e8 the handler fires again and again, nothing moves'
record 1 1.5.0 1.4.0 3 failed yes
for _ in 1 2 3; do run rollback; done
check rc 3 "$rc"; unchanged; check records '1 ' "$(records)"; end

begin 'e11 the same version fails again after the mesh asked again: a new event'
record 1 1.5.0 1.4.0 1 rolled-back yes
printf 'format=1\nthrough=1\n' >"$state/rollbacks.settled"
order 1.5.0 8
run rollback
check rc 0 "$rc"; rolled_back
check records '1 2 ' "$(records)"; check attempt 8 "$(value "$state/rollbacks/2" attempt)"; end

begin 'another version fails: rolled back too'
record 1 1.5.0 1.4.0 1 rolled-back yes
fake_package 1.6.0
installed 1.6.0
echo '1.5.0 1.6.0' >"$fake/broken"
run rollback
check rc 0 "$rc"; rolled_back
check 'from, attempt' '1.6.0 0' "$(value "$state/rollbacks/2" from) $(value "$state/rollbacks/2" attempt)"; end

begin 'an unfinished record allows a further try'
record 4 1.5.0 1.4.0 1 begun no
run rollback
check rc 0 "$rc"; rolled_back; check records '4 ' "$(records)"
check 'tries, words' '2 old words' "$(value "$state/rollbacks/4" tries) $(value "$state/rollbacks/4" log)"; end

begin 'an unfinished record that is used up'
record 4 1.5.0 1.4.0 3 begun no
run rollback
check rc 3 "$rc"; unchanged; check state failed "$(value "$state/rollbacks/4" state)"; end

begin 'c61 a boot gives an unfinished record new tries'
record 4 1.5.0 1.4.0 3 begun no
starts 1.5.0 3
echo another >"$root/proc/sys/kernel/random/boot_id"
run start-guard start; check 'the guard counts on it' 1 "$rc"
run rollback
check rc 0 "$rc"; rolled_back; check 'records, tries' '4 1' "$(records)$(value "$state/rollbacks/4" tries)"; end

begin 'installed, cut before the start: finished'
record 4 1.5.0 1.4.0 1 rolled-back no
installed 1.4.0
run rollback
check rc 0 "$rc"; rolled_back; check started yes "$(value "$state/rollbacks/4" started)"; end

begin 'known-good is back and does not start: the machine'
echo '1.4.0 1.5.0' >"$fake/broken"
run rollback
check rc 3 "$rc"; check version 1.4.0 "$(files_version)"
check 'state, reason' 'failed start' "$(value "$state/rollbacks/1" state) $(value "$state/rollbacks/1" reason)"; end

begin 'c14 a start that fails twice is tried a third time'
echo 2 >"$fake/dead-start"
run rollback
check rc 0 "$rc"; rolled_back; end

begin 'c52 a foreign lock is waited for'
: >"$fake/locked"; echo 2 >"$fake/lock-sleeps"
run rollback
check rc 0 "$rc"; rolled_back
check 'soon at first' 'sleep 1 sleep 1 ' "$(grep '^sleep' "$fake/log" | tr '\n' ' ')"; end

for cause in lock disk database timeout; do
    begin "c19 c52 a fault of the machine that lasts gets new tries, further and further apart, for ever: $cause"
    case $cause in
        lock) : >"$fake/locked" ;;
        disk) echo '2 cannot copy: Read-only file system' >"$fake/dpkg-fails" ;;
        database) echo '2 parsing file /var/lib/dpkg/status' >"$fake/dpkg-fails" ;;
        timeout) echo '124 ' >"$fake/dpkg-fails" ;;
    esac
    for _ in 1 2 3 4 5; do
        run rollback
        check 'later' "75 begun $cause" "$rc $(value "$state/rollbacks/1" state) $(value "$state/rollbacks/1" reason)"
    done
    check records '1 ' "$(records)"
    check 'pauses' 'sleep 60 sleep 120 sleep 180 ' "$(grep -E '^sleep (60|120|180)$' "$fake/log" | tr '\n' ' ')"
    starts 1.5.0 3
    run start-guard start; check 'the guard still counts on it' 1 "$rc"
    rm -f "$fake/locked" "$fake/dpkg-fails"
    run rollback
    check rc 0 "$rc"; rolled_back; end
done

begin 'a package whose own scripts fail is tried three times'
echo '1 subprocess returned error' >"$fake/dpkg-fails"
for want in 75 75 3; do run rollback; check rc $want "$rc"; done
check reason 'failed package' "$(value "$state/rollbacks/1" state) $(value "$state/rollbacks/1" reason)"
check records '1 ' "$(records)"; end

for fail in '2 cannot copy: No space left on device=disk' '2 dpkg: error: parsing file /var/lib/dpkg/status=database' '1 dpkg: error: dpkg was interrupted=database' '1 subprocess returned error=package' '1 my database was not found=package' '124 =timeout' '137 =timeout'; do
    begin "c19 the cause is named: ${fail#*=}"
    echo "${fail%=*}" >"$fake/dpkg-fails"
    run rollback
    check rc 75 "$rc"; check reason "${fail#*=}" "$(value "$state/rollbacks/1" reason)"; end
done

for db in 'install reinstreq half-installed 1.4.0' 'install ok unpacked 1.5.0' 'install ok half-configured 1.5.0' 'install ok triggers-pending 1.5.0'; do
    begin "c61 interrupted: $db"
    echo "$db" >"$fake/db"
    case $db in *half-installed*) rm -f "$root/usr/bin/nox-mesh-host" ;; esac
    run rollback
    check rc 0 "$rc"; rolled_back; check_log repaired '--force-confdef --force-confold --configure --pending'; end
done

begin 'c61 e9 binary gone and files look like known-good'
installed 1.4.0
rm -f "$root/usr/bin/nox-mesh-host"
echo 'install reinstreq half-installed 1.4.0' >"$fake/db"
run rollback
check rc 0 "$rc"; rolled_back; check from 1.5.0 "$(value "$state/rollbacks/1" from)"; end

begin 'c61 only the configuration was missing'
installed 1.4.0
echo 'install ok unpacked 1.4.0' >"$fake/db"
run rollback
check rc 0 "$rc"; rolled_back; check records '' "$(records)"; end

begin 'a damaged binary of known-good is put back'
installed 1.4.0
echo '??5??????   /usr/bin/nox-mesh-host' >"$fake/verify"
rm -f "$state/order"
run rollback
check rc 0 "$rc"; rolled_back; check from unknown "$(value "$state/rollbacks/1" from)"; end

begin 'a person'"'"'s hold does not stop a rollback and stays'
echo 'hold ok installed 1.5.0' >"$fake/db"
run rollback
check rc 0 "$rc"; check database 'hold ok installed 1.4.0' "$(cat "$fake/db")"; check host active "$(active)"; end

begin 'c58 no retained package: the cache'
rm -f "$state"/packages/*1.4.0*
printf 'Package: nox-mesh-host\nVersion: 1.4.0\nArchitecture: amd64\n' >"$root/var/cache/apt/archives/nox-mesh-host_1.4.0_amd64.deb"
run rollback
check rc 0 "$rc"; rolled_back; check_no_log 'no apt' apt-get; end

begin 'c57 no cache either: the repository'
rm -f "$state"/packages/*1.4.0*
echo 1.4.0 >"$fake/repository"
run rollback
check rc 0 "$rc"; rolled_back; end

for damage in hash-differs other-name two-words option not-hex other-version; do
    begin "a retained package that is not right is not used: $damage"
    p=$state/packages/nox-mesh-host_1.4.0_amd64.deb
    case $damage in
        hash-differs) echo x >>"$p" ;;
        other-name) sed 's/1.4.0/1.5.0/' "$p.sha256" >"$p.x"; mv "$p.x" "$p.sha256" ;;
        two-words) echo "$(cat "$p.sha256") /etc/passwd" >"$p.sha256" ;;
        option) echo '--ignore-missing x' >"$p.sha256" ;;
        not-hex) printf '%064d;  x\n' 0 >"$p.sha256" ;;
        other-version) sed -i 's/1.4.0/1.3.0/' "$p"; (cd "$state/packages" && sha256sum "${p##*/}" >"$p.sha256") ;;
    esac
    run rollback
    check rc 75 "$rc"; unchanged_files=$(files_version); check version 1.5.0 "$unchanged_files"
    check_no_log 'not installed' ' --install'
    check reason unavailable "$(value "$state/rollbacks/1" reason)"; end
done

begin 'hostile order and environment stay words'
printf 'format=1\nversion=1.5.0\nrollout=$(touch %s/fake/owned);x\nattempt=--force\n' "$root" >"$state/order"
printf 'evil\001\033[31m `touch owned` $(reboot)\nlog=forged\n' >"$fake/journal"
MONITOR_SERVICE_RESULT='x; touch owned' MONITOR_EXIT_CODE='$(y)' MONITOR_EXIT_STATUS='a
state=failed'
export MONITOR_SERVICE_RESULT MONITOR_EXIT_CODE MONITOR_EXIT_STATUS
run rollback
unset MONITOR_SERVICE_RESULT MONITOR_EXIT_CODE MONITOR_EXIT_STATUS
check rc 0 "$rc"; rolled_back
r=$state/rollbacks/1
check 'nothing ran' no "$(there "$fake/owned")"
check attempt 0 "$(value "$r" attempt)"
check 'control characters' 'evil??[31m `touch owned` $(reboot)' "$(value "$r" log)"
check 'one state line' 1 "$(grep -c '^state=' "$r")"
check 'forged lines stay log lines' 1 "$(grep -c '^log=log=forged' "$r")"; end

begin 'the journal is long: 40 lines of 400 bytes at most'
awk 'BEGIN { for (i = 0; i < 100; i++) { s = i; while (length(s) < 900) s = s "x"; print s } }' >"$fake/journal"
run rollback
check lines 40 "$(grep -c '^log=' "$state/rollbacks/1")"
check longest 404 "$(awk 'length > m { m = length } END { print m }' "$state/rollbacks/1")"; end

begin 'no journal: rolled back all the same'
: >"$fake/journal-fails"
run rollback
check rc 0 "$rc"; rolled_back; end

begin 'no evidence script, no lock script: rolled back all the same'
rm -f "$lib/evidence" "$lib/lock"
run rollback
check rc 0 "$rc"; rolled_back; end

begin 'nobody owns the host'
rm -f "$fake/db"
run rollback
check rc 3 "$rc"; unchanged; end

begin 'evidence: last-exit on a systemd without MONITOR variables'
printf 'format=1\nversion=1.5.0\nresult=watchdog\ncode=dumped\nstatus=ABRT\nboot_id=x\n' >"$state/last-exit"
run rollback
r=$state/rollbacks/1
check evidence 'watchdog dumped ABRT' "$(value "$r" result) $(value "$r" code) $(value "$r" status)"; end

begin 'evidence: not the guard'"'"'s own refusal'
printf 'format=1\nversion=1.5.0\nresult=timeout\ncode=killed\nstatus=TERM\nboot_id=x\n' >"$state/last-exit"
sed -i 's/refused=0/refused=1/' "$state/starts"
MONITOR_SERVICE_RESULT=exit-code MONITOR_EXIT_CODE=exited MONITOR_EXIT_STATUS=1
export MONITOR_SERVICE_RESULT MONITOR_EXIT_CODE MONITOR_EXIT_STATUS
run rollback
unset MONITOR_SERVICE_RESULT MONITOR_EXIT_CODE MONITOR_EXIT_STATUS
check evidence 'timeout' "$(value "$state/rollbacks/1" result)"; end

begin 'a second run says that the first one runs'
mkdir -p "$root/proc/4242"
echo '4242 (rollback) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20' >"$root/proc/4242/stat"
printf 'format=1\npid=4242\nstart=777\nboot_id=11111111-1111-1111-1111-111111111111\n' >"$state/rollback.lock"
run rollback
check rc 0 "$rc"; unchanged; check_has 'says so' 'already running' "$said"
check 'lock kept' yes "$(there "$state/rollback.lock")"; end

for owner in 'pid=4242 start=778' 'pid=4243 start=777' 'pid=;rm start=x' 'pid= start='; do
    begin "the lock of a dead owner is taken over: $owner"
    mkdir -p "$root/proc/4242"
    echo '4242 (roll) back) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20' >"$root/proc/4242/stat"
    printf 'format=1\n%s\n%s\nboot_id=11111111-1111-1111-1111-111111111111\n' "${owner% *}" "${owner#* }" >"$state/rollback.lock"
    run rollback
    check rc 0 "$rc"; rolled_back; check 'no lock left' '' "$(locks)"; end
done

begin 'the lock of another boot is taken over'
mkdir -p "$root/proc/4242"
echo '4242 (rollback) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20' >"$root/proc/4242/stat"
printf 'format=1\npid=4242\nstart=777\nboot_id=another\n' >"$state/rollback.lock"
run rollback
check rc 0 "$rc"; rolled_back; end

for how in unsettled settled tries-used; do
    begin "c61 a power cut in the middle of dpkg, known-good runs at boot: finished without a restart: $how"
    installed 1.4.0
    echo 'install ok unpacked 1.4.0' >"$fake/db"
    : >"$root/var/lib/dpkg/updates/0001"
    unit active running success 0 0
    tries=1
    case $how in
        settled) printf 'format=1\nthrough=4\n' >"$state/rollbacks.settled" ;;
        tries-used) tries=3 ;;
    esac
    record 4 1.5.0 1.4.0 $tries begun no
    run rollback
    check rc 0 "$rc"; rolled_back; check records '4 ' "$(records)"
    check outcome 'rolled-back yes' "$(value "$state/rollbacks/4" state) $(value "$state/rollbacks/4" started)"
    check_log repaired '--configure --pending'
    check 'no restart' no "$(there "$fake/started")"; check_no_log 'no stop' 'systemctl stop'; end
done

begin 'c61 the package is whole, the record open and dpkg'"'"'s journal left over: repaired'
installed 1.4.0
: >"$root/var/lib/dpkg/updates/0001"
unit active running success 0 0
record 4 1.5.0 1.4.0 1 rolled-back no
run rollback
check rc 0 "$rc"; rolled_back; check outcome 'rolled-back yes' "$(value "$state/rollbacks/4" state) $(value "$state/rollbacks/4" started)"
check_log repaired '--configure --pending'; check_no_log 'nothing installed' --install
check 'no restart' no "$(there "$fake/started")"; end

begin 'c61 known-good runs, its package is torn: installed again under it'
installed 1.4.0
echo 'install reinstreq half-installed 1.4.0' >"$fake/db"
unit active running success 0 0
record 4 1.5.0 1.4.0 1 begun no
run rollback
check rc 0 "$rc"; rolled_back; check_log again --install
check outcome 'rolled-back yes 2' "$(value "$state/rollbacks/4" state) $(value "$state/rollbacks/4" started) $(value "$state/rollbacks/4" tries)"
check 'no restart' no "$(there "$fake/started")"; end

begin 'another version runs: an open record changes nothing'
fake_package 1.6.0
installed 1.6.0
unit active running success 0 0
record 4 1.5.0 1.4.0 1 begun no
run rollback
check rc 0 "$rc"; unchanged 1.6.0; check state begun "$(value "$state/rollbacks/4" state)"; end

begin 'c61 an older open record is found behind a finished one'
installed 1.4.0
unit active running success 0 0
record 9 1.5.0 1.4.0 1 begun no
record 10 1.6.0 1.4.0 1 rolled-back yes
printf 'format=1\nthrough=10\n' >"$state/rollbacks.settled"
run rollback
check rc 0 "$rc"; check outcome rolled-back "$(value "$state/rollbacks/9" state)"; end

begin 'an open record that is settled is no try of a later failure'
record 9 1.5.0 1.4.0 3 begun no
printf 'format=1\nthrough=9\n' >"$state/rollbacks.settled"
run rollback
check rc 0 "$rc"; rolled_back; check records '10 9 ' "$(records)"
check 'a new one' 'rolled-back 1' "$(value "$state/rollbacks/10" state) $(value "$state/rollbacks/10" tries)"; end

begin 'c01 an open record does not cut a try short'
starts 1.5.0 1
unit activating start-pre success 0 0
record 4 1.5.0 1.4.0 1 begun no
run rollback
check rc 0 "$rc"; unchanged; check state begun "$(value "$state/rollbacks/4" state)"; end

begin 'e6 refused by the guard while the service manager goes on trying: rolled back'
starts 1.5.0 2 2 1
unit activating auto-restart exit-code 1 1
rm -f "$fake/limit"
run rollback
check rc 0 "$rc"; rolled_back; end

begin 'e13 evidence: the words of the failed version only, from its first counted start on'
{
    echo 'start-guard: start 1 of 1.5.0, which is not confirmed yet'; echo 'an older try'
    echo '1.4.0 says goodbye'; echo 'start-guard: start 1 of 1.5.0, which is not confirmed yet'
    echo '1.5.0 first'; echo 'start-guard: start 2 of 1.5.0, which is not confirmed yet'; echo '1.5.0 second'
} >"$fake/journal"
run rollback
check rc 0 "$rc"; check first "$(printf 'start-guard: start 1 of 1.5.0, which is not confirmed yet')" \
    "$(value "$state/rollbacks/1" log)"
check lines 4 "$(grep -c '^log=' "$state/rollbacks/1")"
check last 'log=1.5.0 second' "$(grep '^log=' "$state/rollbacks/1" | tail -n 1)"; end

begin 'evidence: without that line, the last words of the unit'
printf 'start-guard: start 1 of 1.6.0, which is not confirmed yet\nwords\n' >"$fake/journal"
run rollback
check lines 2 "$(grep -c '^log=' "$state/rollbacks/1")"; end

for full in folder record; do
    begin "the state folder cannot be written: tried again until it can: $full"
    # As root, permissions stop nobody: the tool that renames does.
    rm -f "$root/bin/mv"
    case $full in
        folder) printf '#!/bin/sh\nexit 1\n' >"$root/bin/mv"; chmod +x "$root/bin/mv" ;;
        record) mkdir -p "$state/rollbacks/.1.new" ;;
    esac
    for _ in 1 2 3 4; do run rollback; check 'again' 75 "$rc"; done
    unchanged
    check_log 'pauses' 'sleep 30'
    rm -rf "$root/bin/mv" "$state/rollbacks/.1.new"
    run rollback
    check rc 0 "$rc"; rolled_back; end
done

for garbage in 08 09 999999999 0 7 -1 1x; do
    begin "garbage among the records hides no rollback: $garbage"
    mkdir -p "$state/rollbacks"
    echo x >"$state/rollbacks/$garbage"
    run rollback
    check rc 0 "$rc"; rolled_back; check state rolled-back "$(value "$state/rollbacks/1" state)"; end
done

begin 'garbage where the next record would stand is left there'
record 1 1.6.0 1.4.0 1 rolled-back yes
mkdir -p "$state/rollbacks/2"
run rollback
check rc 0 "$rc"; rolled_back; check records '1 2 3 ' "$(records)"; end

begin 'a file where the folder of records should be'
echo x >"$state/rollbacks"
run rollback
check rc 0 "$rc"; rolled_back; check records '1 ' "$(records)"; end

for lost in settled acked refused garbage; do
    begin "c29 the folder of records was lost: no number is given twice: $lost"
    want=8
    case $lost in
        settled) printf 'format=1\nthrough=7\n' >"$state/rollbacks.settled" ;;
        acked) printf 'format=1\nid=2\nid=7\nid=3\n' >"$state/rollbacks.acked" ;;
        refused) printf 'format=1\nthrough=7\nrefused=\n' >"$state/refused" ;;
        garbage) printf 'through=08\nid=99999999999\nid=;x\n' | tee "$state/refused" >"$state/rollbacks.acked"; want=1 ;;
    esac
    run rollback
    check rc 0 "$rc"; rolled_back; check records "$want " "$(records)"
    check id "$want" "$(value "$state/rollbacks/$want" id)"; end
done

begin 'c62 a package file that names a version with leading zeros names none'
sed -i 's/^version=.*/version=1.05.0/' "$lib/package"
rm -f "$state/order"
run rollback
check rc 0 "$rc"; rolled_back; check from unknown "$(value "$state/rollbacks/1" from)"; end

for other in 'installed 1.6.0' 'installed 1.6.0; unit active running success 0 0' 'unit active running success 0 0' \
    'echo 1.3.0 >"$state/known-good"' 'echo deinstall ok config-files 1.5.0 >"$fake/db"' \
    'echo deinstall ok installed 1.5.0 >"$fake/db"' '/usr/bin/rm -f "$fake/db" "$lib/package"'; do
    begin "c37 c52 a person did something else while the lock was waited for: $other"
    while_locked "$other"
    run rollback
    check 'decides again' 75 "$rc"; check_log 'once' '--install'
    check 'not started' no "$(there "$fake/started")"
    check 'what it did stays' '' "$(names "$fake" got)"
    check reason 'begun changed' "$(value "$state/rollbacks/1" state) $(value "$state/rollbacks/1" reason)"
    case $other in *1.6.0*) check version 1.6.0 "$(files_version)" ;; esac
    check 'nobody overwrote it' '' "$(grep -l 1.4.0 "$fake/db" 2>/dev/null || :)"
    echo 1.4.0 >"$state/known-good"
    end
done

begin 'c37 the fix that a person installed meanwhile runs: nothing is left to do'
while_locked 'installed 1.6.0; unit active running success 0 0'
run rollback; check 'first' 75 "$rc"
run rollback; check 'second' 0 "$rc"; check version 1.6.0 "$(files_version)"; check host active "$(active)"; end

for word in disabled masked-runtime; do
    begin "c37 a person made the unit $word while the lock was waited for: not started"
    echo UnitFileState=enabled >>"$fake/unit"
    while_locked "unit failed failed exit-code 1 101; echo UnitFileState=$word >>\"\$fake/unit\""
    run rollback
    check rc 0 "$rc"; check version 1.4.0 "$(files_version)"; check 'not started' no "$(there "$fake/started")"
    check record 'rolled-back yes' "$(value "$state/rollbacks/1" state) $(value "$state/rollbacks/1" started)"; end
done

begin 'a bad version that was started again meanwhile is no start of known-good'
while_locked 'unit activating auto-restart exit-code 1 101'
# Between the installation and the start: the version from before runs, its binary is deleted.
mkdir -p "$root/proc/55"
ln -s '/usr/bin/nox-mesh-host (deleted)' "$root/proc/55/exe"
cat >"$root/bin/readlink" <<'EOF_READLINK'
#!/bin/sh
. "${0%/*}/prelude"
one stopped
[ "$it" = yes ] || echo '/usr/bin/nox-mesh-host (deleted)'
EOF_READLINK
chmod +x "$root/bin/readlink"
echo 55 >"$fake/pid"
run rollback
check rc 0 "$rc"; rolled_back; check_log stopped 'systemctl stop nox-mesh-host.service'; end

for db in 'install ok half-configured 1.5.0' 'install reinstreq half-installed 1.5.0' 'install reinstreq half-installed 1.4.0'; do
    begin "c61 a power cut tore an upgrade, the host runs: made whole under it, without a restart or a record: $db"
    echo "$db" >"$fake/db"
    unit active running success 0 0
    run rollback
    check rc 0 "$rc"; check version 1.5.0 "$(files_version)"; check db 'install ok installed 1.5.0' "$(cat "$fake/db")"
    check 'no restart' no "$(there "$fake/started")"; check_no_log 'no stop' 'systemctl stop'
    check records '' "$(records)"; end
done

begin 'c61 the torn version is not retained: known-good is installed under the host that runs'
rm -f "$state"/packages/*1.5.0*
echo 'install reinstreq half-installed 1.5.0' >"$fake/db"
unit active running success 0 0
run rollback
check rc 0 "$rc"; check version 1.4.0 "$(files_version)"; check 'no restart' no "$(there "$fake/started")"; end

begin 'c61 a torn package that cannot be made whole now: tried again later'
echo 'install reinstreq half-installed 1.5.0' >"$fake/db"
echo '2 cannot copy: No space left on device' >"$fake/dpkg-fails"
unit active running success 0 0
run rollback; check rc 75 "$rc"
echo '1 subprocess returned error' >"$fake/dpkg-fails"
run rollback; check 'no use' 0 "$rc"; check host active "$(active)"; end

begin 'a shutdown does not cut the package manager short'
echo 'install' >"$fake/dpkg-terms"
run rollback
check rc 0 "$rc"; rolled_back; end

begin 'the binary is gone, whatever the database believes: put back'
installed 1.4.0
rm -f "$root/usr/bin/nox-mesh-host" "$state/order"
run rollback
check rc 0 "$rc"; rolled_back; check 'binary' 1.4.0 "$(cat "$root/usr/bin/nox-mesh-host")"; end

begin 'no record script: nothing is overwritten'
rm -f "$lib/record"
record 1 1.6.0 1.4.0 1 rolled-back yes
run rollback
check rc 3 "$rc"; unchanged; check kept 1.6.0 "$(value "$state/rollbacks/1" from)"; end

report
