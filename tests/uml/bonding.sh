#!/bin/sh
# Every packet takes the link that a Linux 6.1 bond gives it, for frames of any seed.
#
#   tests/uml/bonding.sh [SEED [FRAMES [FILE]]]
#
# frames.py makes frames of many kinds, whole, cut and changed. linux.uml (Debian's user-mode-linux: the kernel as a
# process) sends them through bonds of all modes and hash policies over TAP interfaces, and through bonds whose links fail and
# come back (bonding.py). The same frames and failures then go through the selectors (crates/core/tests/suite/select_linux.rs).
# FILE, if given, keeps the run; crates/core/tests/suite/select/linux-6.1.json is that of seed 1 and 240 frames.
# Exits 77 where it cannot run. Takes about two minutes, most of it balance-tlb's rounds of ten seconds.
set -eu
cd "$(dirname "$0")/../.."
seed=${1:-$(date +%s)} frames=${2:-3000} file=${3:-}
skip() { echo "skipped: $1"; exit 77; }
for tool in linux.uml python3 ip cc cargo; do
    command -v "$tool" >/dev/null || skip "no $tool here"
done
[ -d /usr/lib/uml/modules ] || skip 'no kernel modules in /usr/lib/uml/modules'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
python3 tests/uml/frames.py "$seed" "$frames" >"$work/run.json"
cc -O2 -shared -fPIC -o "$work/xstate.so" tests/uml/xstate.c
cp tests/uml/bonding.py "$work"
python=$(python3 -c 'import sys; print(sys.executable)')
cat >"$work/init" <<EOF
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
"$python" "$work/bonding.py" "$work/run.json" >"$work/log" 2>&1
echo o >/proc/sysrq-trigger
sleep 5
EOF
chmod +x "$work/init"
echo "seed $seed, $frames frames"
LD_PRELOAD="$work/xstate.so" timeout -k 5 580 linux.uml mem=160M rootfstype=hostfs rootflags=/ rw init="$work/init" con=null \
    quiet </dev/null >"$work/console" 2>&1 || { tail -n 20 "$work/console"; exit 1; }
cat "$work/log"
grep -q '"results"' "$work/run.json" || { tail -n 20 "$work/console"; exit 1; }
if [ -n "$file" ]; then cp "$work/run.json" "$file"; fi
FAIRSPAN_LINUX_RUN="$work/run.json" cargo test --quiet -p fairspan-core --test suite select_linux -- --ignored --nocapture
