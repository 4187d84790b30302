#!/bin/sh
# The formal models of the handshake (tests/model), checked with Verifpal: an attacker who owns the network, two sessions at once of
# each end. What is found within that is an attack; what is not found is no proof for more sessions.
#
# Each line of the tables is a model, what has to come of it, and what is changed in it first. A change that leaves the text as it
# was is a failure, and so is an attack that is no longer found where one has to be: the prover must be able to say no.
#
#   scripts/model.sh          ends with 77 if the prover is not there
#   scripts/model.sh all      builds it first, once
#   scripts/model.sh trace N  shows what the prover says of line N
set -u
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
version=1.6.7
tools=$HOME/.local/share/fairspan
PATH="$PATH:$tools/bin"
there() { [ "$(verifpal --version 2>/dev/null)" = "verifpal $version" ]; }
if ! there && [ "${1:-}" = all ]; then
    echo 'verifpal is missing; building it, once'
    # Newer compilers are asked for than it needs. Outside the project, whose toolchain file has no say in it.
    # Without link-time optimisation, in half the time.
    (cd / && CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=2 \
        timeout 1500 cargo install --quiet --locked --ignore-rust-version --root "$tools" --version "$version" verifpal)
fi
there || { echo "verifpal $version is not there; \`make test-all\` builds it"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
line=0 failed=0
try() { # model, what has to come of it, what the line is about, sed script
    line=$((line + 1))
    changed=$work/$1
    sed -E "$4" "tests/model/$1" >"$changed"
    if [ -n "$4" ] && cmp -s "$changed" "tests/model/$1"; then
        echo "FAILED $line: $3: nothing to change in $1"
        failed=$((failed + 1))
        return
    fi
    if [ "${only:-$line}" != "$line" ]; then return; fi
    if [ -n "${only:-}" ]; then
        verifpal verify "$changed"
        exit
    fi
    came=$(timeout 600 verifpal verify "$changed" --result-code 2>&1 | tail -n 1)
    expected=$(echo "$2" | tr -d ' ')
    if [ "$came" = "$expected" ]; then
        echo "ok     $line: $3"
    else
        echo "FAILED $line: $3: $came instead of $expected"
        failed=$((failed + 1))
    fi
}
[ "${1:-}" = trace ] && only=$2

stolen='^\t\/\/ stolen from the'
later='^\/\/ stolen afterwards'
initiator="s/$stolen initiator .*/\tleaks is/"
responder="s/$stolen responder .*/\tleaks rs/"
preshared="s/^(\tleaks gis)/\1, psk/"
afterwards() { # keys: stolen when all is over
    leaks=
    for key in "$@"; do
        case $key in i*) who=Initiator ;; *) who=Responder ;; esac
        leaks="$leaks\nprincipal $who[\n\tleaks $key\n]"
    done
    printf '%s' "s/$later/phase[1]$leaks/"
}
# What is secret (packets up, down, their key), who is authentic (messages 1 and 2, packets up and down),
# what is agreed (what the initiator offers, the cipher), what message 1 hides (its hello, who sent it).
#             secret authentic agreed hidden
known='  c0c0c0 a0a0a0a0 e0e0 c0c1'
try handshake.vp "$known" 'the handshake; the attacker knows who the initiator is' ''
try handshake.vp 'c0c0c0 a0a0a0a0 e0e0 c0c0' 'who the initiator is stays hidden' '/leaks gis/d'
try handshake.vp "$known" 'the pre-shared key is stolen at the start' "$preshared"
try handshake.vp 'c0c0c0 a0a0a0a0 e0e0 c1c1' 'all long-term keys are stolen afterwards: what was sent stays secret' \
    "/leaks gis/d; $(afterwards is rs psk)"
try handshake.vp 'c0c0c0 a0a0a0a0 e0e0 c1c1' 'Curve25519 is broken afterwards: the pre-shared key protects what was sent' \
    "/leaks gis/d; $(afterwards is rs ie re)"
try handshake.vp 'c0c0c0 a1a0a0a0 e1e0 c0c1' "the initiator's key is stolen at the start: it is not deceived, and the pre-shared key stands" \
    "$initiator"
try handshake.vp 'c0c1c0 a1a0a1a0 e1e0 c0c1' "the initiator's and the pre-shared key are stolen at the start: it is not deceived" \
    "$initiator; $preshared"
try handshake.vp 'c1c0c1 a1a1a0a1 e1e1 c1c1' "the responder's and the pre-shared key are stolen at the start: it is not deceived" \
    "$responder; $preshared"

echo 'What has to fail:'
try handshake.vp 'c0c0c0 a1a0a0a0 e0e0 c0c1' 'a responder that takes any timestamp answers a recording' \
    's/HASH\((r_)?h3, stamp\)/\1h3/'
try handshake.vp 'c0c0c0 a1a0a0a0 e1e0 c0c1' 'without the agreement of both static keys anybody makes message 1' \
    's/^(\t(r_)?ck3, .*)DH_KEX\([^)]*\)/\1zero/'
try handshake.vp 'c1c1c1 a0a0a0a0 e0e0 c1c1' 'without that of both ephemeral keys, keys stolen afterwards open what was sent' \
    "s/^(\t(r_)?ck5 = .*)DH_KEX\([^)]*\)/\1zero/; /leaks gis/d; $(afterwards is rs psk)"
try handshake.vp 'c1c1c1 a1a1a1a1 e1e1 c1c1' 'without that of the initiator with the new key, the stolen key of a responder deceives it' \
    "s/^(\t(r_)?ck6 = .*)DH_KEX\([^)]*\)/\1zero/; $responder; $preshared"
try handshake.vp 'c0c0c0 a0a0a0a0 e0e0 c0c1' 'without that of the responder with the new key, all see who begins' \
    's/^(\t(r_)?ck2, .*)DH_KEX\([^)]*\)/\1zero/; /leaks gis/d'
try handshake.vp 'c1c1c1 a0a0a0a0 e0e0 c1c1' 'the pre-shared key is stolen too after Curve25519 is broken' \
    "/leaks gis/d; $(afterwards is rs ie re psk)"
try handshake.vp 'c1c0c1 a0a1a0a1 e0e0 c1c1' "the responder's key is fetched from the network, and the pre-shared key stolen" \
    "s/^(Responder -> Initiator: )\[grs\]/\1grs/; $preshared"
try handshake.vp 'c0c0c0 a0a0a0a1 e0e0 c0c1' 'one key for both directions: a packet is sent back' \
    's/^(\tr_up, )r_down/\1_/; s/^(\tup_key, )down_key/\1_/; s/ENC\(r_down/ENC(r_up/; s/DEC\(down_key/DEC(up_key/'
try handshake.vp 'c0c0c0 a0a0a0a0 e1e0 c0c1' 'what an end accepts is said outside the encryption' \
    's/^(\th4 = .*)/\1\n\tclear = CONCAT(caps_i, zero)/; s/^(Initiator -> Responder: gie.*)/\1, clear/; s/^\tr_caps, r_hello = .*/\t_, r_hello = SPLIT(r_one)?\n\tr_caps, r_zero = SPLIT(clear)?/'

echo 'Proof of an address, and the answer to timestamps that are behind:'
try cookie.vp 'a0 c0' 'nobody computes Curve25519 for a source that does not get what is sent to it' ''
try cookie.vp 'a1 c1' 'has to fail: the attacker gets it' 's/^\tleaks grs/&, route/'
try cookie.vp 'a1 c0' 'has to fail: the cookie does not enter the proof' 's/MAC\((seen|cookie), gie2\)/MAC(HASH(label, grs), gie2)/'
try behind.vp 'a0 c0' 'only the responder says how far the timestamps have got, only its peer reads it, once' ''
try behind.vp 'a1 c0' 'has to fail: an answer to no initiation in particular' 's/(heard|behind), mac1\)/\1, nil)/'
try behind.vp 'a1 c1' "has to fail: sealed under what the initiator's public key says" 's/DH_KEX\([^)]*\)/gis/'
[ -z "${only:-}" ] || { echo "there are $line lines"; exit 2; }
echo "$((line - failed)) of $line lines as they have to be"
[ $failed -eq 0 ]
