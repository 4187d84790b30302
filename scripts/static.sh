#!/bin/sh
# Builds a program for this machine's architecture that needs nothing of the system but its kernel, and tries it.
#
#   scripts/static.sh
#
# target/static/ARCHITECTURE gets the program, a file from which debuggers take its symbols, and the licences of what is linked in.
# FAIRSPAN_PROFILE names another profile than the release's, whose program goes to target/static-PROFILE.
#
# It is run in an empty folder, and makes a bond there (tests/netns/static.sh, for root). FAIRSPAN_PROGRAM, where it is given, names a program
# of the usual kind: a simulation has to end with the same bytes in both. Exit status 77 where the compiler or the standard library is
# missing; the last line says which.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
profile=${FAIRSPAN_PROFILE:-release}
case $profile in release) static=target/static ;; *) static=target/static-$profile ;; esac
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
machine=$(uname -m)
triple=$machine-unknown-linux-musl
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
    inside() {
        if [ "$(id -u)" = 0 ]; then chroot "$root" /fairspan "$@"; else unshare --map-root-user chroot "$root" /fairspan "$@"; fi
    }
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
    status=0
    FAIRSPAN_PROGRAM=$(pwd)/$program tests/netns/static.sh || status=$?
    case $status in 0) ;; 77) echo 'static: no bond was tried, for the reason above' ;; *) exit $status ;; esac
}

command -v musl-gcc >/dev/null 2>&1 || skip 'no musl-gcc (Debian package musl-tools)'
[ -d "$(rustc --print target-libdir --target "$triple" 2>/dev/null)" ] \
    || skip "no standard library of Rust (rustup target add $triple)"
scripts/dist.sh "$static/$machine" "$profile" "$triple"
scripts/licences.sh fairspan "$static/$machine/LIBRARIES.txt" "$triple"
try
