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
# at its end by then counts as failed. All bounds are several times what a busy machine of two cores needs. Ctrl-C and
# SIGTERM end everything that it started, and no namespace and no temporary file stays behind.
set -u
case ${1:-} in
    '') all= ;;
    all) all=all ;;
    *) echo "usage: scripts/test.sh [all]" >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/.."
top=$(pwd)
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
FAIRSPAN_TEST_DEADLINE=$((began + ${all:+9600+}2700))
last=$((began + ${all:+9900+}3300))
# Most of the longer tests wait for daemons.
RUST_TEST_THREADS=${RUST_TEST_THREADS:-4}
# Several run at once.
FAIRSPAN_TEST_LIMIT=${FAIRSPAN_TEST_LIMIT:-2400}
# An incremental build cuts each crate into small parts. Nothing is inlined across them, so tests take longer.
CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
export FAIRSPAN_TEST_DEADLINE FAIRSPAN_TEST_LIMIT RUST_TEST_THREADS CARGO_INCREMENTAL
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

# Runs a command for so many seconds at most. In the background, with a process group of its own: so a signal is heard at once.
running=
within() { # seconds, command ...
    seconds=$1
    shift
    left=$((last - $(date +%s)))
    [ "$left" -ge "$seconds" ] || seconds=$left
    if [ "$seconds" -le 0 ]; then
        echo "not started, the time for everything is over: $*"
        return 124
    fi
    setsid env --default-signal=INT,QUIT timeout --foreground -k 10 "$seconds" "$@" &
    running=$!
    wait $running
    ended=$?
    running=
    [ $ended -ne 124 ] || echo "not at its end after $seconds s: $*"
    return $ended
}
interrupted() {
    trap '' INT TERM HUP
    kill $guard 2>/dev/null
    for group in $running $lanes; do kill -s TERM -- "-$group" 2>/dev/null; done
    # Test programs clean up behind themselves.
    tries=0
    for group in $running $lanes; do
        while [ $tries -lt 300 ] && kill -s 0 -- "-$group" 2>/dev/null; do
            sleep 0.1
            tries=$((tries + 1))
        done
        kill -s KILL -- "-$group" 2>/dev/null
    done
    exit 130
}
trap interrupted INT TERM HUP
check() { # name, seconds, command ...
    name=$1
    shift
    step "$name"
    if within "$@"; then pass; else fail "$name"; fi
}

# What goes on beside the rest, a process group each. `gather` asks for the end of them all.
lanes=
lane() { # name, seconds, command ...
    lane=target/lanes/$(echo "$1" | tr -cs 'a-z\n' '-')
    echo "$1" >"$lane.name"
    seconds=$2
    shift 2
    # A session gets as much of the processors as another, however nice its processes are, unless it is nice itself. This
    # one is only a little nice: on a busy machine other programs leave next to nothing to a very nice one.
    # shellcheck disable=SC2016 # expanded inside
    setsid sh -c 'lane=$1 seconds=$2
        shift 2
        echo 5 2>/dev/null >"/proc/$$/autogroup"
        TMPDIR=$(pwd)/target/lanes timeout --foreground -k 10 "$seconds" "$@" >"$lane.out" 2>&1
        echo $? >"$lane.status"' sh "$lane" "$seconds" "$@" &
    lanes="$lanes $!"
}
gather() {
    # Nothing else of ours goes on any more. Who may not raise it again waits longer.
    for lane in $lanes; do
        { echo 0 >"/proc/$lane/autogroup"; } 2>/dev/null || :
    done
    # shellcheck disable=SC2086 # numbers of processes
    wait $lanes
    lanes=
    for name in target/lanes/*.name; do
        lane=${name%.name}
        name=$(cat "$name")
        step "$name: what it said beside the tests"
        status=$(cat "$lane.status")
        if grep -q '^test result:' "$lane.out"; then
            grep -E '^(   Doc-tests|test result:)' "$lane.out"
            cp "$lane.out" "$log.part"
            count "$status"
        elif cat "$lane.out" && [ "$status" = 0 ]; then
            pass
        else
            fail "$name"
        fi
    done
}
rm -rf target/lanes && mkdir -p target/lanes

# Test programs and scripts, several at a time, as many of them wait for most of their time. A line for each: package, folder,
# program, with tabs.
list=target/programs parts=target/parts tab=$(printf '\t')
# Puts the test programs of this workspace on the list.
programs() {
    step 'unit, property and namespace tests, fuzz corpora: the build'
    if within 2400 cargo test --no-run --message-format json-render-diagnostics --workspace --tests \
        >"$log.json" 2>"$log.part"; then
        sed -n "/\"overflow_checks\":[a-z]*,\"test\":true}/s|.*\"package_id\":\"[^\"#]*#\([^@\"]*\)@.*\"manifest_path\":\"\([^\"]*\)/Cargo.toml\".*\"executable\":\"\([^\"]*\)\".*|\1$tab\2$tab\3|p" \
            "$log.json" >>"$list"
        echo "built after $(($(date +%s) - began)) s"
    else
        cat "$log.part"
        fail 'the build of the tests'
    fi
}
# Puts the scripts of tests/netns on the list.
scripts() {
    for script in "$(pwd)"/tests/netns/*.sh; do
        case $script in */lib.sh) ;; *) printf '%s\t%s\t%s\n' '' "$(pwd)" "$script" ;; esac
    done >>"$list"
}
# Starts what is on the list, what takes longest first.
argument=
start() { # how many at a time, argument of the scripts
    argument=${2:-}
    rm -rf "$parts" && mkdir -p "$parts"
    awk -F "$tab" -v first='/web-roles.sh /ring.sh /daemon- /fairspan_live- /suite- /demo /bench /secrets- /fairspan- /bounded-' '
        BEGIN { n = split(first, names, " ") }
        { rank = n + 1; for (i = n; i > 0; i--) if (index($3, names[i])) rank = i; print rank FS $0 }' "$list" \
        | sort -n -s -k 1,1 | cut -f 2- >"$list.sorted"
    # shellcheck disable=SC2016 # expanded inside
    setsid env --default-signal=INT,QUIT xargs -a "$list.sorted" -d '\n' -n 1 -P "$1" sh -c '
        package=${4%%"$3"*} program=${4##*"$3"} folder=${4#*"$3"}
        folder=${folder%%"$3"*} part=$1/$(basename "$program") top=$(pwd) argument=--show-output
        case $program in *.sh) argument=$2 ;; esac
        (cd "$folder" && CARGO_PKG_NAME=$package "$top/scripts/bounded.sh" "$program" $argument) \
            >"$part.out" 2>&1 3>"$part.report"
        echo $? >"$part.status"
        cat "$part.report" >&3' sh "$parts" "${2:-}" "$tab" &
    lanes="$lanes $!"
}
# Daemons, kernels and the compiler share the machine in all this, and a test of a daemon that had no processor for a second may
# fail for that. So up to three tests of a program that fail beside the rest run once more, alone. The summary names each that
# passes only then, because somebody has to look at it. What uses neither daemons nor the kernel's sockets has no second chance.
beside=''
alone() { # program, its line in the list
    part=$parts/$1 binary=${2##*"$tab"} folder=${2#*"$tab"}
    folder=${folder%%"$tab"*} tests=''
    case $1 in
        *.sh) set -- $argument ;;
        *)
            tests=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$part.out")
            count=$(printf '%s\n' "$tests" | grep -c .)
            [ "$count" -ge 1 ] && [ "$count" -le 3 ] || return 1
            # Its end has to say the same: a program that crashed says nothing, and more than these tests went wrong.
            rest=$(sed -n "s/^test result: FAILED\\. \\([0-9]*\\) passed; $count failed.*/\\1/p" "$part.out")
            [ -n "$rest" ] || return 1
            # shellcheck disable=SC2086 # names without spaces
            set -- --exact $tests --show-output --test-threads 1
            ;;
    esac
    cd "$folder" || return 1
    within 600 "$top/scripts/bounded.sh" "$binary" "$@" >"$top/$part.again" 2>&1
    result=$?
    cd "$top" || return 1
    [ $result -eq 0 ] || return 1
    beside="$beside
$(echo "${tests:-$(basename "$binary")}" | sed 's/^/  passed only when it ran alone: /')"
    if [ -z "$tests" ]; then
        pass
        return
    fi
    sed -e 's/ \.\.\. FAILED$/ ... ok, when it ran alone/' \
        -e "s/^test result: FAILED\. $rest passed; $count failed/test result: ok. $((rest + count)) passed; 0 failed/" \
        "$part.out" >>"$log.part"
}
# Adds up their results.
ended() {
    : >"$log.part"
    worst=0
    while IFS= read -r line; do
        program=$(basename "${line##*"$tab"}")
        status=$(cat "$parts/$program.status" 2>/dev/null || echo none)
        case ${line%%"$tab"*}:$program:$status in
            *:0 | *:77 | *:124 | *:none) ;;
            *.sh:* | fairspan-live:* | fairspan:daemon-* | fairspan:secrets-* | fairspan:bench_* | fairspan:*_cli-*)
                alone "$program" "$line" && continue
                ;;
        esac
        case $program:$status in
            *:none) fail "$program has no result" ;;
            *.sh:*) cat "$parts/$program.out" >>"$log" ;;
            *) cat "$parts/$program.out" >>"$log.part" ;;
        esac
        case $program:$status in
            *.sh:0) pass ;;
            *.sh:77) skip "$program: $(tail -n 1 "$parts/$program.out")" ;;
            *.sh:*) fail "tests/netns/$program" ;;
            *:0 | *:none) ;;
            *) worst=$status ;;
        esac
    done <"$list.sorted"
    name='a test program'
    count "$worst"
    : >"$list"
}
: >"$list"

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
    if ! within 2400 cargo test --no-run "$@" >"$log.part" 2>&1; then
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

programs
scripts
lane 'lints (warnings are errors)' 2400 cargo clippy --workspace --all-targets --quiet -- -D warnings
lane 'documentation (warnings are errors)' 2400 \
    env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --quiet
lane 'examples in the documentation' 2400 cargo test --workspace --doc --no-fail-fast -- --show-output
# Those of the papers' claims that take little: together less than a minute of a core. All of them are in `make test-all`.
# shellcheck disable=SC2086 # names without spaces
quick='rings.dvsr-unbalanced rings.fairness-bound gateway.complexity gateway.spoof-t1 gateway.two-server gateway.optimal-rate
    efl.complexity efl.reduces-to-tcp efl.residual efl.stability'
lane 'claims of the papers that take little, reduced' 2400 \
    "$(pwd)/target/debug/fairspan" claims --reduced --check --jobs 1 $quick
step 'test programs, and real programs in namespaces (tests/netns)'
export FAIRSPAN_PROGRAM="$(pwd)/target/debug/fairspan"
start "${FAIRSPAN_TESTS_AT_ONCE:-4}"
gather
ended
if [ -n "$all" ]; then
    # What the papers claim, with one seed and short runs: whatever comes out otherwise than it was kept was changed by somebody.
    # `fairspan claims --reduced --run` renews what is kept, once it is known why.
    external "the papers' claims, reduced" 2400 "$FAIRSPAN_PROGRAM" claims --reduced --check
    external "the papers' claims" 5400 "$FAIRSPAN_PROGRAM" claims --check
    check 'lints with all features' 600 cargo clippy -p fairspan --all-features --all-targets --quiet -- -D warnings
    external 'the Python package, installed, with all that it works with' 2400 scripts/python.sh test
    external 'formal models of the handshake' 2400 scripts/model.sh all
    external 'the OpenTelemetry Collector between two daemons' 2400 scripts/collector.sh
    external 'what is shipped lists its parts' 1500 scripts/sbom.sh target/fairspan.cdx.json
    external 'what is shipped is the same when it is built twice' 3000 scripts/reproduce.sh
    # Only root may make namespaces and folders of devices, so without root less of it is tried; each says so.
    external 'the static program, alone in an empty folder' 3000 env FAIRSPAN_PROFILE=demo scripts/static.sh
    external 'the package for OpenWrt, installed with BusyBox alone' 600 env FAIRSPAN_PROFILE=demo scripts/openwrt.sh
    external 'the container image, in two containers' 600 env FAIRSPAN_PROFILE=demo scripts/container.sh
    external 'the Debian package, in a system whose first process is systemd' 1500 scripts/systemd.sh
    # The same for other architectures, as far as an emulator can try it. What is missing for that is told.
    for other in x86_64 aarch64 armv7; do
        [ "$other" != "$(uname -m)" ] || continue
        export FAIRSPAN_ARCHITECTURE=$other
        external "the static program for $other, emulated in an empty folder" 3000 env FAIRSPAN_PROFILE=demo scripts/static.sh
        external "the packages for OpenWrt for $other" 600 env FAIRSPAN_PROFILE=demo scripts/openwrt.sh
        external "the container image for $other" 600 env FAIRSPAN_PROFILE=demo scripts/container.sh
        external "the Debian package for $other" 600 scripts/package.sh target/package demo
        unset FAIRSPAN_ARCHITECTURE
    done
    cargo_tests 'the program with all features' -p fairspan --all-features --bin fairspan --test sim_cli
    # Seeds that nobody has seen yet; each that breaks a promise says how to run it again. A million takes 30 to 75 seconds on two
    # cores, so this takes five to thirteen minutes; 1000 million, a night and more.
    export FAIRSPAN_FAULTS="${FAIRSPAN_FAULTS:-10000000}" FAIRSPAN_FIRST_SEED="${FAIRSPAN_FIRST_SEED:-$began}"
    FAIRSPAN_TEST_LIMIT=1800
    cargo_tests "whole daemons in memory, $FAIRSPAN_FAULTS faults from seed $FAIRSPAN_FIRST_SEED" \
        -p fairspan-live --lib simulated::no_fault
    unset FAIRSPAN_FAULTS FAIRSPAN_FIRST_SEED
    # A thousand million frames take some ten minutes of one core.
    export FAIRSPAN_ARQ_FRAMES="${FAIRSPAN_ARQ_FRAMES:-1000000000}"
    FAIRSPAN_TEST_LIMIT=2400
    cargo_tests "EFL-MP's ends, $FAIRSPAN_ARQ_FRAMES frames with faults" --profile demo -p fairspan-core --test suite arq_faults
    unset FAIRSPAN_ARQ_FRAMES
    FAIRSPAN_TEST_LIMIT=2400
    ignored='--ignored regress'
    cargo_tests 'every kept scenario to its end' --profile demo -p fairspan-sim --test suite
    ignored=
    step 'the program of `make demo`'
    if within 1200 cargo build --profile demo -p fairspan; then
        pass
        # Measurements, one after the other. Not after the deadline of the test programs, but the last bound holds.
        step 'real programs in namespaces (tests/netns), long'
        export FAIRSPAN_PROGRAM="$(pwd)/target/demo/fairspan" FAIRSPAN_TEST_DEADLINE="$last"
        scripts
        start 1 long
        # shellcheck disable=SC2086 # numbers of processes
        wait $lanes
        lanes=
        ended
    else
        fail 'the build of `make demo`'
    fi
fi

kill $guard 2>/dev/null
printf '\nsummary (after %s s)%s%s%s\n' "$(($(date +%s) - began))" "$failures" "$beside" "$skips"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
