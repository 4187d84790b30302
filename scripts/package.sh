#!/bin/sh
# Makes the Debian package: program, manual pages, completions, units, documents.
#
#   [FAIRSPAN_ARCHITECTURE=aarch64] scripts/package.sh [FOLDER [PROFILE]]     target/package by default, of what is shipped
#   scripts/package.sh FOLDER - PROGRAM                                      of a program that was built before, as tests do
#
# That of another architecture has the static program (scripts/static.sh, which is run where there is none), so it needs no libraries. What runs
# here of such a program is run by an emulator.
#
# The same bytes come out for the same commit and compiler. It is looked at before it is shown: unpacked, its program is run, its pages are
# read, and its units are verified where systemd-analyze is installed. Then its size is told.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
. scripts/architecture.sh
out=${1:-target/package}
profile=${2:-shipped}
for tool in dpkg-deb dpkg-shlibdeps "${OBJCOPY:-objcopy}" gzip; do
    command -v $tool >/dev/null 2>&1 || { echo "package: $tool is missing (Debian packages dpkg, dpkg-dev, binutils, gzip)" >&2; exit 1; }
done
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$emulator" ]; then
    case $profile in shipped) static=target/static/$machine ;; *) static=target/static-$profile/$machine ;; esac
    if [ ! -x "$static/fairspan" ]; then FAIRSPAN_PROFILE=$profile scripts/static.sh; fi
    mkdir "$work/dist"
    cp "$static/fairspan" "$work/dist/fairspan"
elif [ "$profile" = - ]; then
    mkdir "$work/dist"
    objcopy --strip-all "${3:?which program?}" "$work/dist/fairspan"
else
    scripts/dist.sh "$work/dist" "$profile"
fi
root=$work/root
put() { # mode, file, folder
    install -D -m "$1" "$2" "$root/$3/$(basename "$2")"
}
put 755 "$work/dist/fairspan" usr/bin
for unit in packaging/systemd/*.service; do put 644 "$unit" usr/lib/systemd/system; done
put 644 packaging/network/80-fairspan.network usr/lib/systemd/network
put 644 packaging/network/80-fairspan.conf usr/lib/NetworkManager/conf.d
for document in README.md docs/*.md; do
    [ "$document" = docs/SUMMARY.md ] || put 644 "$document" usr/share/doc/fairspan
done
for example in docs/examples/*.toml; do put 644 "$example" usr/share/doc/fairspan/examples; done
install -d -m 700 "$root/etc/fairspan"

program=$root/usr/bin/fairspan
runs() { ${emulator:+"$emulator"} "$@"; }
runs "$program" man --out "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
install -d "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
runs "$program" completions bash >"$root/usr/share/bash-completion/completions/fairspan"
runs "$program" completions zsh >"$root/usr/share/zsh/vendor-completions/_fairspan"
runs "$program" completions fish >"$root/usr/share/fish/vendor_completions.d/fairspan.fish"

put 644 CHANGELOG.md usr/share/doc/fairspan
# The licences of what is linked in ask to be passed on with their texts; of what the package has itself, Debian has one.
if [ -n "$emulator" ]; then cp "$static/LIBRARIES.txt" "$work/libraries"; else scripts/licences.sh fairspan "$work/libraries"; fi
{
    printf 'Fairspan is by its contributors, and licensed under MIT or Apache-2.0, at your choice.\n\n'
    cat LICENSE-MIT
    printf '\nThe text of Apache-2.0 is in /usr/share/common-licenses/Apache-2.0 on Debian systems.\n\n'
    cat "$work/libraries"
} >"$work/copyright"
put 644 "$work/copyright" usr/share/doc/fairspan

# Which libraries of the system the program was linked with, and which versions of them it needs.
needs=
if [ -z "$emulator" ]; then
    mkdir -p "$work/shlibs/debian"
    printf 'Source: fairspan\n\nPackage: fairspan\nArchitecture: any\n' >"$work/shlibs/debian/control"
    # It warns that the program is not in a folder of the packaging tools.
    depends=$(cd "$work/shlibs" && dpkg-shlibdeps -O "$program" 2>"$work/shlibs.log" | sed -n 's/^shlibs:Depends=//p')
    [ -n "$depends" ] || { cat "$work/shlibs.log" >&2; exit 1; }
    needs="Depends: $depends"
fi
install -d "$root/DEBIAN"
for script in postinst prerm postrm; do install -m 755 "packaging/debian/$script" "$root/DEBIAN/$script"; done
cat >"$root/DEBIAN/control" <<EOF
Package: fairspan
Version: $version
Architecture: $debian
Maintainer: The contributors of Fairspan <contributors@fairspan.invalid>
Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)
$needs
Recommends: iproute2
Section: net
Priority: optional
Description: several links act as one, shared fairly
 Fairspan bonds unlike links (DSL, LTE, 5G, satellite, Ethernet) into one
 encrypted interface, splits TCP connections before long links, runs fair
 packet rings, and shares a link among flows and hosts. A simulator and an
 analyser of captures with the same core show beforehand what it will do.
EOF
sed -i '/^$/d' "$root/DEBIAN/control"
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -print | LC_ALL=C sort | sed 's|^\./||' | xargs md5sum >DEBIAN/md5sums)
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$out"
package=$out/fairspan_${version}_$debian.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null

# What a user gets.
dpkg-deb -x "$package" "$work/got"
found=$(runs "$work/got/usr/bin/fairspan" --version)
[ "$found" = "fairspan $version" ] || { echo "package: its program says \`$found\`" >&2; exit 1; }
for page in fairspan fairspan-up fairspan-trace-flows; do
    gzip -dc "$work/got/usr/share/man/man1/$page.1.gz" | grep -q '^\.TH' || { echo "package: no page $page" >&2; exit 1; }
done
named=$(grep -c '(texts [0-9, ]*)$' "$work/got/usr/share/doc/fairspan/copyright" || true)
[ "$named" -gt 0 ] && [ "$named" = "$(grep -c '(texts ' "$work/libraries")" ] || { echo "package: its copyright names $named libraries" >&2; exit 1; }
bash -n "$work/got/usr/share/bash-completion/completions/fairspan"
if command -v systemd-analyze >/dev/null 2>&1; then
    for unit in fairspan@fs0 fairspan-lock@fs0; do
        cp "$work/got/usr/lib/systemd/system/${unit%@*}@.service" "$work/${unit%@*}@.service"
        sed -i "s|/usr/bin/fairspan|$work/got/usr/bin/fairspan|" "$work/${unit%@*}@.service"
        systemd-analyze verify --man=no "$work/$unit.service"
    done
else
    echo 'package: units not verified, systemd-analyze is missing'
fi
ls -l "$package" "$work/got/usr/bin/fairspan" | awk -v folder="$work/got" '{ sub(folder, "", $NF); printf "%s: %.1f MB\n", $NF, $5 / 1e6 }'
