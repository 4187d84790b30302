#!/bin/sh
# Builds what is shipped twice, from the committed sources in two folders whose names have nothing in common, with another home,
# locale, time zone and mask, and compares the two byte for byte.
#
#   scripts/reproduce.sh [PROFILE]     shipped, if none is given
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
profile=${1:-shipped}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CARGO_TARGET_DIR RUSTFLAGS CFLAGS
# What was downloaded serves both builds.
CARGO_HOME=${CARGO_HOME:-$HOME/.cargo}
RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export CARGO_HOME RUSTUP_HOME
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
one=$work/a two=$work/another/and/a-longer-one
for folder in "$one" "$two"; do
    mkdir -p "$folder"
    git archive HEAD | tar -x -C "$folder"
done
"$one/scripts/dist.sh" "$work/one" "$profile"
# Two builds at once would need twice the memory and half the disk.
rm -rf "$one/target"
(
    umask 077
    mkdir "$work/home"
    HOME=$work/home LANG=de_DE.UTF-8 TZ=Asia/Tokyo USER=another "$two/scripts/dist.sh" "$work/two" "$profile"
)
(cd "$work" && sha256sum one/* two/*)
for file in fairspan fairspan.debug; do
    if grep -q -a -F -e "$work" "$work/one/$file"; then
        echo "$file of profile $profile holds the path where it was built"
        exit 1
    fi
    cmp "$work/one/$file" "$work/two/$file" || { echo "$file of profile $profile is not the same twice"; exit 1; }
done
echo "the program of profile $profile is the same twice"
