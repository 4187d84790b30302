#!/bin/sh
# Makes packages for routers with OpenWrt of the static program (scripts/static.sh, which is run where there is none), the service, and
# what makes a configuration of UCI's settings.
#
#   [FAIRSPAN_ARCHITECTURE=aarch64] scripts/openwrt.sh [ROUTER...]
#
# ROUTER is what the router calls its architecture (`opkg print-architecture`): x86_64 by default, aarch64_generic and aarch64_cortex-a53 for
# aarch64, and names of Cortex-A7, A9 and A15 for armv7. target/openwrt/fairspan_VERSION_ROUTER.ipk is what `opkg install` reads. It is installed and started in an empty folder with BusyBox
# alone (tests/netns/openwrt-package.sh, for root). One for another architecture is unpacked, and an emulator runs its program.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
. scripts/architecture.sh
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
case ${FAIRSPAN_PROFILE:-shipped} in shipped) static=target/static ;; *) static=target/static-$FAIRSPAN_PROFILE ;; esac
if [ $# = 0 ]; then
    case $machine in
        aarch64) set -- aarch64_generic aarch64_cortex-a53 ;;
        armv7) set -- arm_cortex-a7_neon-vfpv4 arm_cortex-a9_vfpv3-d16 arm_cortex-a15_neon-vfpv4 ;;
        *) set -- "$machine" ;;
    esac
fi
umask 022
[ -x "$static/$machine/fairspan" ] || scripts/static.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
put() { # mode, file, place
    install -D -m "$1" "$2" "$root/$3"
}
put 755 "$static/$machine/fairspan" usr/bin/fairspan
put 755 packaging/openwrt/fairspan-uci usr/libexec/fairspan-uci
put 755 packaging/openwrt/fairspan.init etc/init.d/fairspan
# It has keys when it is filled in.
put 600 packaging/openwrt/fairspan.config etc/config/fairspan
put 644 "$static/$machine/LIBRARIES.txt" usr/share/fairspan/LIBRARIES.txt
# What an upgrade of the system keeps, beside the settings.
mkdir -p "$root/lib/upgrade/keep.d"
echo /etc/fairspan/ >"$root/lib/upgrade/keep.d/fairspan"

packed() { # folder, archive
    tar -C "$1" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - . | gzip -9n >"$2"
}
packed "$root" "$work/data.tar.gz"
mkdir -p target/openwrt
for router; do
    control=$work/control
    rm -rf "$control"
    mkdir "$control"
    for script in postinst prerm; do install -m 755 "packaging/openwrt/$script" "$control/$script"; done
    echo /etc/config/fairspan >"$control/conffiles"
    cat >"$control/control" <<END
Package: fairspan
Version: $version
Architecture: $router
Maintainer: The contributors of Fairspan <contributors@fairspan.invalid>
License: MIT OR Apache-2.0
Section: net
Priority: optional
Depends: kmod-tun
Installed-Size: $(du -sb "$root" | cut -f1)
Description: several links act as one, shared fairly
 Fairspan bonds unlike links (DSL, LTE, satellite, Ethernet) into one encrypted interface. Settings are in /etc/config/fairspan.
END
    outer=$work/outer
    rm -rf "$outer"
    mkdir "$outer"
    packed "$control" "$outer/control.tar.gz"
    cp "$work/data.tar.gz" "$outer/data.tar.gz"
    echo 2.0 >"$outer/debian-binary"
    package=target/openwrt/fairspan_${version}_$router.ipk
    # In the order in which opkg's own tools have them.
    tar -C "$outer" --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - \
        ./debian-binary ./data.tar.gz ./control.tar.gz | gzip -9n >"$package"
    stat -c '%n %s' "$package" | awk '{ printf "%s: %.1f MB\n", $1, $2 / 1e6 }'
done
if [ -n "$emulator" ]; then
    got=$work/got
    mkdir "$got"
    tar -C "$work" -xzf "$package" ./data.tar.gz
    tar -C "$got" -xzf "$work/data.tar.gz"
    found=$(in_folder "$got" /usr/bin/fairspan --version)
    [ "$found" = "fairspan $version" ] || { echo "openwrt: the program of $package says \`$found\`" >&2; exit 1; }
    echo "openwrt: not installed: $(basename "$emulator") ran its program"
    exit
fi
status=0
FAIRSPAN_PACKAGE=$(pwd)/$package FAIRSPAN_PROGRAM=$(pwd)/$static/$machine/fairspan tests/netns/openwrt-package.sh || status=$?
case $status in 0) ;; 77) echo 'openwrt: not installed, for the reason above' ;; *) exit $status ;; esac
