#!/bin/sh
# The page of a daemon (docs/web.md) in a real browser: it loads, moves, shows a link that fails, knows what was before a restart,
# and shows what others named as text. What it shows is looked at at 360 pixels too, with the keyboard, and without JavaScript.
#
#   site  dsl 192.0.2.2    ----    192.0.2.1 dsl  hub
#         lte 198.51.100.2 ---- 198.51.100.1 lte
#   the browser runs on site
#
#   tests/netns/web.sh          what holds on any machine
#   tests/netns/web.sh long     also: a link that fails is seen within 2 s
# FAIRSPAN_SHOTS names a folder for pictures of the page, FAIRSPAN_AXE the file axe.min.js of axe-core (`npm pack axe-core`), which then
# looks at the page too.
. tests/netns/lib.sh
command -v python3 >/dev/null || skip 'no python3'
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || command -v chrome) \
    || skip 'no browser: install chromium'

host site
host hub
cable site dsl 192.0.2.2/24 hub dsl 192.0.2.1/24
cable site lte 198.51.100.2/24 hub lte 198.51.100.1/24
for end in site hub; do
    "$fairspan" keygen >"$work/$end.key"
    chmod 600 "$work/$end.key"
    "$fairspan" pubkey <"$work/$end.key" >"$work/$end.pub"
    mkdir -m 700 "$work/$end"
done
# Names as an attacker would choose them.
cat >"$work/site.toml" <<END
[interface]
name = "fs0"
address = ["10.77.0.2/24"]
private_key_file = "$work/site.key"
state_dir = "$work/site"
web = "127.0.0.1:9320"

[[peer]]
name = "<img src=x onerror=document.title='owned'>"
public_key = "$(cat "$work/hub.pub")"
allowed_ips = ["10.77.0.1/32"]

[[peer.channel]]
name = "dsl"
kind = "udp"
device = "dsl"
endpoint = "192.0.2.1:51900"
rate = "50Mbit"

[[peer.channel]]
name = "lte</script><script>document.title='owned'</script>"
kind = "udp"
device = "lte"
endpoint = "198.51.100.1:51900"
rate = "20Mbit"
END
cat >"$work/hub.toml" <<END
[interface]
name = "fs0"
address = ["10.77.0.1/24"]
private_key_file = "$work/hub.key"
listen_port = 51900
state_dir = "$work/hub"
web = "192.0.2.1:9320"
web_password = "correct horse"
web_control = true

[[peer]]
name = "site"
public_key = "$(cat "$work/site.pub")"
allowed_ips = ["10.77.0.2/32"]
END
on hub "$fairspan" up "$work/hub.toml" >"$work/hub.log" 2>&1 &
pids="$pids $!"
chmod 600 "$work/hub.toml"
# Begins the site's daemon, anew if there is one.
cat >"$work/restart" <<END
#!/bin/sh
[ "\$1" = there ] || exec nsenter --target $pid_site --mount --net -- "$work/restart" there
[ ! -e "$work/site.pid" ] || { kill -TERM "\$(cat "$work/site.pid")"; while kill -0 "\$(cat "$work/site.pid")" 2>/dev/null; do sleep 0.1; done; }
"$fairspan" up "$work/site.toml" >>"$work/site.log" 2>&1 3>&- 4>&- &
echo \$! >"$work/site.pid"
END
chmod +x "$work/restart"
"$work/restart"
up() { on site "$fairspan" status fs0 --json | grep -o '"number":[0-9]*,[^}]*"state":"up"' | wc -l; }
both_up() { [ "$(up)" = 2 ]; }
eventually both_up || wrong "not both channels came up: $(on site "$fairspan" status fs0 --json)"
on site ping -q -i 0.02 -s 1200 10.77.0.1 >/dev/null 2>&1 &
pids="$pids $!"
documented site

shots=${FAIRSPAN_SHOTS:-$work/shots}
mkdir -p "$shots"
# The browser needs the /etc of this machine, for fonts.
nsenter --target "$pid_site" --net -- env HOME="$work" python3 tests/netns/web.py "$browser" "$work/restart" "$shots" "${1:-}" >"$work/browser.log" 2>&1 \
    || wrong "$(cat "$work/browser.log")"
cat "$work/browser.log"
kill -TERM "$(cat "$work/site.pid")"
