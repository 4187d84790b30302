#!/bin/sh
# Burst round robin's experiments with real programs get what the simulator says: an Ethernet bond, a web server, parallel
# fetches; load per link from the bond's counters, order from a capture at the client.
#
#   server (bond0)  eth1..eth4 -- a1..a4  wire  b1..b4 -- s1..s4  switch (bridge)  c0 -- b5  wire  a5 -- eth0  client
#
# `wire` emulates: four links of 10 Mbit/s, one of 100 Mbit/s. The points, and the simulated side, are those of
# scenarios/cross-check/burst-round-robin.toml. It is a measurement: `long` makes two of its points, once. Otherwise:
#
#   tests/netns/burst-round-robin.sh RUNS [POINT ...]
#
# measures these points, or all, RUNS times, and prints them beside the simulator's; FAIRSPAN_RESULTS names a file to which
# each run's line of JSON is added.
FAIRSPAN_HOST_SECONDS=7200
. tests/netns/lib.sh
command -v python3 >/dev/null || skip 'no python3'
python3 -c 'import tomllib' 2>/dev/null || skip 'needs Python 3.11'
program=$(pwd)/tests/netns/burst_round_robin.py
scenario=$(pwd)/scenarios/cross-check/burst-round-robin.toml

# What compares is checked by each run of the tests, what it compares is measured by the long ones.
python3 "$program" check
[ $# -gt 0 ] || skip 'a measurement, for `make test-all`'
python3 "$program" points "$scenario" >"$work/points"
if [ "$1" != long ]; then
    runs=$1
    shift
    chosen=$*
    strict=
else
    runs=1
    chosen='3 4'
    strict=strict
fi
results=${FAIRSPAN_RESULTS:-$work/results}

host server
host wire
host switch
host client
for name in server wire switch client; do
    on "$name" sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6' 2>/dev/null || true
done
ip -n "fs-$$-switch" link add br0 type bridge mcast_snooping 0
ip -n "fs-$$-switch" link set br0 up
pair() {
    ip link add "$2" netns "fs-$$-$1" type veth peer name "$4" netns "fs-$$-$3"
    ip -n "fs-$$-$1" link set "$2" up
    ip -n "fs-$$-$3" link set "$4" up
    for end in "$1 $2" "$3 $4"; do
        # shellcheck disable=SC2086 # a host and its device
        set -- $end
        for offload in tso gso gro tx; do on "$1" ethtool -K "$2" $offload off >/dev/null 2>&1 || true; done
    done
}
for n in 1 2 3 4; do
    pair server "eth$n" wire "a$n"
    pair wire "b$n" switch "s$n"
    ip -n "fs-$$-switch" link set "s$n" master br0
done
pair switch c0 wire a5
pair wire b5 client eth0
ip -n "fs-$$-switch" link set c0 master br0
ip -n "fs-$$-client" address add 10.3.31.1/24 dev eth0
# What one connection learned of the path would be the next one's start.
on server sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save'

started() { # log, host, command ...
    log=$1 where=$2
    shift 2
    rm -f "$work/pid"
    # shellcheck disable=SC2016 # expanded inside
    on "$where" sh -c 'echo $$ >"$0.part" && mv "$0.part" "$0" && exec "$@"' "$work/pid" "$@" >"$work/$log.log" 2>&1 &
    eventually test -e "$work/pid" || wrong "$log did not start"
    last=$(cat "$work/pid")
}
ended() { # pid ...: and what they did to the devices is undone
    kill "$@"
    for pid in "$@"; do
        eventually sh -c "! kill -0 $pid" || wrong "$pid does not end"
    done
}

measured() { # number, policy, congestion, parallel, fetches, size
    python3 "$program" links "$scenario" "$1" >"$work/links.toml"
    started emulate wire "$fairspan" emulate --config "$work/links.toml"
    emulator=$last
    {
        printf '[interface]\nname = "bond0"\naddress = ["10.3.31.194/24"]\n[bond]\npolicy = "%s"\n' "$2"
        for n in 1 2 3 4; do printf '[[bond.link]]\ndevice = "eth%s"\nrate = "10Mbit"\n' $n; done
    } >"$work/bond.toml"
    started bond server "$fairspan" up "$work/bond.toml"
    bond=$last
    eventually on client ping -q -c 1 -W 1 10.3.31.194 || wrong 'no packet got through the bond'
    started serve server python3 "$program" serve 10.3.31.194 8080 "$3"
    server=$last
    eventually on client python3 -c 'import socket; socket.create_connection(("10.3.31.194", 8080), 1)' \
        || wrong 'no answer from the web server'
    on client timeout 200 python3 "$program" measure "$1" eth0 10.3.31.194 8080 "$4" "$5" "$6" \
        nsenter --target "$pid_server" --mount --net -- \
        sh -c "'$fairspan' status bond0 --json; cat /proc/net/snmp" >"$work/one" 2>"$work/measure.log" || wrong "point $*"
    cat "$work/one" >>"$results"
    echo "$* $(cat "$work/one")"
    ended "$server" "$bond" "$emulator"
}
"$fairspan" sim "$scenario" --json >"$work/sim.json" 2>"$work/sim.log" || wrong 'the simulation'
all() {
    : >"$work/results"
    for run in $(seq "$runs"); do
        while read -r number rest; do
            case " ${chosen:-$number} " in *" $number "*) ;; *) continue ;; esac
            # shellcheck disable=SC2086 # the point's values
            measured "$number" $rest </dev/null
        done <"$work/points"
    done
    # shellcheck disable=SC2086 # nothing, or one word
    python3 "$program" compare "$scenario" "$work/sim.json" "$results" $strict
}
judged all || wrong 'real and simulated differ'
