# Sourced by the scripts here: two (or more) hosts as namespaces, and nothing left behind.
#
# A script draws its topology, exits 0 when its claim holds, 77 when it cannot run here, and anything else when the claim
# is wrong. It is run from the top directory after `cargo build --release`, or with a program named by FAIRSPAN_PROGRAM.
#
# What a script claims does not depend on how fast the machine is or on what else it does: order, loss, bytes, states, and
# shares as ratios within one run. Rates are measured with the argument `long` (`make test-all`), and judged only where the
# machine had time to spare (`judged`).
set -eu

fairspan=${FAIRSPAN_PROGRAM:-target/release/fairspan}
case $fairspan in /*) ;; *) fairspan=$(pwd)/$fairspan ;; esac
work=$(mktemp -d)
export STATE_DIRECTORY="$work/state"
hosts=
pids=
unjudged=

skip() { echo "$1"; exit 77; }
wrong() { echo "WRONG: $1"; for log in "$work"/*.log; do [ -e "$log" ] && echo "--- $log" && tail -n 30 "$log"; done; exit 1; }

[ "$(id -u)" = 0 ] || skip 'needs root'
[ -x "$fairspan" ] || skip "no $fairspan: run \`cargo build --release\` first"
[ -c /dev/net/tun ] || skip 'no /dev/net/tun here'
# Being root does not say what one may do, as in a container.
refused=$({ ip netns add "fs-$$-probe" && ip netns exec "fs-$$-probe" unshare --mount --propagation private \
    mount -t tmpfs tmpfs /etc && ip -n "fs-$$-probe" tuntap add dev probe mode tun; } 2>&1) \
    || { ip netns del "fs-$$-probe" 2>/dev/null || true; skip "needs root with all its rights: $refused"; }
ip netns del "fs-$$-probe"

# A host: a namespace, and a mount namespace with an /etc and a /run of its own. `on HOST COMMAND` runs something there.
host() {
    ns="fs-$$-$1"
    ip netns add "$ns"
    hosts="$hosts $ns"
    ip -n "$ns" link set lo up
    ip netns exec "$ns" unshare --mount --propagation private sh -c \
        'mount -t tmpfs tmpfs /etc && mount -t tmpfs tmpfs /run && exec sleep "$0"' "${FAIRSPAN_HOST_SECONDS:-600}" &
    pids="$pids $!"
    eval "pid_$1=$!"
    tries=0
    while ! on "$1" test -d /run/fairspan-test 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || wrong "host $1 did not start"
        grep -q ' /etc tmpfs ' "/proc/$!/mounts" 2>/dev/null && grep -q ' /run tmpfs ' "/proc/$!/mounts" \
            && on "$1" mkdir -p /run/fairspan-test
        sleep 0.05
    done
}
on() {
    where=$1
    shift
    eval "target=\$pid_$where"
    # shellcheck disable=SC2154 # set by the eval
    # shellcheck disable=SC2016 # expanded inside
    nsenter --target "$target" --mount --net -- sh -c 'cd "$0" && exec "$@"' "$(pwd)" "$@"
}
# A cable: cable HOST DEVICE ADDRESS HOST DEVICE ADDRESS
cable() {
    ip link add "$2" netns "fs-$$-$1" type veth peer name "$5" netns "fs-$$-$4"
    ip -n "fs-$$-$1" address add "$3" dev "$2"
    ip -n "fs-$$-$4" address add "$6" dev "$5"
    ip -n "fs-$$-$1" link set "$2" up
    ip -n "fs-$$-$4" link set "$5" up
}
# A site with two uplinks, the first of which has this name and is preferred, and a hub that has a third address behind both.
site_and_hub() { # DEVICE
    host site
    host hub
    cable site "$1" 198.51.100.10/24 hub eth1 198.51.100.1/24
    cable site wwan0 192.0.2.10/24 hub eth2 192.0.2.1/24
    ip -n "fs-$$-hub" address add 203.0.113.1/32 dev lo
    ip -n "fs-$$-site" route add default via 198.51.100.1 dev "$1" metric 100
    ip -n "fs-$$-site" route add default via 192.0.2.1 dev wwan0 metric 200
}
# Ends the daemons of a host by a signal, SIGTERM by default, and no others of that name.
end_daemons() { # HOST [SIGNAL]
    for daemon in $(on "$1" pgrep -x fairspan); do
        case $(readlink "/proc/$daemon/ns/net") in "$(on "$1" readlink /proc/self/ns/net)") kill -s "${2:-TERM}" "$daemon" ;; esac
    done
}
# Waits up to three minutes until a command succeeds.
eventually() {
    give_up=$(($(date +%s) + 180))
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt $give_up ] || return 1
        sleep 0.2
    done
}
# Runs a measurement up to three times, until it gives what it must. One that was made while the processors had less than a
# fifth of their time to spare (or none at all, being lent to others) says nothing about the program, unless it ends with 2, as
# what is so wrong does that no busy machine explains it: if all were, the script goes on, and counts as skipped in the end.
judged() { # command ...
    attempt=0 fair=
    while [ $attempt -lt 3 ]; do
        attempt=$((attempt + 1))
        [ $attempt -eq 1 ] || echo "once more ($attempt of 3)"
        head -n 1 /proc/stat >"$work/stat"
        "$@" && return 0 || result=$?
        head -n 1 /proc/stat >>"$work/stat"
        in_use=$(awk '{ all = 0; for (i = 2; i <= 9; i++) all += $i; rest = $5 + $6 }
            NR == 1 { all1 = all; rest1 = rest }
            END { printf "%d", 100 - 100 * (rest - rest1) / (all - all1) }' "$work/stat")
        [ "$in_use" -ge 80 ] && [ $result -ne 2 ] || fair=yes
    done
    [ -z "$fair" ] || return 1
    unjudged="the machine is busy: $in_use % of its processors are in use, so that not all rates are judged"
}
# Every key and counter that the daemon on HOST (of INTERFACE, or fs0) tells of stands in docs/status.md.
documented() {
    on "$1" "$fairspan" status "${2:-fs0}" --json >"$work/status.json" || wrong "no status on $1"
    keys=$(grep -o '"[a-z0-9_]*":' "$work/status.json" | tr -d '":' | sort -u)
    [ "$(echo "$keys" | wc -l)" -gt 50 ] || wrong "few keys: $keys"
    for key in $keys; do
        grep -q "\`$key\(\[\]\)\?\`" docs/status.md || wrong "docs/status.md does not say what $key is"
    done
}
clean_up() {
    status=$?
    trap - EXIT INT TERM
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    for pid in $pids; do wait "$pid" 2>/dev/null || true; done
    for ns in $hosts; do
        for pid in $(ip netns pids "$ns" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null || true; done
        ip netns del "$ns" 2>/dev/null || true
    done
    rm -rf "$work"
    [ $status -ne 0 ] || [ -z "$unjudged" ] || skip "$unjudged"
    exit $status
}
trap clean_up EXIT
trap 'exit 130' INT TERM
