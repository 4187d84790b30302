#!/bin/sh
# The package for OpenWrt, installed as opkg does: unpacked into a folder that has BusyBox and nothing else, and its scripts run. The service
# starts a daemon at two such routers, they form a bond, and take the package away again.
# rc.common, procd and uci are stood in for. FAIRSPAN_PACKAGE names the package, which scripts/openwrt.sh makes; that runs this too.
#
#   site  wan   198.51.100.10 ---- 198.51.100.1 eth1  hub
#         wwan0  192.0.2.10   ----  192.0.2.1 eth2
. tests/netns/lib.sh
package=${FAIRSPAN_PACKAGE:-}
[ -n "$package" ] || skip 'no package is named by FAIRSPAN_PACKAGE; scripts/openwrt.sh makes one, and tries it so'
box=$(command -v busybox) || skip 'no BusyBox (Debian package busybox-static)'
! readelf --program-headers --wide "$box" | grep -q INTERP || skip 'BusyBox needs libraries (Debian package busybox-static)'

site_and_hub wan

# A router as it is before: BusyBox, and what stands in for the rest of the system.
inside() { # host, command
    end=$1
    shift
    on "$end" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$work/$end" "$@"
}
for end in site hub; do
    root=$work/$end
    for folder in bin sbin usr/bin usr/sbin usr/libexec etc/config etc/init.d proc dev/net var/run var/log var/lock tmp lib root; do mkdir -p "$root/$folder"; done
    cp "$box" "$root/bin/busybox"
    on "$end" chroot "$root" /bin/busybox --install -s /bin
    : >"$root/dev/net/tun"
    : >"$root/dev/null"
    on "$end" mount --bind /dev/net/tun "$root/dev/net/tun"
    on "$end" mount --bind /dev/null "$root/dev/null"
    on "$end" mount -t proc proc "$root/proc"
    # `uci export` prints sections and options as they stand in the file, and no comments.
    cat >"$root/sbin/uci" <<'END'
#!/bin/sh
[ "$*" = 'export fairspan' ] || exit 1
printf 'package fairspan\n\n'
sed '/^#/d' /etc/config/fairspan
END
    # What rc.common and procd bring, as far as the service asks for it. procd leaves a daemon alone that has the same command.
    cat >"$root/etc/rc.common" <<'END'
#!/bin/sh
script=$1
action=$2
config_load() { :; }
config_foreach() {
    for section in $(sed -n "s/^config $2 '\(.*\)'/\1/p" /etc/config/fairspan); do "$1" "$section"; done
}
config_get() {
    eval "$1=\$(awk -v want=\"$2\" -v key=\"$3\" -v other=\"${4:-}\" '/^config/ { gsub(/\x27/, \"\"); here = \$3 == want }
        here && \$1 == \"option\" && \$2 == key { gsub(/\x27/, \"\"); found = \$3 } END { print found == \"\" ? other : found }' /etc/config/fairspan)"
}
config_get_bool() { config_get "$@"; }
logger() { echo "logged: $*"; }
procd_open_instance() { instance=$1 command= environment=; }
procd_set_param() {
    case $1 in
        command) shift; command=$* ;;
        env) shift; environment=$* ;;
    esac
}
procd_close_instance() {
    [ "$(cat "/var/run/$instance.command" 2>/dev/null)" != "$command" ] || return 0
    echo "$command" >"/var/run/$instance.command"
    env $environment $command >>"/var/log/$instance.log" 2>&1 </dev/null &
    echo $! >"/var/run/$instance.pid"
}
procd_add_reload_trigger() { :; }
start() { start_service; }
stop() {
    for file in /var/run/*.pid; do
        [ -e "$file" ] || continue
        kill "$(cat "$file")"
        rm "$file" "${file%.pid}.command"
    done
}
reload() { reload_service; }
enable() { ln -sf "../init.d/$(basename "$script")" "/etc/rc.d/S$START$(basename "$script")"; }
disable() { rm -f /etc/rc.d/S??"$(basename "$script")"; }
mkdir -p /etc/rc.d
. "$script"
"$action"
END
    chmod +x "$root/sbin/uci" "$root/etc/rc.common"

    # opkg: its parts, its files, its script.
    mkdir "$root/tmp/opkg"
    cp "$package" "$root/tmp/opkg/package.ipk"
    inside "$end" sh -ec 'cd /tmp/opkg && tar -xzf package.ipk && mkdir control && tar -xzf control.tar.gz -C control && tar -xzf data.tar.gz -C / && cat debian-binary' \
        >"$work/opkg.log" 2>&1 || wrong "$end: the package cannot be unpacked"
    [ "$(cat "$work/opkg.log")" = 2.0 ] || wrong "$end: the package says it is $(cat "$work/opkg.log")"
    for file in $(cat "$root/tmp/opkg/control/conffiles"); do [ -e "$root$file" ] || wrong "$end: $file is not there"; done
    grep -q '^Depends: kmod-tun$' "$root/tmp/opkg/control/control" || wrong "the package does not ask for TUN devices"
    cmp "$root/usr/bin/fairspan" "$fairspan" || wrong 'the package has another program'
    inside "$end" sh /tmp/opkg/control/postinst configure >"$work/opkg.log" 2>&1 || wrong "$end: postinst fails"
    [ -x "$root/etc/rc.d/S95fairspan" ] || wrong "$end: the service does not start at boot"
    # Nothing is enabled, so nothing is started.
    inside "$end" /etc/init.d/fairspan start >"$work/$end-start.log" 2>&1 || wrong "$end: the service fails where nothing is enabled"
    ! ls "$root"/var/run/*.pid >/dev/null 2>&1 || wrong "$end: something was started that was not enabled"
    inside "$end" mkdir -p /etc/fairspan
    inside "$end" sh -c 'umask 077 && fairspan keygen >/etc/fairspan/private.key' || wrong "$end: no key"
    inside "$end" sh -c 'fairspan pubkey </etc/fairspan/private.key' >"$work/$end.pub" || wrong "$end: no public key"
done
cat >"$work/hub/etc/config/fairspan" <<EOF
config interface 'fs0'
	list address '10.77.0.1/24'
	option private_key_file '/etc/fairspan/private.key'
	option listen_port '51900'

config peer 'site'
	option interface 'fs0'
	option public_key '$(cat "$work/site.pub")'
	list allowed_ips '10.77.0.2/32'
EOF
# The settings that came with it, switched on.
sed -i -e "s|enabled '0'|enabled '1'|" -e "s|public_key '.*'|public_key '$(cat "$work/hub.pub")'|" "$work/site/etc/config/fairspan"
for end in hub site; do
    inside "$end" /etc/init.d/fairspan check >"$work/$end-check.log" 2>&1 || wrong "$end: the configuration is found wrong"
    inside "$end" /etc/init.d/fairspan start >"$work/$end-start.log" 2>&1 || wrong "$end: the service does not start"
    cp "$work/$end/var/run/fs0.pid" "$work/$end.pid" || wrong "$end: no daemon was started"
    ln -s "$work/$end/var/log/fs0.log" "$work/$end.log"
done
up() { inside site fairspan status fs0 --json 2>/dev/null | grep -o '"number":[0-9]*,[^}]*"state":"up"' | wc -l; }
both_up() { [ "$(up)" = 2 ]; }
eventually both_up || wrong "not both channels came up: $(inside site fairspan status fs0 --json)"
on site ping -q -c 3 -i 0.2 10.77.0.1 >/dev/null || wrong 'no ping through the bond'
if grep -q 'was refused' "$work/site.log" "$work/hub.log"; then wrong 'a daemon was refused a system call'; fi

# A channel less: the daemon takes it over.
awk '/^config channel .lte/ { gone = 1 } !gone' "$work/site/etc/config/fairspan" >"$work/new" && cat "$work/new" >"$work/site/etc/config/fairspan"
inside site /etc/init.d/fairspan reload >"$work/reload.log" 2>&1 || wrong 'the service does not reload'
one_left() { [ "$(inside site fairspan status fs0 --json | grep -o '"number":[0-9]*,[^}]*"state":"' | wc -l)" = 1 ]; }
eventually one_left || wrong 'the channel is still there'
cmp "$work/site.pid" "$work/site/var/run/fs0.pid" || wrong 'the daemon was started anew'

# An upgrade leaves them alone. Taken away, they end, and nothing starts at boot.
for end in site hub; do
    inside "$end" sh /tmp/opkg/control/prerm upgrade 9.9 || wrong "$end: prerm fails"
    [ -e "$work/$end/var/run/fs0.pid" ] || wrong "$end: an upgrade ends the daemon"
    inside "$end" sh /tmp/opkg/control/prerm remove || wrong "$end: prerm fails"
    [ ! -e "$work/$end/etc/rc.d/S95fairspan" ] || wrong "$end: the service would start at boot"
done
gone() { ! on site ip link show fs0 && ! on hub ip link show fs0; }
eventually gone || wrong 'an interface stayed'
echo "$(wc -c <"$package" | awk '{ printf "%.1f", $1 / 1e6 }') MB of package: installed with BusyBox alone, two daemons up, changed, taken away"
