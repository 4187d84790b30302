#!/bin/sh
# The commands of docs/two-hosts.md work as they stand there, with docs/examples/udp-*.toml.
#
#   site  eth1 198.51.100.10 ---- 198.51.100.1 eth1  hub, 203.0.113.1 on its loopback
#         wwan0  192.0.2.10  ----  192.0.2.1 eth2
. tests/netns/lib.sh

site_and_hub eth1

mkdir "$work/bin"
ln -s "$fairspan" "$work/bin/fairspan"
export PATH="$work/bin:$PATH" SITE_KEY= HUB_KEY=

# The page's blocks, one file each in order: NUMBER-WHERE
awk -v out="$work" '
    /^```sh / { n++; where = $2 ($3 ? "-" $3 : ""); file = sprintf("%s/%02d-%s.block", out, n, where); next }
    /^```/ { file = ""; next }
    file != "" { print > file }' docs/two-hosts.md
[ -e "$work/08-site.block" ] || wrong 'the page has fewer blocks than it had'
on site fairspan unlock --interface none >"$work/unlock.log" 2>&1 || {
    echo "skipped: the page's lock ($(cat "$work/unlock.log"))"
    grep -l -e 'fairspan lock' -e 'fairspan unlock' "$work"/*.block | xargs rm
}

for block in "$work"/*.block; do
    where=${block##*/??-}
    where=${where%.block}
    case $where in
        both)
            SITE_KEY=$(on site sh -e "$block") || wrong 'keys at the site'
            HUB_KEY=$(on hub sh -e "$block") || wrong 'keys at the hub'
            ;;
        *-background)
            on "${where%-background}" sh -e "$block" >"$work/$where.log" 2>&1 &
            pids="$pids $!"
            ;;
        *)
            # What follows a start may have to wait for it.
            eventually on "$where" sh -e "$block" || {
                on "$where" sh -ex "$block" || wrong "this block of the page fails: $(cat "$block")"
            }
            ;;
    esac
done

up() { on site fairspan status fs0 --json | grep -o '"number":[0-9]*,[^}]*"state":"up"' | wc -l; }
both_up() { [ "$(up)" = 2 ]; }
eventually both_up || wrong "not both channels came up: $(on site fairspan status fs0 --json)"
on site ping -q -c 3 -i 0.2 fd77::1 >/dev/null || wrong 'no IPv6 through the bond'
documented site
documented hub
# The hub answers from the address that it is called at, though it has others that are nearer.
! grep 'channel moved' "$work/site-background.log" || wrong 'the hub answered from another address than it was called at'

# One link fails: the other carries on; SIGTERM leaves nothing.
ip -n "fs-$$-site" link set eth1 down
eventually on site ping -q -c 1 -W 1 10.77.0.1 || wrong 'the bond did not survive the loss of a link'
for name in site hub; do end_daemons "$name"; done
gone() { ! on site ip link show fs0 && ! on hub ip link show fs0; }
eventually gone || wrong 'the interface stayed after SIGTERM'
[ -z "$(on site ip rule | grep -v -e 'lookup local' -e 'lookup main' -e 'lookup default' || true)" ] || wrong 'a rule stayed'
