#!/bin/sh
# What a router with OpenWrt gets: settings in /etc/config/fairspan become a configuration, and the service starts the daemons of it.
# rc.common, procd and uci are stood in for; awk is BusyBox's where that is installed.
#
#   site  wan   198.51.100.10 ---- 198.51.100.1 eth1  hub
#         wwan0  192.0.2.10   ----  192.0.2.1 eth2
. tests/netns/lib.sh

openwrt=$(pwd)/packaging/openwrt
mkdir "$work/bin"
# `uci export` prints sections and options as they stand in the file, and no comments.
cat >"$work/bin/uci" <<'EOF'
#!/bin/sh
[ "$*" = 'export fairspan' ] || exit 1
printf 'package fairspan\n\n'
sed '/^#/d' "$UCI_FILE"
EOF
chmod +x "$work/bin/uci"
if command -v busybox >/dev/null 2>&1 && busybox awk 'BEGIN { exit }' && busybox ash -c :; then
    ln -s "$(command -v busybox)" "$work/bin/awk"
    shell='busybox ash'
else
    echo 'skipped: BusyBox (Debian package busybox); this system has its own awk and sh'
    # Not by a link in /etc, of which hosts here have their own.
    ln -s "$(readlink -f "$(command -v awk)")" "$work/bin/awk"
    shell='sh'
fi
made() { # file, interface
    # shellcheck disable=SC2086 # words
    UCI_FILE=$1 PATH="$work/bin:$PATH" $shell "$openwrt/fairspan-uci" "$2"
}

# Every setting of the documents becomes what stands there as an example.
awk -F '|' -v out="$work/settings" -v want="$work/wanted" -v want_last="$work/wanted-last" '
    /^#/ { kind = "" }
    /^## `\[interface\]`/ { kind = "interface" }
    /^## `\[\[peer\]\]`/ { kind = "peer" }
    /^## `\[\[peer\.channel\]\]`/ { kind = "channel" }
    /^## `\[\[peer\.class\]\]`/ { kind = "class" }
    /^## `\[\[domains\]\]`/ { kind = "domains" }
    kind == "" || !/^\| `[a-z_]+` \| `/ { next }
    {
        key = $2; example = $3
        gsub(/^ *`|` *$/, "", key); gsub(/^ *`|` *$/, "", example)
        owner = kind == "channel" || kind == "class" ? "peer" : "interface"
        if (!(kind in began)) {
            printf "config %s \047%s\047\n", kind, kind >out
            if (kind != "interface") printf "\toption %s \047%s\047\n", owner, owner >out
        }
        began[kind] = 1
        line = example
        # What stands in a list is text, also a number.
        if (example ~ /^\[/) { gsub(/"/, "", example); gsub(/[^][, ]+/, "\"&\"", example) }
        # Names come after all peers.
        print key " = " example >(kind == "domains" ? want_last : want)
        if (line ~ /^\[/) {
            gsub(/^\[|\]$/, "", line)
            count = split(line, items, /, */)
            for (i = 1; i <= count; i++) { gsub(/"/, "", items[i]); printf "\tlist %s \047%s\047\n", key, items[i] >out }
        } else {
            gsub(/"/, "", line)
            if (line == "true") line = "1"
            if (line == "false") line = "0"
            printf "\toption %s \047%s\047\n", key, line >out
        }
    }' docs/settings.md
cat "$work/wanted-last" >>"$work/wanted"
[ "$(wc -l <"$work/wanted")" -gt 70 ] || wrong "only $(wc -l <"$work/wanted") settings are found in the document"
# The name of the interface is that of its section, unless it says another.
made "$work/settings" interface >"$work/toml" || wrong 'the settings of the document are refused'
grep -v -e '^\[' -e '^$' "$work/toml" >"$work/got"
diff "$work/wanted" "$work/got" || wrong 'these settings become something else'
[ "$(grep -c '^\[' "$work/toml")" = 5 ] || wrong "sections: $(grep '^\[' "$work/toml")"

# What is text stays text, whatever is in it.
cat >"$work/hostile" <<'EOF'
config interface 'fs0'
	option private_key_file '/etc/a"b\c'\''$(touch HERE)`touch HERE`
x = "1'
EOF
made "$work/hostile" fs0 >"$work/toml" || wrong 'text with quotation marks is refused'
wanted=$(printf '%s' 'private_key_file = "/etc/a\"b\\c'\''$(touch HERE)`touch HERE`\u000Ax = \"1"')
[ "$(sed -n 3p "$work/toml")" = "$wanted" ] || wrong "text became $(cat "$work/toml")"
[ ! -e HERE ] || wrong 'text was run'
refused() { # what it says, lines
    printf '%b' "$2" >"$work/refused"
    if made "$work/refused" fs0 >/dev/null 2>"$work/refused.log"; then wrong "not refused: $2"; fi
    grep -q -F "$1" "$work/refused.log" || wrong "$2 is refused with: $(cat "$work/refused.log")"
}
refused 'no interface `fs0`' "config interface 'fs1'\n"
refused 'which is not there' "config interface 'fs0'\nconfig channel 'a'\n\toption peer 'b'\n"
refused '`mtu` stands twice' "config interface 'fs0'\n\toption mtu '1400'\n\toption mtu '1500'\n"
refused 'is no setting' "config interface 'fs0'\n\toption 'a = 1\nb' '1400'\n"
refused 'a quotation has no end' "config interface 'fs0'\n\toption mtu '1400\n"

# A hub and a site, started by the service. What procd would run is written down, and run here.
site_and_hub wan
for name in site hub; do
    "$fairspan" keygen >"$work/$name.key"
    on "$name" mkdir -p /etc/fairspan
    on "$name" install -m 600 "$work/$name.key" /etc/fairspan/private.key
done
cat >"$work/hub.uci" <<EOF
config interface 'fs0'
	list address '10.77.0.1/24'
	option private_key_file '/etc/fairspan/private.key'
	option listen_port '51900'

config peer 'site'
	option interface 'fs0'
	option public_key '$("$fairspan" pubkey <"$work/site.key")'
	list allowed_ips '10.77.0.2/32'
EOF
# The hub has a file of its own, and a section that names it.
made "$work/hub.uci" fs0 >"$work/own.toml" || wrong 'the settings of the hub are refused'
on hub install -m 600 "$work/own.toml" /etc/fairspan/own.toml
printf "config interface 'fs0'\n\toption config '/etc/fairspan/own.toml'\n" >"$work/hub.uci"
# The configuration that is installed, switched on.
key=$("$fairspan" pubkey <"$work/hub.key")
sed -e "s|enabled '0'|enabled '1'|" -e "s|public_key '.*'|public_key '$key'|" "$openwrt/fairspan.config" >"$work/site.uci"
# What rc.common brings, as far as the service asks for it.
cat >"$work/rc.common" <<'EOF'
config_load() { "$uci_to_shell" >"$work/$where.options"; }
config_foreach() { for section in $(sed -n "s/^config $2 //p" "$work/$where.options"); do "$1" "$section"; done; }
config_get() { eval "$1=\$(sed -n \"s/^$2 $3 //p\" \"\$work/\$where.options\")"; [ -n "$(eval "echo \$$1")" ] || eval "$1=\${4:-}"; }
config_get_bool() { config_get "$@"; }
procd_open_instance() { printf 'instance %s\n' "$1"; }
procd_set_param() { printf '%s\n' "$*"; }
procd_close_instance() { :; }
procd_add_reload_trigger() { :; }
logger() { echo "logged: $*"; }
start() { start_service; }
EOF
cat >"$work/bin/options" <<'EOF'
#!/bin/sh
sed -n -e "s/^config \([a-z]*\) '\(.*\)'/config \1 \2/p" "$UCI_FILE"
awk "/^config/ { gsub(/'/, \"\"); s = \$3 } /option/ { gsub(/'/, \"\"); print s, \$2, \$3 }" "$UCI_FILE"
EOF
chmod +x "$work/bin/options"
# The service is told where things lie that a router has in fixed places.
sed -e "s|/usr/bin/fairspan|$fairspan|" -e "s|/usr/libexec/fairspan-uci|$openwrt/fairspan-uci|" -e "s|/var/run/fairspan-uci|/run/fairspan-uci|" \
    "$openwrt/fairspan.init" >"$work/init"
service() { # host, function
    # shellcheck disable=SC2016 # expanded inside
    # shellcheck disable=SC2086 # words
    on "$1" env UCI_FILE="$work/$1.uci" PATH="$work/bin:$PATH" work="$work" where="$1" uci_to_shell="$work/bin/options" \
        $shell -c '. "$work/rc.common"; . "$work/init"; "$0"' "$2"
}
for name in hub site; do
    service "$name" check >"$work/$name-check.log" 2>&1 || wrong "$name: the configuration is found wrong"
    # One that is not wanted, and has no peer.
    printf "\nconfig interface 'fs1'\n\toption enabled '0'\n" >>"$work/$name.uci"
    if service "$name" check >/dev/null 2>&1; then wrong "$name: an interface without peers is found good"; fi
    service "$name" start_service >"$work/$name.procd" || wrong "$name: the service does not start"
    [ "$(grep -c '^instance' "$work/$name.procd")" = 1 ] || wrong "$name: $(cat "$work/$name.procd")"
    command=$(sed -n 's/^command //p' "$work/$name.procd")
    case $name:$command in
        hub:*' up /etc/fairspan/own.toml' | site:*' up /run/fairspan-uci/fs0.toml') ;;
        *) wrong "$name: the service runs $command" ;;
    esac
    environment=$(sed -n 's/^env //p' "$work/$name.procd")
    # shellcheck disable=SC2086 # words
    on "$name" env $environment $command >"$work/$name.log" 2>&1 &
    pids="$pids $!"
done
[ "$(on site stat -c %a /run/fairspan-uci/fs0.toml)" = 600 ] || wrong 'others may read what is made'
up() { on site "$fairspan" status fs0 --json 2>/dev/null | grep -o '"number":[0-9]*,[^}]*"state":"up"' | wc -l; }
both_up() { [ "$(up)" = 2 ]; }
eventually both_up || wrong "not both channels came up: $(on site "$fairspan" status fs0 --json)"
on site ping -q -c 3 -i 0.2 10.77.0.1 >/dev/null || wrong 'no ping through the bond'
on site test -d /etc/fairspan/state || wrong 'nothing is kept where a restart leaves it'

# A channel less: the daemon takes it over, and does not end.
before=$(on site "$fairspan" status fs0 --json | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
awk '/^config channel .lte/ { gone = 1 } !gone' "$work/site.uci" >"$work/new.uci" && mv "$work/new.uci" "$work/site.uci"
service site reload_service >"$work/reload.procd" 2>&1 || wrong "the service does not reload: $(cat "$work/reload.procd")"
one_left() { [ "$(on site "$fairspan" status fs0 --json | grep -o '"number":[0-9]*,[^}]*"state":"' | wc -l)" = 1 ]; }
eventually one_left || wrong "the channel is still there: $(cat "$work/reload.procd")"
[ "$before" = "$(on site "$fairspan" status fs0 --json | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')" ] || wrong 'the daemon was started anew'
on site ping -q -c 1 -W 5 10.77.0.1 >/dev/null || wrong 'no ping after the change'

# Names: sections with and without a name of their own, and one of another interface.
cat >>"$work/site.uci" <<'EOF'

config domains
	option interface 'fs0'
	list names 'example.com'
	list names 'example.net'

config domains 'office'
	option interface 'fs0'
	option peer 'hub'
	list names 'office.example'
	option keep '24h'

config domains
	option interface 'fs9'
	list names 'elsewhere.example'
EOF
service site check >"$work/names.log" 2>&1 || wrong 'the names are found wrong'
service site reload_service >>"$work/names.log" 2>&1 || wrong 'the service does not reload'
cat >"$work/names" <<'EOF'
name example.com, and those below it: through the bond, by peer hub
name example.net, and those below it: through the bond, by peer hub
name office.example, and those below it: through the bond, by peer hub
EOF
named() { on site "$fairspan" explain fs0 2>&1 | grep '^name ' | diff "$work/names" - >"$work/names-diff.log"; }
eventually named || wrong 'the daemon has other names'
[ "$before" = "$(on site "$fairspan" status fs0 --json | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')" ] || wrong 'the daemon was started anew'
echo "settings of UCI: $(wc -l <"$work/wanted") as documented; two daemons started, one changed twice"
