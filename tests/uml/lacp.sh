#!/bin/sh
# `fairspan up` with policy 802.3ad and the bonding driver of Linux 6.1 agree by LACP, carry IPv4, VLANs and TCP both ways, and
# do without a link that is pulled, at the slow and the fast rate.
#
#   tests/uml/lacp.sh
#
# Both run inside linux.uml (Debian's user-mode-linux: the kernel as a process), joined by two veth pairs; lacp.py says
# what has to hold. FAIRSPAN names another program than target/release/fairspan. Exits 77 where it cannot run. Takes about a
# minute.
set -eu
cd "$(dirname "$0")/../.."
fairspan=$(realpath "${FAIRSPAN:-target/release/fairspan}")
skip() { echo "skipped: $1"; exit 77; }
for tool in linux.uml python3 ip ping cc; do
    command -v "$tool" >/dev/null || skip "no $tool here"
done
[ -d /usr/lib/uml/modules ] || skip 'no kernel modules in /usr/lib/uml/modules'
[ -x "$fairspan" ] || skip "no $fairspan: run \`cargo build --release\` first"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cc -O2 -shared -fPIC -o "$work/xstate.so" tests/uml/xstate.c
cp tests/uml/bonding.py tests/uml/lacp.py "$work"
python=$(python3 -c 'import sys; print(sys.executable)')
cat >"$work/init" <<END
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
"$python" "$work/lacp.py" "$fairspan" >"$work/log" 2>&1 && echo holds >>"$work/log"
echo o >/proc/sysrq-trigger
sleep 5
END
chmod +x "$work/init"
LD_PRELOAD="$work/xstate.so" timeout -k 5 280 linux.uml mem=192M rootfstype=hostfs rootflags=/ rw init="$work/init" con=null \
    quiet </dev/null >"$work/console" 2>&1 || { tail -n 20 "$work/console"; exit 1; }
cat "$work/log"
tail -n 1 "$work/log" | grep -q '^holds$'
