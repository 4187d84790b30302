#!/bin/sh
# The Debian package, installed in a Debian system whose first process is systemd: the units do what docs/install.md says of them.
# The system is a container with processes, files, control groups and network of its own. FAIRSPAN_PACKAGE names the package, and FAIRSPAN_SYSTEM
# an archive of the system; scripts/systemd.sh makes both, and runs this too.
#
#   site  eth1 198.51.100.10 ---- 198.51.100.1 eth1  hub
. tests/netns/lib.sh
package=${FAIRSPAN_PACKAGE:-}
system=${FAIRSPAN_SYSTEM:-}
[ -n "$package" ] && [ -n "$system" ] \
    || skip 'no package and no system are named by FAIRSPAN_PACKAGE and FAIRSPAN_SYSTEM; scripts/systemd.sh makes both, and tries them so'
command -v systemd-nspawn >/dev/null || skip 'no systemd-nspawn (Debian package systemd-container)'

host site
host hub
cable site eth1 198.51.100.10/24 hub eth1 198.51.100.1/24
root=$work/root
mkdir "$root"
tar -C "$root" -xf "$system"
cp "$package" "$root/fairspan.deb"
umask 077

# Its log, for whoever looks why something is wrong.
booted() {
    systemd-nspawn --quiet --directory="$root" --machine="fs-$$" --register=no --keep-unit --network-namespace-path="/run/netns/fs-$$-site" \
        --bind=/dev/net/tun --capability=CAP_NET_ADMIN,CAP_NET_RAW --console=pipe --boot </dev/null >>"$work/boot.log" 2>&1 &
    machine=$!
    pids="$pids $machine"
    eventually came_up || wrong 'systemd does not come up'
    [ "$state" = running ] || { inside journalctl --quiet --no-pager --boot >"$work/system.log"; wrong "the system is $state: $(inside systemctl --failed --plain --no-legend)"; }
}
came_up() {
    first=$(pgrep -P "$machine") && [ "$(cat "/proc/$first/comm")" = systemd ] || return 1
    state=$(inside systemctl is-system-running 2>&1) || true
    case $state in running | degraded) ;; *) return 1 ;; esac
}
# Ends as a machine that is switched off does.
switched_off() {
    kill "$machine"
    wait "$machine" || true
}
inside() {
    nsenter --target "$first" --all -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
unit=fairspan@fs0
shows() { inside systemctl show --value --property "$1" "${2:-$unit}"; }
told() { inside journalctl --quiet --no-pager --unit "$unit" >"$work/unit.log" 2>&1; }
reached() { inside ping -q -c 1 -W 1 10.77.0.1; }
here() { inside ip link show fs0 >/dev/null 2>&1; }
fails() { told; wrong "$1"; }

booted
inside dpkg --install /fairspan.deb >"$work/dpkg.log" 2>&1 || wrong 'the package cannot be installed'
[ -z "$(inside systemctl list-units --all --plain --no-legend 'fairspan*')" ] || wrong 'the package started something'

# The key is a credential, as docs/install.md has it.
for end in site hub; do
    "$fairspan" keygen >"$work/$end.key"
    "$fairspan" pubkey <"$work/$end.key" >"$work/$end.pub"
done
inside mkdir -p /etc/credstore.encrypted "/etc/systemd/system/$unit.service.d"
inside systemd-creds encrypt --name=private.key - /etc/credstore.encrypted/fairspan.key <"$work/site.key" >"$work/creds.log" 2>&1 \
    || wrong 'the key cannot be made a credential'
printf '[Service]\nLoadCredentialEncrypted=private.key:/etc/credstore.encrypted/fairspan.key\n' >"$root/etc/systemd/system/$unit.service.d/key.conf"
inside systemctl daemon-reload
cat >"$root/etc/fairspan/fs0.toml" <<END
[interface]
name = "fs0"
address = ["10.77.0.2/24"]
private_key_file = "/run/credentials/$unit.service/private.key"
web = "127.0.0.1:9320"
metrics = "127.0.0.1:9321"
lock = true

[[peer]]
name = "hub"
public_key = "$(cat "$work/hub.pub")"
allowed_ips = ["10.77.0.1/32"]

[[peer.channel]]
name = "dsl"
kind = "udp"
device = "eth1"
endpoint = "198.51.100.1:51900"
END
on hub mkdir -p /etc/fairspan
cat >"$work/hub.toml" <<END
[interface]
name = "fs0"
address = ["10.77.0.1/24"]
private_key_file = "$work/hub.key"
listen_port = 51900

[[peer]]
name = "site"
public_key = "$(cat "$work/site.pub")"
allowed_ips = ["10.77.0.2/32"]
END
on hub "$fairspan" up "$work/hub.toml" >"$work/hub.log" 2>&1 &
pids="$pids $!"

# Whoever waits for the start waits until the interface is up.
inside systemctl start "$unit" || fails 'systemctl start fails'
here || fails 'systemctl start returned before the interface was there'
[ "$(shows Type) $(shows ActiveState)" = 'notify active' ] || fails "the unit is $(shows Type) $(shows ActiveState)"
eventually reached || fails 'no ping through the bond'

# With SIGHUP or without, what may change is taken over, and what may not is told.
process=$(shows MainPID)
sed -i 's/^name = "dsl"/name = "fibre"/' "$root/etc/fairspan/fs0.toml"
inside systemctl reload "$unit" || fails 'systemctl reload fails'
inside fairspan status fs0 | grep -q fibre || fails 'a reload changed nothing'
sed -i 's/^lock = true/lock = true\nfwmark = 7/' "$root/etc/fairspan/fs0.toml"
if inside systemctl reload "$unit" >"$work/reload.log" 2>&1; then fails 'systemctl reload says nothing of what needs a restart'; fi
sed -i '/^fwmark/d' "$root/etc/fairspan/fs0.toml"
[ "$(shows MainPID)" = "$process" ] && [ "$(shows ActiveState)" = active ] || fails 'a reload ended the daemon'

# It is told alive all the time: one that stands still is killed and started again.
[ "$(shows WatchdogUSec)" = 30s ] || fails "the watchdog waits $(shows WatchdogUSec)"
alive=$(shows WatchdogTimestampMonotonic)
answered() { [ "$(shows WatchdogTimestampMonotonic)" != "$alive" ]; }
eventually answered || fails 'the watchdog hears nothing'
started_again() { [ "$(shows MainPID)" != "$process" ] && [ "$(shows ActiveState)" = active ]; }
inside sh -c "kill -s STOP $process"
eventually started_again || fails 'a daemon that stands still is not started again'
told
grep -q 'Watchdog timeout' "$work/unit.log" || fails 'a daemon that stands still was not ended by the watchdog'
eventually reached || fails 'no ping after the watchdog'

# One that dies is started again.
process=$(shows MainPID)
inside sh -c "kill -s KILL $process"
eventually started_again || fails 'a daemon that was killed is not started again'
eventually reached || fails 'no ping after a kill'
told
if grep -q 'was refused' "$work/unit.log"; then fails 'the daemon was refused a system call'; fi

# A wrong file is not tried again and again.
inside sh -c "sed 's/^address.*/address = 7/' /etc/fairspan/fs0.toml >/etc/fairspan/fs1.toml"
if inside systemctl start fairspan@fs1 >"$work/start.log" 2>&1; then fails 'a wrong file starts'; fi
[ "$(shows ActiveState fairspan@fs1) $(shows NRestarts fairspan@fs1) $(shows ExecMainStatus fairspan@fs1)" = 'failed 0 2' ] \
    || fails "a wrong file: $(shows ActiveState fairspan@fs1), started again $(shows NRestarts fairspan@fs1) times, status $(shows ExecMainStatus fairspan@fs1)"
inside systemctl reset-failed

# It ends, and all goes but the lock; what other daemons share stays.
inside systemctl stop "$unit" || fails 'systemctl stop fails'
if here; then fails 'the interface stayed'; fi
[ "$(shows Result) $(shows ExecMainStatus)" = 'success 0' ] || fails "the daemon ended with $(shows Result) $(shows ExecMainStatus)"
inside test -d /run/fairspan || fails 'the folder of all daemons went with one'
locked() { inside nft list table inet fairspan-fs0 >/dev/null 2>&1; }
locked || fails 'the lock went with the daemon'

# At boot the lock is there before any network, and the daemon by itself.
inside systemctl enable "$unit" fairspan-lock@fs0 >"$work/enable.log" 2>&1 || wrong 'the units cannot be enabled'
switched_off
booted
eventually here || fails 'nothing is started at boot'
eventually reached || fails 'no ping after a boot'
[ "$(shows ActiveState fairspan-lock@fs0)" = active ] && locked || fails 'nothing is locked at boot'
moment() { shows "$1" "$2"; }
[ "$(moment ActiveEnterTimestampMonotonic fairspan-lock@fs0)" -le "$(moment ActiveEnterTimestampMonotonic network-pre.target)" ] \
    || fails 'the lock comes after the network'

# How far the unit is left open, by systemd's own measure.
exposure=$(inside systemd-analyze security --no-pager "$unit" | sed -n 's/.*exposure level for.*: \([0-9.]*\) .*/\1/p')
[ -n "$exposure" ] || wrong 'systemd-analyze says nothing of the unit'
inside systemd-analyze security --threshold=40 --no-pager "$unit" >"$work/exposure.log" 2>&1 \
    || fails "systemd-analyze finds an exposure of $exposure"

# The package goes, and with it what runs of it; files of the administrator stay.
inside dpkg --remove fairspan >"$work/dpkg.log" 2>&1 || wrong 'the package cannot be removed'
if here; then wrong 'a daemon survived its package'; fi
inside dpkg --purge fairspan >"$work/dpkg.log" 2>&1 || wrong 'the package cannot be purged'
inside test -e /etc/fairspan/fs0.toml || wrong 'the configuration went with the package'
if inside test -e /var/lib/fairspan; then wrong 'what daemons kept stayed after a purge'; fi
echo "started, reloaded, watched, started again, stopped and booted by $(inside systemctl --version | sed -n 's/^\(systemd [0-9]*\).*/\1/p'); exposure $exposure"
