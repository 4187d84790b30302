#!/bin/sh
# Linux's own TCP through the emulator gets what the simulator's preset `linux` gets of the same link: CUBIC and Reno.
#
#   sender ---- emulator: 20 Mbit/s, 10 ms each way, 50,000 bytes of queue ---- receiver
#
# The simulated side is scenarios/cross-check/linux.toml. Each run has 8 s; goodput may differ by 5 %. A measurement: it is made
# with `long` only.
. tests/netns/lib.sh

[ "${1:-}" = long ] || skip 'a measurement, for `make test-all`'
command -v iperf3 >/dev/null || skip 'no iperf3'
host sender
host middle
host receiver
cable() { ip link add "$2" netns "fs-$$-$1" type veth peer name "$4" netns "fs-$$-$3"; }
cable sender wire middle left
cable receiver wire middle right
for end in sender receiver; do ip -n "fs-$$-$end" link set wire up; done
for end in left right; do ip -n "fs-$$-middle" link set "$end" up; done
ip -n "fs-$$-sender" address add 10.9.0.1/24 dev wire
ip -n "fs-$$-receiver" address add 10.9.0.2/24 dev wire

on middle "$fairspan" emulate --a left --b right --rate 20Mbit --delay 10ms --queue 50000B >"$work/emulate.log" 2>&1 &
pids="$pids $!"
for end in sender receiver; do
    for offload in tso gso gro; do on "$end" ethtool -K wire "$offload" off >/dev/null 2>&1 || true; done
done
eventually on sender ping -c 1 -W 1 10.9.0.2 || wrong 'the emulated link does not work'
on receiver iperf3 -s >"$work/server.log" 2>&1 &
pids="$pids $!"
eventually on sender sh -c 'echo | timeout 1 iperf3 -c 10.9.0.2 -n 1' || wrong 'no answer from iperf3'

alike() { # congestion control
    congestion=$1
    on sender iperf3 -c 10.9.0.2 -t 8 -C "$congestion" --json >"$work/iperf3.log" || wrong "iperf3 with $congestion"
    # The last bits_per_second are what the receiver counted.
    linux=$(grep -o '"bits_per_second":[^,]*' "$work/iperf3.log" | tail -1 | sed 's/.*://')
    again=$(grep -o '"retransmits":[^,]*' "$work/iperf3.log" | tail -1 | sed 's/.*://')
    ours=$("$fairspan" sim scenarios/cross-check/linux.toml --json --set "sweep.0.values=[\"$congestion\"]" \
        | grep -o '"goodput":[^,]*' | head -1 | sed 's/.*://')
    echo "$congestion: Linux $(uname -r) $linux bit/s, $again segments again; simulated $ours"
    awk -v a="$linux" -v b="$ours" 'BEGIN { exit !(a > 0 && b / a > 0.95 && b / a < 1.05) }'
}
for congestion in cubic reno; do
    judged alike $congestion || wrong "$congestion: Linux $linux bit/s, simulated $ours"
done
