#!/bin/sh
# Nodes of rings (`fairspan ring up`): shares of a link, a link and a node that fail, and a ring over a bond.
#
#   n1 east -- a1 wire b1 -- west n2 east -- a2 wire b2 -- west n3 ... n4 east -- a4 wire b4 -- west n1
#
# The links are emulated; every hop is an encrypted UDP channel. Then three nodes, the first two joined by a bond:
#
#   p1 dsl, lte -- wire -- dsl, lte p2 east -- west p3 east -- west p1
#
# A machine that is slow or busy holds nodes up for many milliseconds. So what is asked of every machine is what it counts
# (nothing lost in transit, a ring that heals) and how the flows of one run share what they carry together. Rates and times are
# measured on request, with the figures of the testbed of the rings paper's section VIII: eight nodes, links of 100 Mbit/s, T
# of 0.6 ms, fair rates of one byte.
#
#   tests/netns/ring.sh            four nodes, links of 2 Mbit/s: each flow's part of the sum within 15 %
#   tests/netns/ring.sh long       the testbed: rates over 10 s within 2 %, fair rates as told, the Parallel Parking Lot, TCP
#   tests/netns/ring.sh bond       the ring over a bond alone
#   tests/netns/ring.sh gigabit    four nodes, links of 1 Gbit/s without an emulator: what this machine's processors carry
FAIRSPAN_HOST_SECONDS=1200
. tests/netns/lib.sh
command -v python3 >/dev/null || skip 'no python3'
program=$(pwd)/tests/netns/ring.py
mode=${1:-quick}
realtime= seconds=4
if [ "$mode" = long ]; then
    # A process of the usual class waits for milliseconds when others compute, and a millisecond is two intervals.
    realtime='chrt -f 5' seconds=10
    $realtime true 2>/dev/null || realtime='nice -n -20'
fi

pair() {
    ip link add "$2" netns "fs-$$-$1" type veth peer name "$4" netns "fs-$$-$3"
    ip -n "fs-$$-$1" link set "$2" up
    ip -n "fs-$$-$3" link set "$4" up
}
member() { # host: with keys
    host "$1"
    "$fairspan" keygen >"$work/$1.key"
    "$fairspan" pubkey <"$work/$1.key" >"$work/$1.pub"
}
# Node NUMBER of a ring of NODES at hosts called PREFIX and the number: it listens for its west neighbour and calls the east one.
# Further lines are settings of [ring], [ring.east] and [ring.west].
configure() { # prefix, number, nodes, ring, east, west
    next=$(($2 % $3 + 1))
    before=$((($2 + $3 - 2) % $3 + 1))
    cat >"$work/$1$2.toml" <<END
[interface]
name = "ring0"
address = ["10.8.0.$2/24", "fd00:8::$2/64"]
private_key_file = "$work/$1$2.key"
listen_port = 51901

[ring]
node = $2
nodes = $3
$4

[ring.east]
kind = "udp"
public_key = "$(cat "$work/$1$next.pub")"
$5

[ring.west]
kind = "udp"
public_key = "$(cat "$work/$1$before.pub")"
$6
END
    "$fairspan" check "$work/$1$2.toml" >"$work/checked" || wrong "$(cat "$work/checked")"
}
started() { # log, host, command ...: its process is the number in $work/LOG.pid; what else runs here is not to hold it up
    log=$1 where=$2
    shift 2
    # shellcheck disable=SC2016,SC2086 # expanded inside; a command and its arguments, or nothing
    on "$where" sh -c 'echo $$ >"$0" && exec "$@"' "$work/$log.pid" $realtime "$@" >>"$work/$log.log" 2>&1 &
    pids="$pids $!"
}
start() { started "$1" "$1" "$fairspan" ring up "$work/$1.toml"; }
status() { on "$1" "$fairspan" ring status ring0 --json >"$work/$1.json"; }
is_whole() { status "$1" && python3 "$program" whole "$work/$1.json"; }
whole() {
    for node in "$@"; do
        eventually is_whole "$node" || wrong "the ring is not whole: $(on "$node" "$fairspan" ring status ring0 2>&1)"
    done
}

# Flows FROM:TO:LOAD at once, in per cent of what a link carries beside control messages: what arrives is RIAS, nothing is
# lost in transit, and the nodes named as NODE:BYTE tell these fair rates for their links of ringlet 0, within 1 (the median of
# what they tell).
flows() { # name, bytes, flow ...
    judged run_flows "$@" || wrong "$1: not RIAS, or something was lost in transit"
}
run_flows() { # as above
    name=$1 bytes=$2 lost_before=$(lost)
    shift 2
    echo "$name"
    # What takes time comes first: then all begin at once.
    port=5210 running= sending= heard=
    for flow in "$@"; do
        $realtime python3 "$program" part "${flow##*:}" "$capacity" >"$work/rate$port"
        heard="$heard $work/heard$port"
        port=$((port + 1))
    done
    # shellcheck disable=SC2086 # several
    rm -f "$work/over" $heard
    port=5210
    for flow in "$@"; do
        from=${flow%%:*}
        rest=${flow#*:}
        # shellcheck disable=SC2086 # several
        on "n${rest%%:*}" $realtime python3 "$program" receive 1.5 "$seconds" $port "$work/heard$port" $heard \
            >"$work/arrived$port" &
        running="$running $!"
        on "n$from" $realtime python3 "$program" send "10.8.0.${rest%%:*}" "$(cat "$work/rate$port")" 120 $port "$work/over" &
        sending="$sending $!"
        port=$((port + 1))
    done
    [ -z "$bytes" ] || sleep "$seconds"
    told=
    for expected in $bytes; do
        node=${expected%%:*}
        on "n$node" $realtime python3 "$program" fair 0 "$node" >"$work/bytes" || wrong "no status of node $node"
        read -r byte often <"$work/bytes"
        echo "  node $node tells $(printf '0x%02X' "$byte"), $often % of the time within 1"
        difference=$((byte - ${expected#*:}))
        [ ${difference#-} -le 1 ] || told="node $node tells $byte, not ${expected#*:}"
    done
    for pid in $running; do wait "$pid" || wrong "$name: a program failed"; done
    touch "$work/over"
    for pid in $sending; do wait "$pid" || wrong "$name: a program failed"; done
    port=5210 arrived=
    for flow in "$@"; do
        arrived="$arrived ${flow%:*}:$(cat "$work/rate$port"):$(cat "$work/arrived$port")"
        port=$((port + 1))
    done
    # shellcheck disable=SC2086 # several
    python3 "$program" check "$work" "$fairspan" "$nodes" "$capacity" $within $arrived || return
    [ -z "$told" ] || { echo "  $told" && return 1; }
    lossless
}
# Packets that nodes dropped with their transit queues full, each node's number before it.
lost() {
    n=0
    while [ $n -lt "$nodes" ]; do
        n=$((n + 1))
        status "n$n" || wrong "no status of node $n"
        printf '%s:%s ' $n "$(python3 "$program" counter "$work/n$n.json" transit_full)"
    done
}
lossless() {
    lost_after=$(lost)
    [ "$lost_after" = "$lost_before" ] || { echo "  lost in transit: $lost_before before, $lost_after after"; return 1; }
}

# A packet a millisecond from node 1 to node 3 (4 of the testbed), while something on its way fails: packets arrive again, by
# the other way. In the testbed, whose nodes notice a silence of 25 ms, the ring is broken for less than 50 ms.
failure() { # name, what mends it, command ...
    name=$1 mend=$2
    shift 2
    judged run_failure "$@" || wrong "$name: the ring was broken for $gap ms"
    $mend
}
run_failure() { # command ...
    [ "$attempt" -eq 1 ] || { $mend && whole n1; }
    lasts=3 failed=
    [ "$mode" = long ] || { lasts=60 && failed=$work/failed; }
    rm -f "$work/over" "$work/failed" "$work/ticking"
    on "n$far" $realtime python3 "$program" gap $((lasts + 1)) "$failed" "$work/ticking" >"$work/gap" &
    waited=$!
    on n1 $realtime python3 "$program" ticks "10.8.0.$far" $lasts "$work/over" &
    ticking=$!
    # What fails before the first packet is nothing that they could be lost by.
    eventually test -e "$work/ticking" || wrong "$name: nothing arrives before it"
    sleep 1
    "$@"
    touch "$work/failed"
    wait $waited || wrong "$name: nothing arrives"
    touch "$work/over"
    wait $ticking || wrong "$name: nothing is sent"
    read -r gap lost <"$work/gap"
    echo "$name: a gap of $gap ms, $lost packets lost"
    [ "$mode" != long ] || [ "${gap%.*}" -lt 50 ]
}
kill_node() { kill -KILL "$(cat "$work/$1.pid")"; }
# On a busy machine a killed process may still hold its socket when the next line of a script runs. A zombie holds nothing.
has_ended() { ! grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$(cat "$work/$1.pid")/status" 2>/dev/null; }
start_again() { eventually has_ended "$1" || wrong "$1 does not end"; start "$1"; }
pull() { ip -n "fs-$$-wire" link set "$1" down; }
plug() { ip -n "fs-$$-wire" link set "$1" up; }

# TCP flows FROM:TO for some seconds: what they carry together, and each.
tcp() { # name, flow ...
    name=$1
    shift
    echo "$name"
    running= port=5301 lost_before=$(lost)
    for flow in "$@"; do
        to=${flow#*:}
        on "n$to" timeout 60 iperf3 -s -1 -p $port >/dev/null 2>&1 &
        running="$running $!"
        port=$((port + 1))
    done
    sleep 1
    port=5301
    for flow in "$@"; do
        on "n${flow%%:*}" timeout 60 iperf3 -c "10.8.0.${flow#*:}" -p $port -t "$seconds" -O 2 --json \
            >"$work/tcp$port" &
        running="$running $!"
        port=$((port + 1))
    done
    for pid in $running; do wait "$pid" || wrong "$name: a program failed"; done
    port=5301
    for flow in "$@"; do
        echo "  ($flow) $(python3 "$program" goodput "$work/tcp$port") Mbit/s of payload"
        port=$((port + 1))
    done
    lossless || wrong "$name: something was lost in transit"
}

# What the nodes of a mode have, and how exactly flows must share.
figures() {
    if [ "$mode" = long ]; then
        nodes=8 far=4 capacity=98.8 link=100Mbit delay=75us within='rate 0.02'
        # Control messages take 1.2 Mbit/s; shares refer to the rest.
        settings='rate = "98.8Mbit"
algorithm = "dvsr:bits=8"
interval = "600us"
burst = "18kB"'
    else
        # Where fairness fails, the flow upstream gets all that it offers and the other one the rest: 97 and 3 per cent, or 100
        # and none. 15 % is far from both.
        nodes=4 far=3 capacity=1.92 link=2Mbit delay=75us within='share 0.15'
        settings='rate = "1.92Mbit"
algorithm = "dvsr:bits=8"
interval = "50ms"
burst = "18kB"
keepalive = "100ms"
silence = "3s"'
    fi
}
testbed() {
    figures
    host wire
    n=0
    while [ $n -lt $nodes ]; do
        n=$((n + 1))
        member "n$n"
    done
    n=0
    while [ $n -lt $nodes ]; do
        n=$((n + 1))
        next=$((n % nodes + 1))
        pair "n$n" east wire "a$n"
        pair wire "b$n" "n$next" west
        ip -n "fs-$$-n$n" address add "10.70.$n.1/30" dev east
        ip -n "fs-$$-n$next" address add "10.70.$n.2/30" dev west
        cat >>"$work/links.toml" <<END
[[link]]
name = "link$n"
a = "a$n"
b = "b$n"
both = { rate = "$link", delay = "$delay" }
END
        configure n $n $nodes "$settings" "device = \"east\"
endpoint = \"10.70.$n.2:51901\"
rate = \"$link\"" "rate = \"$link\""
    done
    started wire wire "$fairspan" emulate --config "$work/links.toml"
    n=0
    while [ $n -lt $nodes ]; do
        n=$((n + 1))
        start "n$n"
    done
    whole n1 n3
    on n1 ping -q -i 0.05 -c 10 -W 30 10.8.0.3 >"$work/ping.log" || wrong 'node 3 does not answer over IPv4'
    on n1 ping -q -i 0.05 -c 10 -W 30 fd00:8::4 >"$work/ping6.log" || wrong 'node 4 does not answer over IPv6'
    documented n1 ring0

    if [ "$mode" = long ]; then
        flows 'two flows' '2:127' 1:3:58 2:3:58
        flows 'three flows' '3:85' 1:4:58 2:4:58 3:4:97
        flows 'unbalanced' '2:148' 1:3:100 2:3:42
        flows 'Parallel Parking Lot' '4:64' 1:5:40 2:5:40 3:5:40 4:5:40 1:2:80
        command -v iperf3 >/dev/null && tcp 'TCP, four to one' 1:5 2:5 3:5 4:5
    else
        flows 'two flows' '' 1:3:97 2:3:97
        flows 'unbalanced' '' 1:3:100 2:3:42
    fi
    failure 'a cut link' 'plug a2' pull a2
    whole n1
    failure 'a killed node' "start_again n$((far - 1))" kill_node "n$((far - 1))"
    whole n1
}

# The bond beneath the link from p1 to p2 carries 30 and 20 Mbit/s, then 30 alone, then both again; the ring follows.
over_a_bond() {
    [ -e "$work/wire.pid" ] || host wire
    for n in 1 2 3; do member "p$n"; done
    for link in dsl lte; do
        pair p1 $link wire "p-$link"
        pair wire "q-$link" p2 $link
    done
    for n in 1 2; do
        ip -n "fs-$$-p$n" address add "10.71.1.$n/24" dev dsl
        ip -n "fs-$$-p$n" address add "10.71.2.$n/24" dev lte
    done
    cat >"$work/bonded.toml" <<END
[[link]]
a = "p-dsl"
b = "q-dsl"
both = { rate = "30Mbit", delay = "2ms" }
[[link]]
a = "p-lte"
b = "q-lte"
both = { rate = "20Mbit", delay = "5ms" }
END
    started bonded wire "$fairspan" emulate --config "$work/bonded.toml"
    cable p2 east 10.72.2.1/30 p3 west 10.72.2.2/30
    cable p3 east 10.72.3.1/30 p1 west 10.72.3.2/30
    for n in 1 2; do
        cat >"$work/bond$n.toml" <<END
[interface]
name = "fs0"
address = ["10.77.0.$n/24"]
private_key_file = "$work/p$n.key"
listen_port = 51900
[[peer]]
public_key = "$(cat "$work/p$((3 - n)).pub")"
allowed_ips = ["10.77.0.$((3 - n))/32"]
END
    done
    cat >>"$work/bond1.toml" <<END
[[peer.channel]]
kind = "udp"
device = "dsl"
endpoint = "10.71.1.2:51900"
rate = "30Mbit"
peer_rate = "30Mbit"
[[peer.channel]]
kind = "udp"
device = "lte"
endpoint = "10.71.2.2:51900"
rate = "20Mbit"
peer_rate = "20Mbit"
END
    for n in 1 2; do started "bond$n" "p$n" "$fairspan" up "$work/bond$n.toml"; done
    eventually on p1 ping -q -c 1 -W 1 10.77.0.2 || wrong 'the bond does not come up'
    # The bond itself takes a second to notice a channel that is silent; and a message a millisecond is 1.3 Mbit/s.
    settings='rate = "100Mbit"
interval = "10ms"
keepalive = "50ms"
silence = "3s"'
    configure p 1 3 "$settings" 'device = "fs0"
endpoint = "10.77.0.2:51901"
capacity = "bond:fs0"' ''
    configure p 2 3 "$settings" 'device = "east"
endpoint = "10.72.2.2:51901"' 'capacity = "bond:fs0"'
    configure p 3 3 "$settings" 'device = "east"
endpoint = "10.72.3.2:51901"' ''
    for n in 1 2 3; do start "p$n"; done
    whole p1 p2
    echo 'a ring over a bond'
    bonded 49.5
    ip -n "fs-$$-wire" link set p-lte down
    eventually carries 29.7 || wrong "the link's capacity does not follow a channel that fails"
    bonded 29.7
    ip -n "fs-$$-wire" link set p-lte up
    eventually carries 49.5 || wrong "the link's capacity does not follow a channel that comes back"
    # Until both ends have tried it.
    sleep 3
    eventually carries 49.5 || wrong 'the channel does not stay'
    bonded 49.5
}
carries() { status p1 && [ "$(python3 "$program" capacity "$work/p1.json" east)" = "$1" ]; }
# What is offered beyond the capacity waits at the ingress, not in the bond, which loses nothing of it; `long`: what arrives is
# the capacity within 3 %.
bonded() { # capacity in Mbit/s
    judged run_bonded "$1" || wrong "$(cat "$work/arrived") Mbit/s arrive of $1"
}
run_bonded() { # as above
    carries "$1" || wrong "the link to p2 is not said to carry $1 Mbit/s: $(grep -o '"rate_mbit":[0-9.]*' "$work/p1.json")"
    rm -f "$work/over" "$work/heard"
    on p2 env RING_OVERHEAD=156 RING_PAYLOAD=1200 $realtime python3 "$program" receive 1.5 "$seconds" 5210 "$work/heard" \
        >"$work/arrived" &
    receiving=$!
    on p1 env RING_OVERHEAD=156 RING_PAYLOAD=1200 $realtime python3 "$program" send 10.8.0.2 100 120 5210 "$work/over" &
    sending=$!
    wait $receiving || wrong 'a program failed'
    touch "$work/over"
    wait $sending || wrong 'a program failed'
    echo "  $1 Mbit/s: $(cat "$work/arrived") arrive"
    if [ "$mode" = long ]; then
        python3 "$program" near "$(cat "$work/arrived")" "$1" 0.03
    else
        python3 "$program" within "$(cat "$work/arrived")" 0.1 "$(awk "BEGIN { print 1.1 * $1 }")"
    fi
}

gigabit() {
    nodes=4 capacity=1000
    for n in 1 2 3 4; do member "n$n"; done
    for n in 1 2 3 4; do
        next=$((n % 4 + 1))
        cable "n$n" east "10.70.$n.1/30" "n$next" west "10.70.$n.2/30"
        configure n $n 4 'rate = "1Gbit"' "device = \"east\"
endpoint = \"10.70.$n.2:51901\"" ''
    done
    for n in 1 2 3 4; do start "n$n"; done
    whole n1 n3
    command -v iperf3 >/dev/null || skip 'no iperf3'
    seconds=10
    tcp 'TCP, neighbours' 1:2
    tcp 'TCP, over one node' 1:3
    tcp 'TCP, two to one' 1:3 2:3
}

case $mode in
    gigabit) gigabit ;;
    bond) over_a_bond ;;
    quick | long)
        testbed
        over_a_bond
        ;;
    *) wrong "no such mode: $mode" ;;
esac
