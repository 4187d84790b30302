#!/bin/sh
# Builds a program that needs nothing of the system but its kernel, and tries it.
#
#   [FAIRSPAN_ARCHITECTURE=aarch64] scripts/static.sh     x86_64, aarch64 or armv7; this machine's by default
#
# target/static/ARCHITECTURE gets the program, a file from which debuggers take its symbols, and the licences of what is linked in.
# FAIRSPAN_PROFILE names another profile than that of what is shipped, whose program goes to target/static-PROFILE.
#
# It is run in an empty folder, and makes a bond there (tests/netns/static.sh, for root). A program for another architecture is run by an
# emulator, and makes no bond. FAIRSPAN_PROGRAM, where it is given, names a program of the usual kind: a simulation has to end with the same
# bytes in both. Exit status 77 where something is missing that this needs (scripts/architecture.sh); the last line says what.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
. scripts/architecture.sh
profile=${FAIRSPAN_PROFILE:-shipped}
case $profile in shipped) static=target/static ;; *) static=target/static-$profile ;; esac
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
skip() { echo "static: skipped: $1"; exit 77; }
wrong() { echo "static: $1" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

try() {
    program=$static/$machine/fairspan
    if readelf --program-headers --wide "$program" | grep -q INTERP || readelf --dynamic --wide "$program" | grep -q NEEDED; then
        wrong "$program needs libraries of the system"
    fi
    # It sees nothing but what lies in this folder.
    root=$work/root
    mkdir "$root"
    cp "$program" "$root/fairspan"
    cp scenarios/smoke/bond.toml docs/examples/udp-hub.toml "$root"
    inside() { in_folder "$root" /fairspan "$@"; }
    found=$(inside --version)
    [ "$found" = "fairspan $version" ] || wrong "$program says \`$found\`"
    # The keys of RFC 7748, 6.1.
    found=$(echo dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo= | inside pubkey)
    [ "$found" = hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo= ] || wrong "$program makes \`$found\` of a known key"
    # The key of the example is at /etc/fairspan, where there is none here.
    if inside check udp-hub.toml >"$work/check.log" 2>&1; then wrong "$program finds nothing wrong with a key that is missing"; fi
    grep -q private_key_file "$work/check.log" || wrong "$program says of a missing key: $(cat "$work/check.log")"
    inside keygen >"$root/private.key"
    chmod 600 "$root/private.key"
    sed -i 's|/etc/fairspan/||' "$root/udp-hub.toml"
    inside check udp-hub.toml >"$work/check.log" 2>&1 || wrong "$program finds an example wrong: $(cat "$work/check.log")"
    inside sim bond.toml --json >"$work/static.json"
    [ -s "$work/static.json" ] || wrong "$program says nothing of a scenario"
    if [ -n "${FAIRSPAN_PROGRAM:-}" ]; then
        cp scenarios/smoke/bond.toml "$work"
        (cd "$work" && "$FAIRSPAN_PROGRAM" sim bond.toml --json) >"$work/usual.json"
        cmp "$work/static.json" "$work/usual.json" || wrong "$program ends a simulation otherwise than $FAIRSPAN_PROGRAM"
    fi
    stat -c '%n %s' "$program" | awk '{ printf "%s: %.1f MB, runs in an empty folder\n", $1, $2 / 1e6 }'
    if [ -n "$emulator" ]; then
        echo "static: no bond was tried: $(basename "$emulator") ran the program"
        return
    fi
    status=0
    FAIRSPAN_PROGRAM=$(pwd)/$program tests/netns/static.sh || status=$?
    case $status in 0) ;; 77) echo 'static: no bond was tried, for the reason above' ;; *) exit $status ;; esac
}

[ -z "$missing" ] || skip "$missing"
scripts/dist.sh "$static/$machine" "$profile" "$triple"
scripts/licences.sh fairspan "$static/$machine/LIBRARIES.txt" "$triple"
try
