#!/bin/sh
# The commands of docs/port.md work as they stand there, with docs/examples/port-*.toml.
#
#   left  eth0 ---- eth1  west  eth2 192.0.2.2    ----    192.0.2.1 eth2  east  eth1 ---- eth0  right
#                               eth3 198.51.100.2 ---- 198.51.100.1 eth3
. tests/netns/lib.sh

host left
host west
host east
host right
cable left eth0 10.9.0.1/24 west eth1 169.254.0.1/32
cable right eth0 10.9.0.2/24 east eth1 169.254.0.2/32
for end in west east; do ip -n "fs-$$-$end" address flush dev eth1; done
cable west eth2 192.0.2.2/24 east eth2 192.0.2.1/24
cable west eth3 198.51.100.2/24 east eth3 198.51.100.1/24

mkdir "$work/bin"
ln -s "$fairspan" "$work/bin/fairspan"
export PATH="$work/bin:$PATH" WEST_KEY= EAST_KEY=

# The page's blocks, one file each in order: NUMBER-WHERE
awk -v out="$work" '
    /^```sh / { n++; where = $2 ($3 ? "-" $3 : ""); file = sprintf("%s/%02d-%s.block", out, n, where); next }
    /^```/ { file = ""; next }
    file != "" { print > file }' docs/port.md
[ -e "$work/07-west.block" ] || wrong 'the page has fewer blocks than it had'
for block in "$work"/*.block; do
    where=${block##*/??-}
    where=${where%.block}
    case $where in
        both)
            WEST_KEY=$(on west sh -e "$block") || wrong 'keys at the west'
            EAST_KEY=$(on east sh -e "$block") || wrong 'keys at the east'
            ;;
        *-background)
            on "${where%-background}" sh -e "$block" >"$work/$where.log" 2>&1 &
            pids="$pids $!"
            ;;
        *) eventually on "$where" sh -e "$block" || wrong "$block: $(cat "$block")" ;;
    esac
done

up() { on west fairspan status eth1 --json | grep -o '"number":[0-9]*,[^}]*"state":"up"' | wc -l; }
both_up() { [ "$(up)" = 2 ]; }
eventually both_up || wrong "not both channels came up: $(on west fairspan status eth1 --json)"
# Frames that fill a link, and that do not fit a channel over one of the same size.
on left ping -q -M do -s 1472 -c 200 -i 0.01 -W 30 10.9.0.2 >"$work/ping.log" || wrong 'full frames were lost'
grep -q ' 0% packet loss' "$work/ping.log" || wrong 'full frames were lost'
# The one link is pulled: the other carries on.
ip -n "fs-$$-west" link set eth2 down
eventually on left ping -q -c 3 -i 0.2 -W 5 10.9.0.2 || wrong 'nothing passes over the link that is left'
documented west eth1
documented east eth1
