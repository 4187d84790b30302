#!/bin/sh
# The commands of docs/ethernet-bond.md work as they stand there, with docs/examples/bond.toml: four links of 10 Mbit/s
# (`fairspan emulate` between server and switch) each carry their part, and a pulled one is done without. With `long`, they
# carry more than three of them could.
#
#   server  eth1..eth4 -- a1..a4  wire  b1..b4 -- s1..s4  switch (bridge)  c0 -- eth0  client
. tests/netns/lib.sh
command -v python3 >/dev/null || skip 'no python3'

host server
host wire
host switch
host client
ip -n "fs-$$-switch" link add br0 type bridge
ip -n "fs-$$-switch" link set br0 up
pair() {
    ip link add "$2" netns "fs-$$-$1" type veth peer name "$4" netns "fs-$$-$3"
    ip -n "fs-$$-$1" link set "$2" up
    ip -n "fs-$$-$3" link set "$4" up
}
for n in 1 2 3 4; do
    pair server "eth$n" wire "a$n"
    pair wire "b$n" switch "s$n"
    ip -n "fs-$$-switch" link set "s$n" master br0
    on wire "$fairspan" emulate --a "a$n" --b "b$n" --rate 10Mbit --delay 1ms >"$work/wire$n.log" 2>&1 &
    pids="$pids $!"
done
pair client eth0 switch c0
ip -n "fs-$$-switch" link set c0 master br0
ip -n "fs-$$-client" address add 10.3.31.1/24 dev eth0

mkdir "$work/bin"
ln -s "$fairspan" "$work/bin/fairspan"
export PATH="$work/bin:$PATH"

# The page's blocks, one file each in order: NUMBER-WHERE
awk -v out="$work" '
    /^```sh / { n++; where = $2 ($3 ? "-" $3 : ""); file = sprintf("%s/%02d-%s.block", out, n, where); next }
    /^```/ { file = ""; next }
    file != "" { print > file }' docs/ethernet-bond.md
[ -e "$work/04-server.block" ] || wrong 'the page has fewer blocks than it had'
for block in "$work"/*.block; do
    where=${block##*/??-}
    where=${where%.block}
    case $where in
        *-background)
            on "${where%-background}" sh -e "$block" >"$work/$where.log" 2>&1 &
            pids="$pids $!"
            ;;
        *) eventually on "$where" sh -e "$block" || wrong "$block: $(cat "$block")" ;;
    esac
done

carried() { on server "$fairspan" status bond0 --json | tr ',{' '\n\n' | sed -n 's/^"sent_bytes"://p'; }
[ "$(carried | wc -l)" = 4 ] || wrong 'status does not tell of four links'

# Sixteen flows for five seconds. One link of 10 Mbit/s carries at most 6.25 MB in that time, headers included.
cat >"$work/sink.py" <<'END'
import socket, threading
total, listener = [0] * 16, socket.create_server(("10.3.31.1", 5000))
def take(n):
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        total[n] += len(data)
threads = [threading.Thread(target=take, args=(n,)) for n in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sum(total))
END
cat >"$work/source.py" <<'END'
import socket, threading, time
end = time.time() + 5
def give():
    connection = socket.create_connection(("10.3.31.1", 5000))
    while time.time() < end:
        connection.sendall(bytes(8192))
    connection.close()
threads = [threading.Thread(target=give) for _ in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
END
flows() {
    on client timeout 120 python3 "$work/sink.py" >"$work/total" &
    sink=$!
    eventually on client sh -c 'ss -Htln sport = :5000 | grep -q .' || wrong 'nobody listens'
    on server timeout 100 python3 "$work/source.py" || wrong 'the flows broke'
    wait "$sink" || wrong 'the flows did not arrive'
    total=$(cat "$work/total")
}
more_than_three() {
    flows
    [ "$total" -gt 18750000 ] || { echo "$total bytes in 5 s; three links alone would carry 18750000" && false; }
}
before=$(carried)
if [ "${1:-}" = long ]; then judged more_than_three || wrong 'four links carry no more than three'; else flows; fi
# Sixteen flows over four links in bursts: a quarter each, and never less than a tenth.
# shellcheck disable=SC2046,SC2086 # numbers
printf '%s %s %s %s\n' $before $(carried) | awk '
    { for (i = 1; i <= 4; i++) if (NR == 1) was[i] = $i; else { now[i] = $i - was[i]; sum += now[i] } }
    END { for (i = 1; i <= 4; i++) if (now[i] < sum / 10) { print "link " i ": " now[i] " of " sum " bytes"; bad = 1 } exit bad }
' >"$work/shares.log" || wrong 'the links do not share the load'

# A pulled link: at both ends, as a cable's, so that the switch forgets what it learnt there.
ip -n "fs-$$-wire" link set a2 down
ip -n "fs-$$-wire" link set b2 down
three_up() { [ "$(on server "$fairspan" status bond0 --json | grep -o '"state":"up"' | wc -l)" = 3 ]; }
eventually three_up || wrong 'the pulled link counts as up'
on client ping -q -i 0.1 -c 20 -W 30 10.3.31.194 >"$work/ping.log" || wrong 'no answer over three links'
grep -q ' 0% packet loss' "$work/ping.log" || wrong 'echoes were lost over three links'
