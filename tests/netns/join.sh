#!/bin/sh
# The commands of docs/join.md work as they stand there: from nothing to a bonded ping, with an invitation that is good once.
#
#   site  eth1 198.51.100.10 ---- 198.51.100.1 eth1  hub, 203.0.113.1 on its loopback
#         wwan0  192.0.2.10  ----  192.0.2.1 eth2
. tests/netns/lib.sh

site_and_hub eth1

mkdir "$work/bin"
ln -s "$fairspan" "$work/bin/fairspan"
export PATH="$work/bin:$PATH" LINE=

# The page's blocks, one file each in order: NUMBER-WHERE
awk -v out="$work" '
    /^```sh / { n++; where = $2 ($3 ? "-" $3 : ""); file = sprintf("%s/%02d-%s.block", out, n, where); next }
    /^```/ { file = ""; next }
    file != "" { print > file }' docs/join.md
commands=$(cat "$work"/*.block | grep -c .)
[ "$commands" = 4 ] || wrong "the page has $commands commands, and says four"

for block in "$work"/*.block; do
    place=${block##*/??-}
    place=${place%.block}
    case $place in
        *-background)
            # A site that asks before the hub's daemon is there gets no answer.
            [ "$place" = hub-background ] || eventually on hub fairspan status fs0 || wrong 'the hub does not run'
            on "${place%-background}" sh -e "$block" >"$work/$place.log" 2>&1 &
            pids="$pids $!"
            ;;
        hub)
            on hub sh -e "$block" >"$work/invite.log" 2>&1 || wrong 'the hub does not invite'
            LINE=$(sed -n 's/^  fairspan join //p' "$work/invite.log")
            [ -n "$LINE" ] || wrong 'no line was printed'
            ;;
        *)
            # What follows a start may have to wait for it.
            eventually on "$place" sh -e "$block" || wrong "this block of the page fails: $(cat "$block")"
            ;;
    esac
done

up() { on site fairspan status fs0 --json | grep -o '"number":[0-9]*,[^}]*"state":"up"' | wc -l; }
both_up() { [ "$(up)" = 2 ]; }
eventually both_up || wrong "not both uplinks carry: $(on site fairspan status fs0 --json)"
documented hub
for name in hub site; do
    on "$name" fairspan check /etc/fairspan/fs0.toml >"$work/check.log" 2>&1 || wrong "what was written at the $name is wrong"
    [ "$(on "$name" find /etc/fairspan -type f ! -perm 600 | wc -l)" = 0 ] || wrong "others may read a file at the $name"
done
# No secret stands in what was printed, but for the line itself.
secret=$(on site cat /etc/fairspan/fs0.psk)
! grep -qF "$secret" "$work"/*.log || wrong 'a key was printed'

# Once, and no more: neither now nor after a restart of the hub.
again() { on site fairspan join --yes --no-start --file /etc/fairspan/fs1.toml --uplink eth1 "$LINE" >"$work/again.log" 2>&1; }
refused() {
    again && wrong 'a used invitation let another site join' || status=$?
    grep -q 'was used already' "$work/again.log" && [ $status = 2 ] || return 1
    ! on site test -e /etc/fairspan/fs1.toml && ! on site test -e /etc/fairspan/fs1.key || wrong 'a refused site left files'
}
# The site's network inside is its own already.
again && wrong 'a host joined a network that it has'
grep -q 'and this host has' "$work/again.log" || wrong "no word of the network that is there: $(cat "$work/again.log")"
end_daemons site
gone() { ! on site ip link show fs0; }
eventually gone || wrong 'the interface stayed after SIGTERM'
refused || wrong "a used invitation is not refused as one: $(cat "$work/again.log")"
end_daemons hub KILL
hub_gone() { ! on hub ip link show fs0; }
eventually hub_gone || wrong 'the interface of a hub that was killed stayed'
on hub fairspan up /etc/fairspan/fs0.toml >"$work/hub-again.log" 2>&1 &
pids="$pids $!"
eventually refused || wrong "a hub that was killed forgot who had joined: $(cat "$work/again.log")"
on site fairspan up /etc/fairspan/fs0.toml >"$work/site-again.log" 2>&1 &
pids="$pids $!"
eventually on site ping -q -c 1 -W 1 10.77.0.1 || wrong 'a site that had joined does not come back'
