#!/bin/sh
# Installs what the benchmarks measure beside ours: tunnels for `fairspan bench tunnel`, into
# ~/.local/share/fairspan/rivals/bin (openvpn through apt), and through apt the simulators ns-2 and ns-3 for
# `fairspan bench sim`. What cannot be installed is said and left out; the benchmarks then run without it.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
prefix="$HOME/.local/share/fairspan/rivals"
mkdir -p "$prefix/bin"
# Go is often installed where no path leads.
PATH="$PATH:/usr/local/go/bin"

packages=
command -v openvpn >/dev/null 2>&1 || packages="$packages openvpn"
command -v openssl >/dev/null 2>&1 || packages="$packages openssl"
command -v wireguard-go >/dev/null 2>&1 || command -v go >/dev/null 2>&1 || packages="$packages wireguard-go"
command -v ns >/dev/null 2>&1 || packages="$packages ns2"
[ -e /usr/include/ns3/core-module.h ] || packages="$packages libns3-dev"
command -v g++ >/dev/null 2>&1 || packages="$packages g++"
if [ -n "$packages" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq || true
        for package in $packages; do
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" \
                || echo "rivals: apt-get could not install $package" >&2
        done
    else
        echo "rivals: as root, install:$packages" >&2
    fi
fi
if ! command -v wireguard-go >/dev/null 2>&1 && command -v go >/dev/null 2>&1; then
    # The module's program is called after its last path element, `wireguard`.
    if GOBIN="$prefix/bin" go install golang.zx2c4.com/wireguard@latest; then
        mv "$prefix/bin/wireguard" "$prefix/bin/wireguard-go"
    else
        echo "rivals: wireguard-go could not be built" >&2
    fi
fi
if ! command -v boringtun-cli >/dev/null 2>&1; then
    cargo install --quiet --locked --root "$prefix" boringtun-cli || echo "rivals: boringtun-cli could not be built" >&2
fi
if where=$(command -v ns); then echo "ns-2: $where"; else echo "ns-2: not installed"; fi
if [ -e /usr/include/ns3/core-module.h ]; then echo "ns-3: /usr/include/ns3"; else echo "ns-3: not installed"; fi
for program in wireguard-go boringtun-cli openvpn; do
    if where=$(command -v "$program"); then echo "$program: $where"; else echo "$program: not installed"; fi
done
