#!/bin/sh
# `fairspan demo` builds its network, measures over it and cleans up: its document has the keys of docs/demo.json, nothing is
# out of order where the machine has time to spare, verdict and exit status agree, and one of three runs passes, with nothing out of
# order. What it measures is this machine's; it is not compared with anything.
#
#   near ==(fibre, dsl, lte: emulated)== far        (the demo builds it itself)
. tests/netns/lib.sh

keys() { tr ',{[' '\n\n\n' <"$1" | sed -n 's/^"\([a-z_]*\)":.*/\1/p'; }
# Of three runs one passes: a bond that is slower than its best link each time, or out of order each time, is wrong on any machine.
verdict=
for run in 1 2 3; do
    "$fairspan" demo --rounds 1 --duration 1 --json >"$work/now.json" 2>"$work/demo.log" && status=0 || status=$?
    [ "$(wc -l <"$work/now.json")" = 1 ] || wrong "not one line of JSON: $(cat "$work/now.json")"
    [ "$(keys "$work/now.json")" = "$(keys docs/demo.json)" ] || wrong 'the keys are not those of docs/demo.json'
    # A receiver that gets no processor lets packets go on when their time is over: then nothing is judged by that run.
    processors=$(sed -n 's/.*"processors_percent":\([0-9]*\).*/\1/p' "$work/now.json")
    grep -q '"reordered_packets":0[,}]' "$work/now.json" || [ "$processors" -ge 85 ] || wrong "out of order: $(cat "$work/now.json")"
    grep -q '_mbit":0.0[,}]' "$work/now.json" && wrong "nothing was carried: $(cat "$work/now.json")"
    verdict=$(sed -n 's/.*"verdict":"\([a-z]*\)".*/\1/p' "$work/now.json")
    case $verdict$status in
        pass0) break ;;
        fail1) echo "run $run: $(cat "$work/now.json")" ;;
        *) wrong "exit status $status: $(cat "$work/now.json")" ;;
    esac
done
[ "$verdict" = pass ] || wrong 'three runs failed'
grep -q '"verdict":"pass"' docs/demo.json || wrong 'the README shows a run that failed'
pid=$(ip netns list | sed -n 's/^fs-\([0-9]*\)-near.*/\1/p' | while read -r pid; do [ -d "/proc/$pid" ] || echo "$pid"; done)
[ -z "$pid" ] || wrong "namespaces were left behind: $(ip netns list)"
