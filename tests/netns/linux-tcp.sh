#!/bin/sh
# Linux's own TCP through the emulator gets what the simulator's preset `linux` gets of the same links: CUBIC, Reno and BBR version 1.
#
#   sender ---- emulator: a rate, a delay and a queue of one bandwidth-delay product ---- receiver
#
# The paths, the laws and the simulated side are those of scenarios/cross-check/linux.toml. Each run has 15 s; goodput may differ by 5 %.
# A measurement: it is made with `long` only.
. tests/netns/lib.sh

[ "${1:-}" = long ] || skip 'a measurement, for `make test-all`'
command -v iperf3 >/dev/null || skip 'no iperf3'
scenario=scenarios/cross-check/linux.toml
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
for end in sender receiver; do
    for offload in tso gso gro; do on "$end" ethtool -K wire "$offload" off >/dev/null 2>&1 || true; done
done
# A connection knows nothing of those before it.
on sender sysctl -qw net.ipv4.tcp_no_metrics_save=1
on receiver iperf3 -s >"$work/server.log" 2>&1 &
pids="$pids $!"

no_emulator() {
    for pid in $(ip netns pids "fs-$$-middle"); do
        [ "$(cat "/proc/$pid/comm")" != fairspan ] || return 1
    done
}
path() { # rate, delay, queue
    end_daemons middle
    eventually no_emulator || wrong 'the emulator did not end'
    rate=$1 delay=$2 queue=$3
    on middle "$fairspan" emulate --a left --b right --rate "$rate" --delay "$delay" --queue "$queue" >"$work/emulate.log" 2>&1 &
    pids="$pids $!"
    eventually on sender ping -c 1 -W 1 10.9.0.2 || wrong 'the emulated link does not work'
    eventually on sender sh -c 'echo | timeout 10 iperf3 -c 10.9.0.2 -n 1' || wrong 'no answer from iperf3'
}

alike() { # congestion control, and what the simulator calls it
    on sender iperf3 -c 10.9.0.2 -t 15 -C "$1" --json >"$work/iperf3.log" || wrong "iperf3 with $1"
    # The last bits_per_second are what the receiver counted.
    linux=$(grep -o '"bits_per_second":[^,]*' "$work/iperf3.log" | tail -1 | sed 's/.*://')
    again=$(grep -o '"retransmits":[^,]*' "$work/iperf3.log" | tail -1 | sed 's/.*://')
    ours=$("$fairspan" sim "$scenario" --json --set "sweep.0.values=[[\"$rate\", \"$delay\", \"$queue\"]]" --set "sweep.1.values=[\"$2\"]" \
        | grep -o '"goodput":[^,]*' | head -1 | sed 's/.*://')
    echo "$rate, $delay, $1: Linux $(uname -r) $linux bit/s, $again segments again; simulated $ours"
    awk -v a="$linux" -v b="$ours" 'BEGIN { exit !(a > 0 && b / a > 0.95 && b / a < 1.05) }'
}
# One path a line.
sed -n 's/^ *\["\([^"]*\)", "\([^"]*\)", "\([^"]*\)"\],$/\1 \2 \3/p' "$scenario" >"$work/paths"
[ "$(wc -l <"$work/paths")" -eq 5 ] || wrong "five paths in $scenario"
exec 3<"$work/paths"
while read -r a b c <&3; do
    path "$a" "$b" "$c"
    for law in cubic:cubic reno:reno bbr:bbr1; do
        on sender grep -qw "${law%:*}" /proc/sys/net/ipv4/tcp_available_congestion_control || { echo "this kernel has no ${law%:*}"; continue; }
        judged alike "${law%:*}" "${law#*:}" || wrong "$a, $b, ${law%:*}: Linux $linux bit/s, simulated $ours"
    done
done
