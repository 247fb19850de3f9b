# The scripts ended at every tool call, before and after it, in two ways: only the script dies and its unit tries
# again, or the power is cut and the machine boots. Whatever the instant: known-good runs, one record, whole files.
# Under dash at every call, under the other shells at some of them, see NOX_TEST_EVERY in `run`.
. "${0%/*}/lib.sh"
every=${NOX_TEST_EVERY:-1}
exec 2>/dev/null     # the shells say "Killed" at every cut; findings go to stdout

boot() {            # what systemd does with the host at boot
    echo "boot-$1" >"$root/proc/sys/kernel/random/boot_id"
    rm -f "$fake/limit"
    case $(cat "$fake/db") in
        'install ok installed 1.4.0') unit active running success 0 0 ;;
        *) unit failed failed exit-code 1 101; : >"$fake/limit" ;;
    esac
}
whole_files() {
    for file in "$state/known-good" "$state/order" "$state"/rollbacks/*; do
        case $file in *'*') continue ;; esac
        whole=no line=
        while IFS= read -r line; do
            case $line in *=* | 1.4.0) whole=yes ;; *) whole=no ;; esac
        done <"$file"
        check "whole: ${file##*/}" 'yes <>' "$whole <$line>"
    done
}

begin 'uncut'
run rollback
last_call=$(cat "$fake/calls")
rolled_back; end

for mode in again power; do
    for side in before after; do
        begin "c61 rollback cut $side each of its $last_call tool calls, then $mode"
        at=1
        while [ "$at" -le "$last_call" ]; do
            fresh
            now_testing="rollback cut $side call $at, then $mode"
            echo "$at $side" >"$fake/cut"
            run rollback
            check 'it was cut' 137 "$rc"
            whole_files
            rm -f "$fake/cut"
            [ $mode = again ] || boot "$at"
            was=$(active)
            run rollback
            check rc 0 "$rc"
            rolled_back
            was=$was/$(records)
            case $was in */'1 ' | active/) ;; *) check 'one record' '1 ' "$was" ;; esac
            [ "$was" = active/ ] || check 'finished' 'rolled-back yes' \
                "$(value "$state/rollbacks/1" state) $(value "$state/rollbacks/1" started)"
            check 'no lock left' '' "$(locks)"
            at=$((at + every))
        done
        end
    done
done

begin 'c61 the package manager is torn in the middle of the rollback'
: >"$fake/dpkg-tears"
run rollback
check 'later' 75 "$rc"
run rollback
check rc 0 "$rc"; rolled_back; check records '1 ' "$(records)"
check from 1.5.0 "$(value "$state/rollbacks/1" from)"; end

begin 'c61 a boot after each cut: the guard has the rest finished while known-good runs'
at=1
while [ "$at" -le "$last_call" ]; do
    fresh
    now_testing="rollback cut before call $at, then the guard of a boot"
    run start-guard start       # leaves the mark of this boot
    echo "$at before" >"$fake/cut"
    run rollback
    rm -f "$fake/cut"
    boot "$at"
    : >"$fake/log"
    run start-guard start
    left=$(for r in $(records); do value "$state/rollbacks/$r" state; value "$state/rollbacks/$r" started; done)
    [ "$(files_version)" = 1.4.0 ] || left='refused, as 1.5.0 still is there'
    case $left in '' | *yes) check_no_log 'nothing to finish' rollback.service ;; *) check_log 'called' rollback.service ;; esac
    at=$((at + 4 * every))
done
end

begin 'start-guard cut at every tool call: never more than one start is lost or doubled'
rm -f "$state/starts"
run start-guard start
last_call=$(cat "$fake/calls")
at=1
while [ "$at" -le "$last_call" ]; do
    for side in before after; do
        fresh
        starts 1.5.0 1
        now_testing="start-guard cut $side call $at"
        echo "$at $side" >"$fake/cut"
        run start-guard start
        rm -f "$fake/cut"
        c=$(value "$state/starts" count)
        case $c in 1 | 2) ;; *) check 'count after the cut' '1 or 2' "$c" ;; esac
        run start-guard start
        check 'count goes on' "0 $((c + 1))" "$rc $(value "$state/starts" count)"
    done
    at=$((at + every))
done
end
report
