#!/bin/sh
# Ctrl-C and SIGTERM end the demo with status 130 and leave no namespace, process or file behind, whenever they come.
. tests/netns/lib.sh

for signal in INT TERM; do
    # While it builds, measures plain TCP, and runs its daemons (the first tunnel starts after about 4 s).
    for wait in 0.2 2 6; do
        export TMPDIR="$work/tmp"
        mkdir -p "$TMPDIR"
        "$fairspan" demo --duration 1 >"$work/demo.log" 2>&1 &
        demo=$!
        sleep "$wait"
        kill "-$signal" "$demo"
        wait "$demo" && status=0 || status=$?
        [ $status = 130 ] || wrong "SIG$signal after $wait s: status $status"
        [ -z "$(ip netns list | grep "^fs-$demo-" || true)" ] || wrong "SIG$signal after $wait s left namespaces"
        [ -z "$(pgrep -f "$fairspan up" || true)" ] || wrong "SIG$signal after $wait s left daemons"
        [ -z "$(ls -A "$TMPDIR")" ] || wrong "SIG$signal after $wait s left files: $(ls -A "$TMPDIR")"
    done
done
