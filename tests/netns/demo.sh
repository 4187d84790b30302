#!/bin/sh
# `fairspan demo` reaches its target on this machine, and what the README shows of it is true here as well.
#
#   near ==(fibre, dsl, lte: emulated)== far        (the demo builds it itself)
. tests/netns/lib.sh

"$fairspan" demo --duration 3 --json >"$work/now.json" 2>"$work/demo.log" && status=0 || status=$?
[ "$(wc -l <"$work/now.json")" = 1 ] || wrong "not one line of JSON: $(cat "$work/now.json")"

# Every number in the order of the documented keys, one a line: KEY VALUE
numbers() { tr ',{[' '\n\n\n' <"$1" | sed -n 's/^"\([a-z_]*\)":"\{0,1\}\([^"]*[0-9a-z]\)"\{0,1\}[]}]*$/\1 \2/p'; }
numbers "$work/now.json" >"$work/now"
numbers docs/demo.json >"$work/then"
[ "$(cut -d ' ' -f 1 "$work/now")" = "$(cut -d ' ' -f 1 "$work/then")" ] || wrong 'the keys are not those of docs/demo.json'

# Links, plain TCP, tunnels and their sum are set by the emulated links: within 6 %, 3 s against 5 s, on any machine.
# What packets in turn and MPTCP reach varies from run to run, and is not compared.
paste -d ' ' "$work/then" "$work/now" | awk '
    /^(name|verdict) / && $2 != $4 { print "README: " $0; bad = 1 }
    /^(rate_mbit|goodput_mbit|plain_tcp_mbit|sum_mbit|best_mbit|bond_mbit|reordered_packets) / {
        slack = 0.06 * $2
        if ($4 - $2 > slack || $2 - $4 > slack) { print "README: " $0; bad = 1 }
    }
    END { exit bad }' || wrong 'the sample in the README is not what this machine shows'
[ $status = 0 ] || wrong "exit status $status: $(cat "$work/now.json")"
[ -z "$(ip netns list | grep -v "fs-$$-" | grep "^fs-.*-\(near\|far\|middle\)" || true)" ] || wrong 'namespaces were left behind'
