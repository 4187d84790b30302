#!/bin/sh
# Mutation testing of the core's algorithm folders: scripts/mutants.sh [--minutes N] [--anew] [--report] [FOLDER ...]
#
# Installs cargo-mutants where it is missing, then runs scripts/mutants.py, which says what is done and when it fails. It takes hours
# for all folders, ends after two, and goes on where it stopped. No part of `make test`.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
version=27.1.0
PATH="$HOME/.local/share/fairspan/bin:$PATH"
command -v python3 >/dev/null 2>&1 || { echo 'mutants: Python 3.11 or newer is needed' >&2; exit 2; }
if [ "$(cargo mutants --version 2>/dev/null)" != "cargo-mutants $version" ]; then
    echo "mutants: building cargo-mutants $version, once" >&2
    # It reads a few files: its own speed does not matter, that of the compiler does.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64 \
        CARGO_PROFILE_RELEASE_DEBUG=0 cargo install --quiet --locked --root "$HOME/.local/share/fairspan" \
        --version "$version" --force cargo-mutants
fi
exec python3 scripts/mutants.py "$@"
