#!/bin/sh
# Writes the licences of what is linked into a package of this workspace: each library with its version and licence, then the texts.
#
#   scripts/licences.sh PACKAGE FILE [TARGET]
#
# TARGET is one of rustc's; without it, it is this machine's. With musl the C library is linked in too.
# A text that several libraries have in the same words stands there once. Fails if a library has no text.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
package=$1
libraries=${CARGO_HOME:-$HOME/.cargo}/registry/src
target=${3:-$(rustc -vV | sed -n 's/^host: //p')}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What is linked, and the macros that wrote a part of it. Our own crates have a path in brackets.
cargo tree --quiet --locked -p "$package" --edges normal --target "$target" --prefix none --format '{p}|{l}' \
    | sed -e '/ (\//d' -e 's/ (\*)//' -e 's/ (proc-macro)//' | LC_ALL=C sort -u >"$work/tree"
mkdir "$work/texts"
number=0
while IFS='|' read -r crate licence; do
    name=${crate% v*} version=${crate##* v}
    folder=
    for found in "$libraries"/*/"$name-$version"; do [ ! -d "$found" ] || folder=$found; done
    [ -n "$folder" ] || { echo "licences: $name $version has no folder in $libraries" >&2; exit 1; }
    # C sources that come with a library have their texts one folder below. GNU's are those of tools and scripts, which are not linked.
    find "$folder" -maxdepth 2 -type f ! -path '*/tests/*' ! -name '*.sh' ! -name '*GPL*' \
        \( -iname 'licen*' -o -iname 'copying*' -o -iname 'copyright*' -o -iname 'notice*' -o -iname 'unlicense*' \) \
        | LC_ALL=C sort >"$work/files"
    numbers=
    while read -r file; do
        text=$(tr -d '\r' <"$file" | sha256sum | cut -d ' ' -f 1)
        if [ ! -e "$work/texts/$text" ]; then
            number=$((number + 1))
            echo "$number" >"$work/texts/$text"
            { printf '\n======== text %s ========\n\n' "$number"; tr -d '\r' <"$file"; } >>"$work/all"
        fi
        numbers="$numbers, $(cat "$work/texts/$text")"
    done <"$work/files"
    [ -n "$numbers" ] || { echo "licences: $name $version has no text" >&2; exit 1; }
    printf '%s %s: %s (texts %s)\n' "$name" "$version" "$licence" "${numbers#, }" >>"$work/list"
done <"$work/tree"
[ "$(wc -l <"$work/list")" -gt 10 ] || { echo "licences: cargo tells of $(wc -l <"$work/list") libraries only" >&2; exit 1; }
{
    printf 'Fairspan itself is licensed under MIT or Apache-2.0, at your choice. These libraries of others are linked into it:\n\n'
    cat "$work/list"
    printf "The standard library of Rust: MIT OR Apache-2.0, by the Rust Project's contributors\n"
    case $target in
        *-musl)
            printf 'The C library musl: MIT, Copyright (c) 2005-2020 Rich Felker and others; its text is:\n'
            sed '1,/^Copyright/d' LICENSE-MIT
            printf "\nLLVM's libunwind: Apache-2.0 WITH LLVM-exception, by the LLVM Project's contributors\n"
            ;;
    esac
    cat "$work/all"
} >"$work/whole"
mkdir -p "$(dirname "$2")"
mv "$work/whole" "$2"
