#!/bin/sh
# Writes what the program is made of: a CycloneDX list of all crates in it, with version, licence, source and checksum.
#
#   scripts/sbom.sh FILE
#
# Fails if a crate that cargo compiles into the program, or needs to build it, is not in the list. Builds cargo-cyclonedx where it is missing, once.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
version=0.5.9
tools=$HOME/.local/share/fairspan
PATH="$PATH:$tools/bin"
if ! cargo cyclonedx --version 2>/dev/null | grep -q " $version\$"; then
    echo 'cargo-cyclonedx is missing; building it, once'
    (cd / && CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64 \
        CARGO_PROFILE_RELEASE_DEBUG=0 timeout 1200 cargo install --quiet --locked --root "$tools" --version "$version" cargo-cyclonedx)
fi
mkdir -p "$(dirname "$1")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# It writes beside each Cargo.toml, so into a copy. What it says of the time and of itself would differ from run to run.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
git archive HEAD | tar -x -C "$work"
host=$(rustc -vV | sed -n 's/^host: //p')
cargo cyclonedx -q --manifest-path "$work/crates/cli/Cargo.toml" --describe binaries --target "$host" --format json --spec-version 1.5
# No path of this machine.
sed "s|$work|/fairspan|g" "$work/crates/cli/fairspan_bin.cdx.json" >"$1"

cargo tree --manifest-path "$work/Cargo.toml" -p fairspan --edges normal,build --target "$host" --prefix none --format '{p}' \
    | awk '{ sub(/^v/, "", $2); print $1 "@" $2 }' | sort -u >"$work/tree"
listed=0
while read -r crate; do
    grep -q "pkg:cargo/$crate[\"?]" "$1" || { echo "$crate is in the program and not in $1"; exit 1; }
    listed=$((listed + 1))
done <"$work/tree"
[ "$listed" -gt 10 ] || { echo "cargo tells of $listed crates only"; exit 1; }
echo "$1 has all $listed crates"
