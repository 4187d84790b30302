#!/bin/sh
# Builds what is shipped, into a folder (target/dist): the program without symbols, and a file from which debuggers take them.
#
#   scripts/dist.sh [FOLDER [PROFILE [TARGET]]]
#
# TARGET is one of rustc's; without it, it is this machine's. scripts/architecture.sh says which compilers another one needs.
#
# The same bytes come out wherever the sources lie, whoever builds them, and when: the same compiler, linker and C compiler
# given. scripts/reproduce.sh checks that. So no path of this machine is in them: the sources are below /fairspan, the
# libraries below /cargo.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
out=${1:-target/dist}
profile=${2:-shipped}
triple=${3:-}
case $profile in dev) built=debug ;; *) built=$profile ;; esac

here=$(pwd -P)
libraries=${CARGO_HOME:-$HOME/.cargo}
target=${CARGO_TARGET_DIR:-$here/target}
LC_ALL=C TZ=UTC CARGO_INCREMENTAL=0
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
# The last that fits counts: the folder of what is built may lie in that of the sources.
RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }--remap-path-prefix=$libraries=/cargo --remap-path-prefix=$here=/fairspan --remap-path-prefix=$target=/target"
CFLAGS="${CFLAGS:+$CFLAGS }-ffile-prefix-map=$libraries=/cargo -ffile-prefix-map=$here=/fairspan -ffile-prefix-map=$target=/target"
export LC_ALL TZ CARGO_INCREMENTAL SOURCE_DATE_EPOCH RUSTFLAGS CFLAGS
umask 022

cargo build --locked --profile "$profile" ${triple:+--target "$triple"} -p fairspan
mkdir -p "$out"
program=$target/${triple:+$triple/}$built/fairspan
objcopy=${OBJCOPY:-objcopy}
"$objcopy" --only-keep-debug "$program" "$out/fairspan.debug"
"$objcopy" --strip-all --add-gnu-debuglink="$out/fairspan.debug" "$program" "$out/fairspan"
