#!/bin/sh
# Installs what building, testing and the demo need on a Debian machine; does nothing where it is there.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh

missing=
need() { # program, Debian package
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need ip iproute2
need ethtool ethtool
need ping iputils-ping
need pgrep procps
need cc gcc
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -z "$rust_missing" ] || command -v rustup >/dev/null 2>&1 || need curl curl

if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "setup: as root, install:$missing" >&2
        echo "setup:   sudo apt-get install$missing" >&2
        exit 1
    elif ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: this is not Debian; install what provides its packages:$missing" >&2
        exit 1
    fi
    echo "setup: installing$missing" >&2
    # A package list that cannot be refreshed may still do.
    timeout 300 apt-get update -qq >&2 || echo "setup: apt-get update failed; trying with the list that is there" >&2
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive timeout 900 apt-get install -y -qq --no-install-recommends $missing ca-certificates >&2
fi

if [ -n "$rust_missing" ]; then
    echo "setup: $rust_missing is needed; trying rustup" >&2
    if command -v rustup >/dev/null 2>&1; then
        timeout 900 rustup toolchain install stable --profile minimal --component rustfmt --component clippy >&2 || true
        export RUSTUP_TOOLCHAIN=stable
    else
        installer=$(mktemp)
        if curl --max-time 120 --proto '=https' --tlsv1.2 -sSf -o "$installer" https://sh.rustup.rs; then
            timeout 900 sh "$installer" -y --profile minimal --component rustfmt --component clippy >&2 || true
        fi
        rm -f "$installer"
    fi
    . scripts/toolchain.sh
    if [ -n "$rust_missing" ]; then
        echo "setup: rustup could not provide it. Install $rust_missing, from https://rustup.rs or from your" >&2
        echo "setup: distribution, or make it rustup's default (\`rustup default stable\`); then run this again." >&2
        exit 1
    fi
fi
