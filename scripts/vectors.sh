#!/bin/sh
# The handshake vectors, computed anew by an implementation that shares nothing with ours (crates/live/tests/vectors/read.py).
# Needs Python 3 with the package `cryptography`; `all` installs it where it is missing. Ends with 77 if it is not there.
set -u
cd "$(dirname "$0")/.."
folder=$HOME/.local/share/fairspan/python
PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$folder
export PYTHONPATH
there() { python3 -c 'import cryptography.hazmat.primitives.ciphers.aead' 2>/dev/null; }
if ! there && [ "${1:-}" = all ]; then
    echo 'the Python package cryptography is missing; installing it, once'
    # Into a folder of its own: the system's Python is not ours to change.
    command -v pip3 >/dev/null 2>&1 || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip
    timeout 300 python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$folder" 'cryptography>=42'
fi
there || { echo 'Python 3 with the package cryptography is not there; `make test-all` installs it'; exit 77; }
crates/live/tests/vectors/read.py || exit 1
# It must see a single bit that is wrong, wherever it is.
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
for name in initiation response behind cookie_reply challenged datagram; do
    # The last digit of the first value of that name becomes another one.
    sed -E '/"'"$name"'": "/ { s/("'"$name"'": "[0-9a-f]*)[0-7]"/\18"/; t; s/("'"$name"'": "[0-9a-f]*)[89a-f]"/\10"/ }' \
        crates/live/tests/vectors/handshakes.json >"$copy"
    cmp -s "$copy" crates/live/tests/vectors/handshakes.json && { echo "the file has no $name"; exit 1; }
    if crates/live/tests/vectors/read.py "$copy" >/dev/null 2>&1; then
        echo "a wrong $name is not seen"
        exit 1
    fi
done
