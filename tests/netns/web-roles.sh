#!/bin/sh
# Each role of a daemon has a page (docs/web.md) under all its restraints, and keeps the history of its links; a disk that is full stops
# no daemon and is told.
#
#   one  a0 -- a1, b0 -- b1, g0 -- g1, h0 -- h1: all four cables lead from the host to itself
. tests/netns/lib.sh
command -v curl >/dev/null || skip 'no curl'

host one
for cable in a b g h; do
    ip link add "${cable}0" netns "fs-$$-one" type veth peer name "${cable}1" netns "fs-$$-one"
    for end in 0 1; do ip -n "fs-$$-one" link set "$cable$end" up; done
done
ip -n "fs-$$-one" address add 10.1.0.1/24 dev g0
ip -n "fs-$$-one" address add 10.2.0.1/24 dev h0
"$fairspan" keygen >"$work/key"
chmod 600 "$work/key"
other() { "$fairspan" keygen | "$fairspan" pubkey; }
# A daemon: its name, its port, its sections.
daemon() {
    mkdir -p "$work/$1"
    cat >"$work/$1.toml" <<END
[interface]
name = "$1"
state_dir = "$work/$1"
web = "127.0.0.1:$2"
$3
END
    on one "$fairspan" up "$work/$1.toml" >"$work/$1.log" 2>&1 &
    pids="$pids $!"
}
daemon shape0 9401 "[shape]
a = \"a0\"
b = \"b0\"
rate = \"10Mbit\""
daemon bond0 9402 "address = [\"10.9.0.1/24\"]
[bond]
policy = \"active-backup\"
[[bond.link]]
device = \"a1\"
[[bond.link]]
device = \"b1\""
daemon ring0 9403 "private_key_file = \"$work/key\"
listen_port = 51901
[ring]
node = 1
nodes = 3
rate = \"100Mbit\"
[ring.east]
kind = \"udp\"
public_key = \"$(other)\"
endpoint = \"127.0.0.2:51901\"
[ring.west]
kind = \"udp\"
public_key = \"$(other)\""
daemon gate0 9404 "[gateway]
long = \"g0\"
inside = [\"h0\"]"

asked() { on one curl -s --max-time 20 "http://127.0.0.1:$1$2"; }
shows() { asked "$1" / | grep -q "$2"; }
eventually shows 9401 forward || wrong 'the shaper shows no direction'
eventually shows 9402 b1 || wrong 'the bond shows no link'
eventually shows 9403 east || wrong "the ring's node shows no link"
eventually shows 9404 g0 || wrong 'the gateway shows no long link'
for port in 9401 9402 9403 9404; do
    seen() { asked $port '/history.json?link=0&span=hour&points=2000' | grep -q '"up":\[.*[01],[01]'; }
    eventually seen || wrong "no history at $port"
done
for name in shape0 bond0 ring0 gate0; do
    # It goes there once a minute.
    eventually test -s "$work/$name/$name.history" || wrong "$name has no file of its history"
    on one "$fairspan" status "$name" --json | grep -q '"seccomp":{"holds":"on","detail":"[0-9]* system calls"}' \
        || grep -q 'no filter is known' "$work/$name.log" || wrong "$name: $(on one "$fairspan" status "$name" --json)"
done

# A disk that is too small for a history.
on one mount -t tmpfs -o size=64k tmpfs /run/fairspan-test
mkdir -p "$work/full0"
ip link add c0 netns "fs-$$-one" type veth peer name c1 netns "fs-$$-one"
ip link add d0 netns "fs-$$-one" type veth peer name d1 netns "fs-$$-one"
for device in c0 c1 d0 d1; do ip -n "fs-$$-one" link set $device up; done
cat >"$work/full0.toml" <<END
[interface]
name = "full0"
state_dir = "/run/fairspan-test"
web = "127.0.0.1:9405"
[shape]
a = "c0"
b = "d0"
rate = "10Mbit"
END
on one "$fairspan" up "$work/full0.toml" >"$work/full0.log" 2>&1 &
pids="$pids $!"
told() { asked 9405 /view.json | grep -q '"problem":"No space left'; }
eventually told || wrong "a full disk is not told: $(asked 9405 /view.json)"
shows 9405 forward || wrong 'the daemon with a full disk shows nothing'
on one mount -o remount,size=64m /run/fairspan-test
untold() { asked 9405 /view.json | grep -q '"problem":null'; }
eventually untold || wrong "a disk with room again is not used: $(asked 9405 /view.json)"
