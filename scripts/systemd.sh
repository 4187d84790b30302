#!/bin/sh
# Tries the Debian package under systemd: a Debian system of this machine's release, whose first process is systemd, gets the package, and
# its units do what docs/install.md says (tests/netns/systemd.sh). For root, on Debian.
#
#   [FAIRSPAN_PROGRAM=target/debug/fairspan] scripts/systemd.sh     packs that program; without it one is built as `make package` does
#
# The system is made once, from Debian's archive, and kept in target/systemd. Exit status 77 where something is missing that this needs; the
# last line says what.
set -eu
cd "$(dirname "$0")/.."
skip() { echo "systemd: skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip 'needs root'
# shellcheck disable=SC1091 # the system's own
release=$(. /etc/os-release 2>/dev/null && [ "$ID" = debian ] && echo "${VERSION_CODENAME:-}") || release=
[ -n "$release" ] || skip 'this system is no Debian, whose package it would try'
for tool in mmdebstrap:mmdebstrap systemd-nspawn:systemd-container dpkg-deb:dpkg; do
    command -v "${tool%:*}" >/dev/null || skip "no ${tool%:*} (Debian package ${tool#*:})"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

system=target/systemd/$release-$(dpkg --print-architecture).tar
if [ ! -f "$system" ]; then
    rm -rf target/systemd && mkdir -p target/systemd
    mmdebstrap --quiet --format=tar --variant=minbase --include=systemd,systemd-sysv,dbus,libssl3,iproute2,iputils-ping,nftables "$release" "$system.new" \
        >"$work/made.log" 2>&1 || { tail -n 5 "$work/made.log"; skip "no Debian system could be made from Debian's archive, for the reason above"; }
    mv "$system.new" "$system"
fi
if [ -n "${FAIRSPAN_PROGRAM:-}" ]; then
    scripts/package.sh "$work" - "$FAIRSPAN_PROGRAM"
else
    scripts/package.sh "$work"
fi
package=$(ls "$work"/fairspan_*.deb)
dpkg-deb -x "$package" "$work/got"
FAIRSPAN_SYSTEM=$(pwd)/$system FAIRSPAN_PACKAGE=$package FAIRSPAN_PROGRAM=$work/got/usr/bin/fairspan tests/netns/systemd.sh
