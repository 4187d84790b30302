# Sourced, from the top directory: what builds a program that needs no libraries for the architecture that FAIRSPAN_ARCHITECTURE names, as
# `uname -m` does, and what runs it here. Without that it is this machine's.
#
# Sets `machine` (that name), `triple` (rustc's), `debian` (dpkg's), `platform` (that of images), `emulator` (nothing where this machine is of that
# architecture) and `missing` (what a build still needs, in words, or nothing), and says to cargo which compiler and linker to take. Another
# machine's program is built by Debian's cross compiler with Debian's musl for that architecture. Ends with 77 where that machine's programs cannot
# be run here.
this=$(uname -m)
case $this in armv7*) this=armv7 ;; esac
machine=${FAIRSPAN_ARCHITECTURE:-$this}
triple=$machine-unknown-linux-musl gnu=$machine-linux-gnu musl=$machine-linux-musl emulated=$machine
case $machine in
    x86_64) debian=amd64 platform=linux/amd64 ;;
    aarch64) debian=arm64 platform=linux/arm64 ;;
    armv7)
        debian=armhf platform=linux/arm/v7 emulated=arm
        triple=armv7-unknown-linux-musleabihf gnu=arm-linux-gnueabihf musl=arm-linux-musleabihf
        ;;
    "$this") debian=$(dpkg --print-architecture 2>/dev/null || echo "$machine") platform=linux/$debian ;;
    *) echo "FAIRSPAN_ARCHITECTURE is $machine; beside this machine's own, x86_64, aarch64 and armv7 can be built for" >&2; exit 1 ;;
esac
emulator='' missing=''
if [ "$machine" = "$this" ]; then
    command -v musl-gcc >/dev/null 2>&1 || missing='no musl-gcc (Debian package musl-tools)'
else
    command -v "$gnu-gcc" >/dev/null 2>&1 || missing="no $gnu-gcc (Debian package gcc-$(echo "$gnu" | tr _ -))"
    command -v "$musl-gcc" >/dev/null 2>&1 \
        || missing="${missing:-no $musl-gcc (dpkg --add-architecture $debian; apt-get update; apt-get install musl-dev:$debian)}"
    emulator=$(command -v "qemu-$emulated-static" || true)
    if [ -z "$emulator" ]; then
        echo "$(basename "$0" .sh): skipped: no qemu-$emulated-static, by which the program is tried (Debian package qemu-user-static)"
        exit 77
    fi
    named=$(echo "$triple" | tr - _)
    capital=$(echo "$named" | tr '[:lower:]' '[:upper:]')
    OBJCOPY=$gnu-objcopy
    export "CC_$named=$musl-gcc" "AR_$named=$gnu-ar" "CARGO_TARGET_${capital}_LINKER=$gnu-gcc" OBJCOPY
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
