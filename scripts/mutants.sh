#!/bin/sh
# Mutation testing of the core's algorithm folders: scripts/mutants.sh [--minutes N] [--jobs N] [--anew] [--report] [FOLDER ...]
#
# Installs cargo-mutants and a Python parser of Rust where they are missing, then runs scripts/mutants, which says what is done and when it
# fails. It ends after two hours, and goes on where it stopped. No part of `make test`.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
version=27.1.0
PATH="$HOME/.local/share/fairspan/bin:$PATH"
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
    || { echo 'mutants: Python 3.11 or newer with venv and pip is needed' >&2; exit 2; }
if [ "$(cargo mutants --version 2>/dev/null)" != "cargo-mutants $version" ]; then
    echo "mutants: building cargo-mutants $version, once" >&2
    # It reads a few files: its own speed does not matter, that of the compiler does.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64 \
        CARGO_PROFILE_RELEASE_DEBUG=0 cargo install --quiet --locked --root "$HOME/.local/share/fairspan" \
        --version "$version" --force cargo-mutants
fi
python=target/mutants/python/bin/python
if ! "$python" -c 'import tree_sitter, tree_sitter_rust' 2>/dev/null; then
    python3 -m venv target/mutants/python
    "$python" -m pip install --quiet --disable-pip-version-check 'tree-sitter>=0.25,<0.27' 'tree-sitter-rust>=0.24,<0.25' >&2
fi
exec "$python" -B scripts/mutants "$@"
