#!/bin/sh
# A program that needs no libraries is a whole daemon: in a folder that has nothing but it, /proc, /dev/null and /dev/net/tun, two
# daemons form a bond. They give up all that a daemon gives up, are refused no system call that they make, take a changed file over, and end.
# FAIRSPAN_PROGRAM names the program; scripts/static.sh builds one, and runs this.
#
#   site  eth1 198.51.100.10 ---- 198.51.100.1 eth1  hub
#         wwan0  192.0.2.10  ----  192.0.2.1 eth2
. tests/netns/lib.sh
command -v readelf >/dev/null || skip 'no readelf (Debian package binutils)'
if readelf --program-headers --wide "$fairspan" | grep -q INTERP; then
    skip "$(basename "$fairspan") needs libraries; scripts/static.sh builds one that does not, and tries it so"
fi

host site
host hub
cable site eth1 198.51.100.10/24 hub eth1 198.51.100.1/24
cable site wwan0 192.0.2.10/24 hub eth2 192.0.2.1/24
for end in site hub; do
    root=$work/$end
    mkdir -p "$root/etc/fairspan" "$root/proc" "$root/run" "$root/dev/net"
    cp "$fairspan" "$root/fairspan"
    # Inside that host only, so that they go with it.
    for device in null net/tun; do
        : >"$root/dev/$device"
        on "$end" mount --bind "/dev/$device" "$root/dev/$device"
    done
    on "$end" mount -t proc proc "$root/proc"
done
inside() { # host, arguments of the program
    end=$1
    shift
    on "$end" env -i PATH="$PATH" STATE_DIRECTORY=/state chroot "$work/$end" /fairspan "$@"
}
for end in site hub; do
    (umask 077 && inside "$end" keygen >"$work/$end/etc/fairspan/private.key") || wrong "no key at the $end"
    inside "$end" pubkey <"$work/$end/etc/fairspan/private.key" >"$work/$end.pub" || wrong "no public key at the $end"
done
# A name that the C library has to look up, a channel over TCP, and a page, so that threads and files are used too.
echo '192.0.2.1 hub.example' >"$work/site/etc/hosts"
cat >"$work/site/etc/fairspan/fs0.toml" <<END
[interface]
name = "fs0"
address = ["10.77.0.2/24"]
private_key_file = "/etc/fairspan/private.key"
web = "127.0.0.1:9320"
metrics = "127.0.0.1:9321"

[[peer]]
name = "hub"
public_key = "$(cat "$work/hub.pub")"
allowed_ips = ["10.77.0.1/32"]

[[peer.channel]]
name = "dsl"
kind = "udp"
device = "eth1"
endpoint = "198.51.100.1:51900"

[[peer.channel]]
name = "lte"
kind = "udp"
device = "wwan0"
endpoint = "hub.example:51900"

[[peer.channel]]
name = "tcp"
kind = "tcp"
device = "wwan0"
endpoint = "192.0.2.1:51901"
END
cat >"$work/hub/etc/fairspan/fs0.toml" <<END
[interface]
name = "fs0"
address = ["10.77.0.1/24"]
private_key_file = "/etc/fairspan/private.key"
listen_port = 51900
listen_tcp_port = 51901

[[peer]]
name = "site"
public_key = "$(cat "$work/site.pub")"
allowed_ips = ["10.77.0.2/32"]
END
for end in hub site; do
    inside "$end" check /etc/fairspan/fs0.toml >"$work/$end-check.log" 2>&1 || wrong "$end: its configuration is found wrong"
    inside "$end" up /etc/fairspan/fs0.toml >"$work/$end.log" 2>&1 &
    pids="$pids $!"
done
channels() { # state
    inside site status fs0 --json 2>/dev/null | grep -o "\"number\":[0-9]*,[^}]*\"state\":\"$1\"" | wc -l
}
are_up() { [ "$(channels up)" = "$1" ]; }
eventually are_up 3 || wrong "not all three channels came up: $(inside site status fs0 --json)"
on site ping -q -c 5 -i 0.2 -s 20000 10.77.0.1 >"$work/ping.log" || wrong 'long packets do not pass'
page() { on site curl -s -m 5 "http://127.0.0.1:$1/$2"; }
if command -v curl >/dev/null; then
    shown() { page 9320 '' | grep -q '<title>'; }
    eventually shown || wrong 'no page'
    counted() { page 9321 metrics | grep -q '^fairspan_'; }
    eventually counted || wrong 'no metrics'
fi

# A channel less, while it runs.
file=$work/site/etc/fairspan/fs0.toml
sed '/^name = "tcp"/,$d' "$file" | sed '$d' >"$file.new" && mv "$file.new" "$file"
inside site reload fs0 >"$work/reload.log" 2>&1 || wrong 'the changed file is not taken over'
two_left() { [ "$(inside site status fs0 --json | grep -o '"number":[0-9]*,[^}]*"state":"' | wc -l)" = 2 ]; }
eventually two_left || wrong 'the channel over TCP is still there'
on site ping -q -c 1 -W 5 10.77.0.1 >/dev/null || wrong 'no ping after the change'

# What a daemon of the usual kind gives up, and no call refused that it makes.
for end in site hub; do
    inside "$end" status fs0 --json >"$work/$end.json"
    for what in capabilities seccomp; do
        grep -q "\"$what\":{\"holds\":\"on\"" "$work/$end.json" || wrong "$end: $what: $(grep -o '"confinement":{.*' "$work/$end.json" | cut -c 1-600)"
    done
    if grep -q 'was refused' "$work/$end.log"; then wrong "$end was refused a system call"; fi
done
for end in site hub; do end_daemons "$end"; done
gone() { ! on site ip link show fs0 && ! on hub ip link show fs0; }
eventually gone || wrong 'an interface stayed after SIGTERM'
for end in site hub; do
    if grep -q -e 'was refused' -e panicked "$work/$end.log"; then wrong "$end did not end well"; fi
done
echo "$(wc -c <"$fairspan" | awk '{ printf "%.1f", $1 / 1e6 }') MB of program, two daemons in empty folders: up, changed, ended"
