#!/bin/sh
# Runs one test program with a bound on its time, tells how it ended, and cleans up behind one that did not.
#
#   scripts/bounded.sh PROGRAM [ARGUMENT ...]
#
# `scripts/test.sh` has cargo start every test binary through this. A program that is not at its end after
# FAIRSPAN_TEST_LIMIT seconds (default 600), or at FAIRSPAN_TEST_DEADLINE (seconds since 1970), is shown with all its
# descendants, where each of their threads waits, and its last words; then all are killed, and the network namespaces that
# they made are removed. Its status is 124 then. What the program prints goes to standard output when it has ended; one
# line about how it ended, and what went wrong, to descriptor 3 where that is open. Who interrupts it ends the program and
# all that it started, and its namespaces and temporary files go too.
set -u
limit=${FAIRSPAN_TEST_LIMIT:-600}
if [ -n "${FAIRSPAN_TEST_DEADLINE:-}" ]; then
    left=$((FAIRSPAN_TEST_DEADLINE - $(date +%s)))
    [ "$left" -ge "$limit" ] || limit=$left
fi
{ true >&3; } 2>/dev/null || exec 3>&2
began=$(date +%s)
name=$(basename "$1" | sed 's/-[0-9a-f]\{16\}$//')
name=${CARGO_PKG_NAME:+$CARGO_PKG_NAME }$name
if [ "$limit" -le 0 ]; then
    echo "test $name ... FAILED: the time for all tests is over; it was not started" >&3
    echo "test $name (was not started) ... FAILED"
    echo "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out"
    exit 124
fi
work=$(mktemp -d)
out=$work/out
# Where the program makes its temporary files, also those of users that it makes daemons of.
mkdir "$work/tmp" && chmod 711 "$work" && chmod 1777 "$work/tmp"

# All descendants of a process, from one look at /proc, parents first.
descendants() {
    # The name in `stat` may hold spaces and parentheses: what follows its last one is state and parent.
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v root="$1" '
        { pid = $1; sub(/^.*\) . /, ""); parent[pid] = $1 }
        END {
            inside[root] = 1
            do {
                more = 0
                for (p in parent) if (!(p in inside) && (parent[p] in inside)) { inside[p] = 1; print p; more = 1 }
            } while (more)
        }'
}

# What a process is and where its threads wait.
show() {
    [ -d "/proc/$1/task" ] || return
    echo "  process $1: $(tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | cut -c 1-200)"
    for task in "/proc/$1/task"/*; do
        state=$(sed -n 's/^State:[^(]*(\(.*\))/\1/p' "$task/status" 2>/dev/null)
        echo "    thread $(cat "$task/comm" 2>/dev/null): $state in $(cat "$task/wchan" 2>/dev/null)"
        stack=$(head -n 8 "$task/stack" 2>/dev/null | sed 's/^.*\] //; s/+0x.*//' | tr '\n' ' ')
        [ -z "$stack" ] || echo "      kernel: $stack"
    done
}

# Namespaces of ours (fs-MAKER-...) whose maker is gone, and the processes in them.
remove_namespaces() {
    [ "$(id -u)" = 0 ] || return 0
    for namespace in $(timeout 10 ip netns list 2>/dev/null | sed -n 's/^\(fs-[0-9]*-[^ ]*\).*/\1/p'); do
        maker=${namespace#fs-}
        [ ! -d "/proc/${maker%%-*}" ] || continue
        for pid in $(timeout 10 ip netns pids "$namespace" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
        timeout 10 ip netns del "$namespace" 2>/dev/null && echo "  removed namespace $namespace"
    done
}

watch() {
    while [ $(($(date +%s) - began)) -lt "$limit" ]; do
        sleep 1
        kill -0 "$1" 2>/dev/null || exit
    done
    self=$(sh -c 'echo $PPID')
    {
        echo "test $name ... did not end within $limit s"
        found=
        for pid in $(descendants "$1"); do
            # Not this watch, nor what it runs.
            case " $self $(descendants "$self" | tr '\n' ' ') " in *" $pid "*) continue ;; esac
            found="$found $pid"
            show "$pid"
        done
        if command -v gdb >/dev/null 2>&1; then
            for pid in $found; do
                timeout 20 gdb -p "$pid" -batch -ex 'thread apply all backtrace 16' 2>/dev/null | grep '^\(#\|Thread\)' | head -n 200
                break
            done
        fi
        echo '  its last words:'
        tail -n 30 "$out" | sed 's/^/    /'
        : >"$work/over"
        for pid in $found; do kill -KILL "$pid" 2>/dev/null; done
    } >"$work/report" 2>/dev/null
    cat "$work/report" >&3
}

# Whether one of these processes still runs.
runs() { # process ...
    for pid; do ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$pid/status" 2>/dev/null || return 0; done
    return 1
}
# Ends the program and all that it started, which are asked first.
# shellcheck disable=SC2086,SC2317 # numbers of processes; called by a trap
interrupted() {
    trap '' INT TERM HUP
    found=$(descendants $$)
    kill -TERM $found 2>/dev/null
    tries=0
    while [ $tries -lt 50 ] && runs $found; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill -KILL $found 2>/dev/null
    wait
    remove_namespaces >/dev/null
    rm -rf "$work"
    exit 130
}

trap interrupted INT TERM HUP
watch $$ >/dev/null 2>&1 &
watch=$!
# In the background, so that a signal is heard while it runs; a shell has such programs ignore what Ctrl-C sends.
TMPDIR=$work/tmp env --default-signal=INT,QUIT "$@" >"$out" 2>&1 <&0 &
wait $!
status=$?
if [ -e "$work/over" ]; then
    wait "$watch"
    remove_namespaces >&3
    status=124
else
    kill "$watch" 2>/dev/null
    [ ! -e "$work/over" ] || status=124
fi

cat "$out"
lost=
took="$(($(date +%s) - began)) s"
result=$(sed -n 's/^test result: [^.]*\. \(.*\); [0-9]* measured.*/\1/p' "$out" | tail -n 1)
if [ $status -eq 0 ]; then
    echo "test $name ... ok: ${result:-done} ($took)" >&3
elif [ $status -eq 77 ]; then
    # It says itself that it cannot run here, and why, in its last line.
    echo "test $name ... skipped: $(tail -n 1 "$out")" >&3
elif [ $status -eq 124 ]; then
    lost="not at its end within $limit s"
else
    [ -n "$result" ] || lost="status $status"
    {
        echo "test $name ... FAILED: ${result:-status $status} ($took)"
        if grep -q '^failures:$' "$out"; then
            # libtest prints the output of the passed, then of the failed tests.
            awk '/^failures:$/ { on = 1 } on' "$out" | head -n 400
        else
            tail -n 60 "$out"
        fi
    } >&3
fi
if [ -n "$lost" ]; then
    # What libtest would have said, for who counts.
    echo "test $name ($lost) ... FAILED"
    echo "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out"
fi
rm -rf "$work"
exit $status
