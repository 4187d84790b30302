#!/bin/sh
# Everything that has to hold: format, lints, documentation, licences, tests, fuzz corpora, real programs in namespaces.
#
# Goes on after a failure and fails if anything did. The last line is `N passed, N failed, N skipped`; what failed and
# what was skipped, and why, stands above it. What needs privileges or a tool that is not there counts as skipped.
# Measurements that tests merely hold (`#[ignore]`) count as skipped too.
set -u
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
deny_version=0.20.2
PATH="$PATH:$HOME/.local/share/fairspan/bin"
export PATH
mkdir -p target
log=target/test.log
: > "$log"
passed=0 failed=0 skipped=0
failures='' skips=''
began=$(date +%s)

step() { printf '\n== %s (after %s s)\n' "$1" "$(($(date +%s) - began))"; }
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); failures="$failures
  FAILED  $1"; }
skip() { skipped=$((skipped + 1)); skips="$skips
  skipped $1"; echo "skipped: $1"; }
check() { # name, command ...
    name=$1
    shift
    step "$name"
    if "$@"; then pass; else fail "$name"; fi
}

check 'format' cargo fmt --all --check
check 'lints (warnings are errors)' cargo clippy --workspace --all-targets --quiet -- -D warnings
check 'documentation (warnings are errors)' \
    env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --quiet

step 'licences, bans, sources (cargo deny)'
if ! cargo deny --version >/dev/null 2>&1; then
    echo 'cargo-deny is missing; building it, once'
    # It reads a few files: its own speed does not matter, that of the compiler does.
    env CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64 \
        CARGO_PROFILE_RELEASE_DEBUG=0 cargo install --quiet --locked --root "$HOME/.local/share/fairspan" \
        --version "$deny_version" cargo-deny
fi
if cargo deny --version >/dev/null 2>&1; then
    if cargo deny --log-level error check licenses bans sources; then pass; else fail 'cargo deny'; fi
    if timeout 60 cargo deny check advisories >"$log.deny" 2>&1; then
        pass
    elif grep -q '^error\[\(vulnerability\|unmaintained\|unsound\|notice\|yanked\)' "$log.deny"; then
        cat "$log.deny"
        fail 'cargo deny: advisories'
    else
        skip 'cargo deny: advisories (the advisory database cannot be reached)'
    fi
else
    skip 'cargo deny (it is not installed and could not be built)'
fi

# Prints a test run as cargo does, without the output that tests printed, and adds up its results.
cargo_tests() { # name, command ...
    name=$1
    shift
    step "$name"
    "$@" >"$log.part" 2>&1
    status=$?
    cat "$log.part" >>"$log"
    if [ $status -ne 0 ]; then
        cat "$log.part"
    else
        grep -E '^(     Running|   Doc-tests|test result:)' "$log.part"
    fi
    # A test that prints `skipped: why` passes; cargo counts one that is ignored by itself.
    counts=$(awk '/^test result:/ { p += $4; f += $6; i += $8 } /^skipped: / { s++ } END { print p + 0, f + 0, s + 0, i + 0 }' \
        "$log.part")
    # shellcheck disable=SC2086 # four numbers
    set -- $counts
    passed=$((passed + $1 - $3))
    failed=$((failed + $2))
    skipped=$((skipped + $3 + $4))
    if [ $(($3 + $4)) -gt 0 ]; then
        reasons=$(sed -n -e 's/^skipped: //p' -e 's/^test .* \.\.\. ignored, //p' "$log.part" | sort | uniq -c \
            | sed 's/^ */  skipped /')
        skips="$skips
$reasons"
    fi
    if [ $status -ne 0 ]; then
        names=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/  FAILED  \1/p' "$log.part")
        [ "$2" -gt 0 ] || failed=$((failed + 1))
        failures="$failures
${names:-  FAILED  $name}"
    fi
}

cargo_tests 'unit, property and namespace tests' cargo test --workspace --no-fail-fast -- --show-output
if [ -f fuzz/Cargo.toml ]; then
    cargo_tests 'fuzz corpora, replayed' \
        cargo test --manifest-path fuzz/Cargo.toml --target-dir target/fuzz --no-fail-fast -- --show-output
fi

step 'real programs in namespaces (tests/netns)'
if cargo build --release --quiet -p fairspan; then
    for script in tests/netns/*.sh; do
        case $script in */lib.sh) continue ;; esac
        name=$(basename "$script" .sh)
        if [ "$(id -u)" != 0 ]; then
            skip "$name: needs root"
            continue
        fi
        timeout 240 "$script" >"$log.part" 2>&1
        status=$?
        cat "$log.part" >>"$log"
        case $status in
            0) pass && echo "test $name ... ok" ;;
            77) skip "$name: $(tail -n 1 "$log.part")" ;;
            *) cat "$log.part" && fail "$script" && echo "test $name ... FAILED" ;;
        esac
    done
else
    fail 'the release build'
fi

printf '\nsummary (after %s s)%s%s\n' "$(($(date +%s) - began))" "$failures" "$skips"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
