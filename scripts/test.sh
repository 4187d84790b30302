#!/bin/sh
# Everything that has to hold: format, lints, documentation, licences, tests, fuzz corpora, real programs in namespaces.
#
#   scripts/test.sh        what `make test` does, with the unoptimised build alone
#   scripts/test.sh all    `make test-all`: also every kept scenario to its end, the program with all its features, and real
#                          programs measured, which builds the program of `make demo`
#
# Nothing here fails because a machine is slow or busy: what is measured is judged where the machine had time to spare.
# Goes on after a failure and fails if anything did. The last line is `N passed, N failed, N skipped`; what failed and
# what was skipped, and why, stands above it. What needs privileges or a tool that is not there counts as skipped.
# Measurements that tests merely hold (`#[ignore]`) count as skipped too.
#
# It ends in any case: each step has a bound, each test program has one of its own (scripts/bounded.sh), and what is not
# at its end by then counts as failed. All bounds are several times what a busy machine of two cores needs.
set -u
case ${1:-} in
    '') all= ;;
    all) all=all ;;
    *) echo "usage: scripts/test.sh [all]" >&2 && exit 2 ;;
esac
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
# No test program starts after 45 minutes (115), and nothing goes on after 55 (130).
FAIRSPAN_TEST_DEADLINE=$((began + ${all:+4200+}2700))
last=$((began + ${all:+4500+}3300))
# Most of the longer tests wait for daemons.
RUST_TEST_THREADS=${RUST_TEST_THREADS:-4}
export FAIRSPAN_TEST_DEADLINE RUST_TEST_THREADS
# Where each test program's end is told as it comes (scripts/bounded.sh).
exec 3>&1
runner="target.'cfg(unix)'.runner='$(pwd)/scripts/bounded.sh'"

step() { printf '\n== %s (after %s s)\n' "$1" "$(($(date +%s) - began))"; }
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); failures="$failures
  FAILED  $1"; }
skip() { skipped=$((skipped + 1)); skips="$skips
  skipped $1"; echo "skipped: $1"; }
# What not even SIGKILL ends (a kernel that waits for ever) would hold this script up for ever too.
(
    while sleep 1 && kill -0 $$; do
        [ "$(date +%s)" -ge $((last + 60)) ] || continue
        printf '\nsummary: something cannot be ended after %s s; waiting in the kernel are:\n' "$(($(date +%s) - began))" >&3
        ps -eo pid,stat,wchan:32,args | awk '$2 ~ /^D/' >&3
        echo '0 passed, 1 failed, 0 skipped' >&3
        kill -KILL $$
    done
) >/dev/null 2>&1 &
guard=$!

# Runs a command for so many seconds at most. In the foreground, so that Ctrl-C reaches it.
within() { # seconds, command ...
    seconds=$1
    shift
    left=$((last - $(date +%s)))
    [ "$left" -ge "$seconds" ] || seconds=$left
    if [ "$seconds" -le 0 ]; then
        echo "not started, the time for everything is over: $*"
        return 124
    fi
    timeout --foreground -k 10 "$seconds" "$@"
    ended=$?
    [ $ended -ne 124 ] || echo "not at its end after $seconds s: $*"
    return $ended
}
check() { # name, seconds, command ...
    name=$1
    shift
    step "$name"
    if within "$@"; then pass; else fail "$name"; fi
}

# What compiles goes on beside tests, which wait for much of their time: commands in the background, which begin when the tests
# run (until then cargo holds its lock), and are asked for their end by `gather`.
lanes=
lane() { # name, seconds, command ...
    lane=target/lanes/$(echo "$1" | tr -cs 'a-z\n' '-')
    echo "$1" >"$lane.name"
    seconds=$2
    shift 2
    # shellcheck disable=SC2016 # expanded inside
    setsid sh -c 'log=$1 lane=$2 seconds=$3
        shift 3
        until grep -q -e "^ *Running" -e "^error" "$log"; do sleep 1; done
        timeout --foreground -k 10 "$seconds" nice "$@" >"$lane.out" 2>&1
        echo $? >"$lane.status"' sh "$log.part" "$lane" "$seconds" "$@" &
    lanes="$lanes $!"
}
gather() {
    # shellcheck disable=SC2086 # numbers of processes
    wait $lanes
    lanes=
    for name in target/lanes/*.name; do
        lane=${name%.name}
        step "$(cat "$name"): what it said beside the tests"
        cat "$lane.out"
        if [ "$(cat "$lane.status")" = 0 ]; then pass; else fail "$(cat "$name")"; fi
    done
}
rm -rf target/lanes && mkdir -p target/lanes
# What is in the background does not hear of Ctrl-C: each has a process group of its own.
trap 'for lane in $lanes; do kill -TERM -- "-$lane" 2>/dev/null; done; exit 130' INT TERM

check 'format' 60 cargo fmt --all --check
step 'licences, bans, sources (cargo deny)'
if [ -n "$all${CI:-}" ] && ! cargo deny --version >/dev/null 2>&1; then
    echo 'cargo-deny is missing; building it, once'
    # It reads a few files: its own speed does not matter, that of the compiler does.
    within 600 env CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64 \
        CARGO_PROFILE_RELEASE_DEBUG=0 cargo install --quiet --locked --root "$HOME/.local/share/fairspan" \
        --version "$deny_version" cargo-deny
fi
if cargo deny --version >/dev/null 2>&1; then
    if within 120 cargo deny --log-level error check licenses bans sources; then pass; else fail 'cargo deny'; fi
    if within 60 cargo deny check advisories >"$log.deny" 2>&1; then
        pass
    elif grep -q '^error\[\(vulnerability\|unmaintained\|unsound\|notice\|yanked\)' "$log.deny"; then
        cat "$log.deny"
        fail 'cargo deny: advisories'
    else
        skip 'cargo deny: advisories (the advisory database cannot be reached)'
    fi
else
    skip 'cargo deny (it is not installed; `make test-all` and CI=true build it)'
fi

# Builds and runs tests, and adds up their results. Each test program's end is told as it comes.
cargo_tests() { # name, `cargo test` arguments ...
    name=$1
    shift
    step "$name"
    if ! within 1500 cargo test --no-run "$@" >"$log.part" 2>&1; then
        cat "$log.part"
        fail "$name: the build"
        return
    fi
    echo "built after $(($(date +%s) - began)) s"
    within 2400 cargo test --config "$runner" --no-fail-fast "$@" -- --show-output ${ignored:-} >"$log.part" 2>&1
    count $?
}
# Adds up what libtest printed to the log; without any failure in it, a bad status counts as one.
count() { # status
    status=$1
    cat "$log.part" >>"$log"
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
    if [ "$status" -ne 0 ]; then
        names=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/  FAILED  \1/p' "$log.part")
        if [ "$2" -eq 0 ]; then
            failed=$((failed + 1))
            tail -n 60 "$log.part"
        fi
        failures="$failures
${names:-  FAILED  $name}"
    fi
}

# A script that ends with 77 says in its last line why it was skipped.
external() { # name, seconds, command ...
    step "$1"
    name=$1
    shift
    within "$@" >"$log.part" 2>&1
    status=$?
    cat "$log.part"
    case $status in
        0) pass ;;
        77) skip "$name: $(tail -n 1 "$log.part")" ;;
        *) fail "$name" ;;
    esac
}
external 'handshake vectors, read by an independent implementation' 600 scripts/vectors.sh $all

: >"$log.part"
lane 'lints (warnings are errors)' 2400 cargo clippy --workspace --all-targets --quiet -- -D warnings
lane 'documentation (warnings are errors)' 2400 \
    env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --quiet
cargo_tests 'unit, property and namespace tests' --workspace --tests --examples
gather
step 'examples in the documentation'
within 600 cargo test --workspace --doc --no-fail-fast -- --show-output >"$log.part" 2>&1
status=$?
if [ $status -eq 0 ]; then grep -E '^(   Doc-tests|test result:)' "$log.part"; else cat "$log.part"; fi
name='examples in the documentation'
count $status
parts=target/netns
# Starts the scripts of tests/netns, three at a time: they wait for most of their time.
scripts() { # program, argument of the scripts
    step "real programs in namespaces (tests/netns)${2:+, $2}"
    rm -rf "$parts" && mkdir -p "$parts"
    # Not after the deadline of the test programs, but the last bound holds.
    # shellcheck disable=SC2016 # expanded inside
    # The longest first.
    for script in tests/netns/ring.sh tests/netns/*.sh; do
        case $script in */lib.sh) ;; *) echo "$script" ;; esac
    done | awk '!seen[$0]++' | FAIRSPAN_PROGRAM=$1 FAIRSPAN_TEST_DEADLINE=$last CARGO_PKG_NAME='' setsid env --default-signal=INT,QUIT xargs -P "${at_once:-3}" -I SCRIPT sh -c '
            part=$1/$(basename "$2" .sh)
            scripts/bounded.sh "$2" $3 >"$part.out" 2>&1 3>"$part.report"
            echo $? >"$part.status"
            cat "$part.report" >&3' sh "$parts" SCRIPT "${2:-}" &
    lanes=$!
}
# Waits for them, and counts.
scripts_ended() {
    wait "$lanes"
    lanes=
    for status in "$parts"/*.status; do
        name=$(basename "$status" .status)
        cat "$parts/$name.out" >>"$log"
        case $(cat "$status") in
            0) pass ;;
            77) skip "$name: $(tail -n 1 "$parts/$name.out")" ;;
            *) fail "tests/netns/$name.sh" ;;
        esac
    done
}
# They wait while the fuzz targets are built.
scripts "$(pwd)/target/debug/fairspan"
cargo_tests 'fuzz corpora, replayed' --manifest-path fuzz/Cargo.toml --target-dir target --tests --examples
scripts_ended
if [ -n "$all" ]; then
    check 'lints with all features' 600 cargo clippy -p fairspan --all-features --all-targets --quiet -- -D warnings
    external 'formal models of the handshake' 2400 scripts/model.sh all
    external 'what is shipped lists its parts' 1500 scripts/sbom.sh target/fairspan.cdx.json
    cargo_tests 'the program with all features' -p fairspan --all-features --bin fairspan --test sim_cli
    # Seeds that nobody has seen yet; each that breaks a promise says how to run it again. A million takes 30 to 75 seconds on two
    # cores, so this takes five to thirteen minutes; 1000 million, a night and more.
    export FAIRSPAN_FAULTS="${FAIRSPAN_FAULTS:-10000000}" FAIRSPAN_FIRST_SEED="${FAIRSPAN_FIRST_SEED:-$began}" FAIRSPAN_TEST_LIMIT=1800
    cargo_tests "whole daemons in memory, $FAIRSPAN_FAULTS faults from seed $FAIRSPAN_FIRST_SEED" \
        -p fairspan-live --lib simulated::no_fault
    unset FAIRSPAN_FAULTS FAIRSPAN_FIRST_SEED FAIRSPAN_TEST_LIMIT
    ignored='--ignored regress'
    cargo_tests 'every kept scenario to its end' --profile demo -p fairspan-sim --test suite
    ignored=
    step 'the program of `make demo`'
    if within 1200 cargo build --profile demo -p fairspan; then
        pass
        # Measurements, one after the other.
        at_once=1 scripts "$(pwd)/target/demo/fairspan" long
        scripts_ended
    else
        fail 'the build of `make demo`'
    fi
fi

kill $guard 2>/dev/null
printf '\nsummary (after %s s)%s%s\n' "$(($(date +%s) - began))" "$failures" "$skips"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
