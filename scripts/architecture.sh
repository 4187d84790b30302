# Sourced, from the top directory: what builds a program that needs no libraries for the architecture that FAIRSPAN_ARCHITECTURE names, as
# `uname -m` does, and what runs it here. Without that it is this machine's.
#
# Sets `machine` (that name), `triple` (rustc's), `debian` (dpkg's), `emulator` (nothing where this machine is of that architecture) and `missing`
# (what a build still needs, in words, or nothing), and says to cargo which compiler and linker to take. Another machine's program is built by
# Debian's cross compiler with Debian's musl for that architecture. Ends with 77 where that machine's programs cannot be run here.
machine=${FAIRSPAN_ARCHITECTURE:-$(uname -m)}
case $machine in
    x86_64) debian=amd64 ;;
    aarch64) debian=arm64 ;;
    "$(uname -m)") debian=$(dpkg --print-architecture 2>/dev/null || echo "$machine") ;;
    *) echo "FAIRSPAN_ARCHITECTURE is $machine; beside this machine's own, x86_64 and aarch64 can be built for" >&2; exit 1 ;;
esac
triple=$machine-unknown-linux-musl
emulator='' missing=''
if [ "$machine" = "$(uname -m)" ]; then
    command -v musl-gcc >/dev/null 2>&1 || missing='no musl-gcc (Debian package musl-tools)'
else
    cross=$machine-linux-gnu-gcc
    command -v "$cross" >/dev/null 2>&1 || missing="no $cross (Debian package gcc-$(echo "$machine" | tr _ -)-linux-gnu)"
    command -v "$machine-linux-musl-gcc" >/dev/null 2>&1 \
        || missing="${missing:-no $machine-linux-musl-gcc (dpkg --add-architecture $debian; apt-get update; apt-get install musl-dev:$debian)}"
    emulator=$(command -v "qemu-$machine-static" || true)
    if [ -z "$emulator" ]; then
        echo "$(basename "$0" .sh): skipped: no qemu-$machine-static, by which the program is tried (Debian package qemu-user-static)"
        exit 77
    fi
    named=$(echo "$triple" | tr - _)
    capital=$(echo "$named" | tr '[:lower:]' '[:upper:]')
    OBJCOPY=$machine-linux-gnu-objcopy
    export "CC_$named=$machine-linux-musl-gcc" "AR_$named=$machine-linux-gnu-ar" "CARGO_TARGET_${capital}_LINKER=$cross" OBJCOPY
fi
if [ -z "$missing" ] && [ ! -d "$(rustc --print target-libdir --target "$triple" 2>/dev/null)" ]; then
    missing="no standard library of Rust (rustup target add $triple)"
fi

# Runs a program of that architecture that sees nothing but what lies in a folder; an emulator is put there for it, and taken away again.
in_folder() { # folder, program in it, arguments
    folder=$1
    shift
    if [ "$(id -u)" = 0 ]; then as=chroot; else as='unshare --map-root-user chroot'; fi
    [ -z "$emulator" ] || cp "$emulator" "$folder/.emulator"
    ended=0
    $as "$folder" ${emulator:+/.emulator} "$@" || ended=$?
    rm -f "$folder/.emulator"
    return "$ended"
}
