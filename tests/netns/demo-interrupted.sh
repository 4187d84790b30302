#!/bin/sh
# Ctrl-C and SIGTERM end the demo with status 130 and leave no namespace, process or file behind, whenever they come.
. tests/netns/lib.sh

# Whether a process catches SIGHUP, SIGINT and SIGTERM, which it sees to one by one: a signal that comes sooner merely kills it.
catches() { [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status") & 0x4003)) -eq $((0x4003)) ]; }
# While it builds its network, measures plain TCP, and runs its daemons.
builds() { true; }
measures() { [ -n "$(ip -n "fs-$demo-far" link show lte 2>/dev/null)" ] && sleep 1; }
bonds() { [ -n "$(pgrep -f "$TMPDIR/.*toml" || true)" ]; }
# A daemon's helper ends when it hears that the daemon did, and on a busy machine that is a while after the demo.
no_daemons() { ! bonds; }
for signal in INT TERM; do
    for moment in builds measures bonds; do
        export TMPDIR="$work/tmp"
        mkdir -p "$TMPDIR"
        "$fairspan" demo --duration 1 >"$work/demo.log" 2>&1 &
        demo=$!
        eventually catches "$demo" || wrong 'it does not catch signals'
        eventually $moment || wrong "it never $moment: $(cat "$work/demo.log")"
        kill "-$signal" "$demo" || wrong "it ended before SIG$signal while it $moment: $(cat "$work/demo.log")"
        wait "$demo" && status=0 || status=$?
        [ $status = 130 ] || wrong "SIG$signal while it $moment: status $status: $(cat "$work/demo.log")"
        [ -z "$(ip netns list | grep "^fs-$demo-" || true)" ] || wrong "SIG$signal while it $moment left namespaces"
        eventually no_daemons || wrong "SIG$signal while it $moment left daemons"
        [ -z "$(ls -A "$TMPDIR")" ] || wrong "SIG$signal while it $moment left files: $(ls -A "$TMPDIR")"
    done
done
