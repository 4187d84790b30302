#!/bin/sh
# The Python package.
#
#   scripts/python.sh wheel FOLDER   builds the wheel into FOLDER
#   scripts/python.sh test           builds one, installs it where nothing else is, and tests it with all that it works with:
#                                    pandas, polars, DuckDB, pyarrow, tqdm, Ray, fsspec, notebooks, mypy
#
# Ends with 77 where there is no Python from 3.9 on, or what is needed cannot be installed; the last line says why.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
maturin_version='>=1.9,<2'
python=${FAIRSPAN_PYTHON:-python3}
skip() {
    echo "$1"
    exit 77
}
"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1 \
    || skip 'no Python from 3.9 on with venv and pip'

# A folder with an interpreter and packages of its own.
environment() { # folder, packages ...
    folder=$1
    shift
    [ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2
}
wheel() { # folder, profile
    environment target/python/build "maturin$maturin_version" || skip 'maturin cannot be installed'
    rm -f "$1"/fairspan-*.whl
    mkdir -p crates/python/licences
    cp LICENSE-MIT LICENSE-APACHE crates/python/licences
    scripts/licences.sh fairspan-python crates/python/licences/LIBRARIES.txt
    target/python/build/bin/maturin build --quiet --locked --profile "$2" --manifest-path crates/python/Cargo.toml \
        --interpreter "$python" --out "$1"
    # What is linked in asks for its licences to be passed on.
    for licence in LICENSE-MIT LICENSE-APACHE LIBRARIES.txt; do
        "$python" -m zipfile -l "$(ls "$1"/fairspan-*.whl)" | grep -q "\.dist-info/licenses/.*$licence " \
            || { echo "wheel: $licence is not in it" >&2; exit 1; }
    done
    ls -l "$1"/fairspan-*.whl
}

case ${1:-} in
    wheel) wheel "${2:-target/wheels}" release ;;
    test)
        wheel target/python/wheels demo
        environment target/python/test pandas polars duckdb pyarrow tqdm ray fsspec nbclient ipykernel mypy \
            || skip 'the packages that Python tests need cannot be installed'
        target/python/test/bin/python -m pip install --quiet --disable-pip-version-check --no-index --force-reinstall \
            target/python/wheels/fairspan-*.whl
        program=$(pwd)/target/debug/fairspan
        [ ! -x "$program" ] || export FAIRSPAN_PROGRAM="${FAIRSPAN_PROGRAM:-$program}"
        environment=$(pwd)/target/python/test
        cd crates/python/tests/python
        PYTHONDONTWRITEBYTECODE=1 "$environment/bin/python" -m unittest -v
        ;;
    *) echo "usage: scripts/python.sh wheel [FOLDER] | test" >&2 && exit 2 ;;
esac
