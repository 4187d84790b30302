#!/bin/sh
# Builds programs that need nothing of the system but its kernel, and tries each.
#
#   scripts/static.sh [ARCHITECTURE...]     x86_64, aarch64; that of this machine by default
#
# target/static/ARCHITECTURE gets the program, a file from which debuggers take its symbols, and the licences of what is linked in.
# FAIRSPAN_PROFILE names another profile than the release's, whose program goes to target/static-PROFILE.
#
# Each program is run in an empty folder. One of another architecture is run there by qemu-user. One of this machine's architecture
# also makes a bond there (tests/netns/static.sh, for root). Exit status 77 where a compiler or a standard library is
# missing; the last line says which.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
profile=${FAIRSPAN_PROFILE:-release}
case $profile in release) static=target/static ;; *) static=target/static-$profile ;; esac
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
machine=$(uname -m)
skip() { echo "static: skipped: $1"; exit 77; }
wrong() { echo "static: $1" >&2; exit "${2:-1}"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The headers of musl for another architecture than this machine's, as Debian has them: taken from its package, and not installed.
# Only headers are needed, as Rust's standard library brings the C library itself.
headers() { # Debian's architecture, folder
    [ -e "$2/usr/include" ] && return
    command -v apt-get >/dev/null 2>&1 || skip "no headers of musl for $1 (Debian package musl-dev:$1)"
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/apt/got"
    printf 'APT::Architecture "%s";\nAPT::Architectures { "%s"; };\nDir::State::Lists "%s";\nDir::Cache "%s";\nDir::State::status "/dev/null";\nAPT::Sandbox::User "root";\n' \
        "$1" "$1" "$work/apt/lists" "$work/apt/cache" >"$work/apt/conf"
    (cd "$work/apt/got" && export APT_CONFIG="$work/apt/conf" && timeout 300 apt-get update -qq \
        && timeout 300 apt-get download -qq "musl-dev:$1") >"$work/apt/log" 2>&1 \
        || { cat "$work/apt/log"; skip "no headers of musl for $1 can be had (Debian package musl-dev:$1)"; }
    dpkg-deb -x "$work"/apt/got/*.deb "$work/apt/tree"
    mkdir -p "$(dirname "$2")"
    mv "$work/apt/tree" "$2"
}

# Which compilers and tools an architecture takes.
prepare() { # architecture
    case $1 in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; *) wrong "no architecture \`$1\`: x86_64 or aarch64" 2 ;; esac
    triple=$1-unknown-linux-musl
    [ -d "$(rustc --print target-libdir --target "$triple" 2>/dev/null)" ] \
        || skip "no standard library of Rust (rustup target add $triple)"
    OBJCOPY=objcopy
    if [ "$1" = "$machine" ]; then
        command -v musl-gcc >/dev/null 2>&1 || skip 'no musl-gcc (Debian package musl-tools)'
    else
        gcc=$1-linux-gnu-gcc
        command -v "$gcc" >/dev/null 2>&1 || skip "no $gcc (Debian package gcc-$(echo "$1" | tr _ -)-linux-gnu)"
        command -v "qemu-$1-static" >/dev/null 2>&1 || skip "no qemu-$1-static (Debian package qemu-user-static)"
        musl=$(pwd)/target/musl/$1
        headers "$debian" "$musl"
        printf '#!/bin/sh\nexec %s -nostdinc -isystem "%s" -isystem "%s" "$@"\n' \
            "$gcc" "$musl/usr/include/$1-linux-musl" "$("$gcc" -print-file-name=include)" >"$musl/cc"
        chmod +x "$musl/cc"
        OBJCOPY=$1-linux-gnu-objcopy
        name=$(echo "$triple" | tr - _)
        upper=$(echo "$name" | tr '[:lower:]' '[:upper:]')
        export "CC_$name=$musl/cc" "AR_$name=$1-linux-gnu-ar" "CARGO_TARGET_${upper}_LINKER=$gcc"
    fi
    export OBJCOPY
}

try() { # architecture
    program=$static/$1/fairspan
    if readelf --program-headers --wide "$program" | grep -q INTERP || readelf --dynamic --wide "$program" | grep -q NEEDED; then
        wrong "$program needs libraries of the system"
    fi
    # It sees nothing but what lies in this folder.
    root=$work/root-$1
    mkdir "$root"
    cp "$program" "$root/fairspan"
    cp scenarios/smoke/bond.toml docs/examples/udp-hub.toml "$root"
    emulator=
    [ "$1" = "$machine" ] || { emulator=/emulator && cp "$(command -v "qemu-$1-static")" "$root/emulator"; }
    inside() {
        # shellcheck disable=SC2086 # none or one
        if [ "$(id -u)" = 0 ]; then chroot "$root" $emulator /fairspan "$@"; else unshare --map-root-user chroot "$root" $emulator /fairspan "$@"; fi
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
    # Every architecture ends a simulation with the same bytes.
    inside sim bond.toml --json >"$work/simulated-$1.json"
    [ -s "$work/simulated-$1.json" ] || wrong "$program says nothing of a scenario"
    [ -e "$work/simulated.json" ] || cp "$work/simulated-$1.json" "$work/simulated.json"
    cmp "$work/simulated-$1.json" "$work/simulated.json" || wrong "$program ends a simulation otherwise than the others"
    stat -c '%n %s' "$program" | awk '{ printf "%s: %.1f MB, runs in an empty folder\n", $1, $2 / 1e6 }'
    [ "$1" = "$machine" ] || return 0
    status=0
    FAIRSPAN_PROGRAM=$(pwd)/$program tests/netns/static.sh || status=$?
    case $status in 0) ;; 77) echo 'static: no bond was tried, for the reason above' ;; *) exit $status ;; esac
}

if [ -n "${FAIRSPAN_PROGRAM:-}" ]; then
    # A program of the usual kind has to end it so too.
    cp scenarios/smoke/bond.toml "$work"
    (cd "$work" && "$FAIRSPAN_PROGRAM" sim bond.toml --json) >"$work/simulated.json"
fi
[ $# -gt 0 ] || set -- "$machine"
for architecture; do
    prepare "$architecture"
    scripts/dist.sh "$static/$architecture" "$profile" "$triple"
    scripts/licences.sh fairspan "$static/$architecture/LIBRARIES.txt" "$triple"
    try "$architecture"
done
