#!/bin/sh
# docs/examples/ethernet-*.toml work, and in `stripe` mode a data frame is the packet and nothing more.
#
#   left  eth1 ---- eth1  right
#         eth2 ---- eth2
. tests/netns/lib.sh

host left
host right
cable left eth1 10.9.1.1/24 right eth1 10.9.1.2/24
cable left eth2 10.9.2.1/24 right eth2 10.9.2.2/24
for name in left right; do
    "$fairspan" check "docs/examples/ethernet-$name.toml" >"$work/check.log" 2>&1 || wrong "check of ethernet-$name.toml"
    on "$name" "$fairspan" up "$(pwd)/docs/examples/ethernet-$name.toml" >"$work/$name.log" 2>&1 &
    pids="$pids $!"
done
eventually on left ping -q -c 1 -W 1 10.78.0.2 || wrong 'no packet got through the bond'

# 2000 echoes of 1400 bytes, one after the other: both links carry some, and their bytes are those of the packets with
# Ethernet headers only. In a row, because a sender that falls idle marks each channel at once.
bytes() { on right cat /proc/net/dev | awk -v d="$1:" '$1 == d { print $2 }'; }
# Markers and signs of life, which go by packets and by time, are counted by who sends them.
control() { on left "$fairspan" status fs0 --json | grep -o '"sent_control":[0-9]*' | awk -F: '{ sum += $2 } END { print sum + 0 }'; }
count=2000
began=$(date +%s%N) control_before=$(control) before_1=$(bytes eth1) before_2=$(bytes eth2)
on left ping -q -f -c $count -s 1372 10.78.0.2 >"$work/ping.log" || wrong 'echoes were lost'
grep -q ' 0% packet loss' "$work/ping.log" || wrong 'echoes were lost'
moved_1=$(($(bytes eth1) - before_1)) moved_2=$(($(bytes eth2) - before_2))
messages=$(($(control) - control_before))
tenths=$((($(date +%s%N) - began) / 100000000 + 1))
[ "$moved_2" -gt 50000 ] && [ "$moved_1" -gt $((5 * moved_2)) ] \
    || wrong "rates of 10 to 1, and $moved_1 and $moved_2 bytes"
least=$((count * 1414))
# A marker is 60 bytes with its Ethernet header. A few probes of the path MTU are as long as a packet; while large frames go,
# each channel confirms it every 100 ms with two probes (`confirm_mtu`), and the peer, which answers as much, does too.
most=$((least + 64 * messages + (8 + 2 * 2 * tenths) * 1514))
total=$((moved_1 + moved_2))
[ "$total" -ge "$least" ] && [ "$total" -le "$most" ] \
    || wrong "$total bytes arrived for $count packets of 1400 bytes; $least expected, and at most $most with $messages messages"
documented left
