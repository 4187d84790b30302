#!/bin/sh
# Two containers of the image, each with a namespace as its host's network, a folder with the configuration and the privileges that
# docs/install.md names, form a bond. What the image itself runs is what is run.
# FAIRSPAN_IMAGE names the image's archive, which scripts/container.sh makes; that runs this too.
#
#   site  eth1 198.51.100.10 ---- 198.51.100.1 eth1  hub
. tests/netns/lib.sh
image=${FAIRSPAN_IMAGE:-}
[ -n "$image" ] || skip 'no image is named by FAIRSPAN_IMAGE; scripts/container.sh makes one, and tries it so'
command -v buildah >/dev/null || skip 'no buildah (Debian package buildah)'

containers() { buildah --storage-driver vfs --root "$work/storage" --runroot "$work/containers" "$@"; }
containers pull --quiet "docker-archive:$image" >"$work/image" 2>"$work/pull.log" || wrong 'the archive cannot be read'
says() { containers inspect --type image --format "{{$1}}" "$(cat "$work/image")"; }
[ "$(says .OCIv1.Config.Entrypoint)" = '[/usr/bin/fairspan]' ] || wrong "the image runs $(says .OCIv1.Config.Entrypoint)"
command=$(says .OCIv1.Config.Cmd | tr -d '[]')
[ "$command" = 'up /etc/fairspan/fs0.toml' ] || wrong "the image runs it with $command"

host site
host hub
cable site eth1 198.51.100.10/24 hub eth1 198.51.100.1/24
for end in site hub; do
    mkdir -p "$work/$end"
    # buildah asks who it is.
    # shellcheck disable=SC2016 # expanded inside
    on "$end" sh -c 'echo "root:x:0:0::/:/bin/sh" >/etc/passwd && echo "root:x:0:" >/etc/group'
    (umask 077 && "$fairspan" keygen >"$work/$end/private.key")
    "$fairspan" pubkey <"$work/$end/private.key" >"$work/$end.pub"
    containers from --name "$end" "$(cat "$work/image")" >/dev/null || wrong 'no container of the image'
done
cat >"$work/site/fs0.toml" <<EOF
[interface]
name = "fs0"
address = ["10.77.0.2/24"]
private_key_file = "/etc/fairspan/private.key"

[[peer]]
name = "hub"
public_key = "$(cat "$work/hub.pub")"
allowed_ips = ["10.77.0.1/32"]

[[peer.channel]]
name = "dsl"
kind = "udp"
device = "eth1"
endpoint = "198.51.100.1:51900"
EOF
cat >"$work/hub/fs0.toml" <<EOF
[interface]
name = "fs0"
address = ["10.77.0.1/24"]
private_key_file = "/etc/fairspan/private.key"
listen_port = 51900

[[peer]]
name = "site"
public_key = "$(cat "$work/site.pub")"
allowed_ips = ["10.77.0.2/32"]
EOF
run() { # host, arguments of the program
    where=$1
    shift
    on "$where" buildah --storage-driver vfs --root "$work/storage" --runroot "$work/containers" run --isolation chroot --network host \
        --cap-add CAP_NET_ADMIN,CAP_NET_RAW --volume /dev/net/tun:/dev/net/tun --volume "$work/$where:/etc/fairspan" "$where" /usr/bin/fairspan "$@"
}
for end in hub site; do
    # shellcheck disable=SC2086 # words
    run "$end" $command >"$work/$end.log" 2>&1 &
    pids="$pids $!"
done
reached() { on site ping -q -c 1 -W 1 10.77.0.1; }
eventually reached || wrong 'no ping through the bond'
if grep -q 'was refused' "$work/site.log" "$work/hub.log"; then wrong 'a daemon was refused a system call'; fi
for end in hub site; do end_daemons "$end"; done
gone() { ! on site ip link show fs0 && ! on hub ip link show fs0; }
eventually gone || wrong 'an interface stayed after SIGTERM'
echo "$(wc -c <"$image" | awk '{ printf "%.1f", $1 / 1e6 }') MB of image: two containers form a bond"
