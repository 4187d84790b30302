#!/bin/sh
# Makes a container image that has the static program alone (scripts/static.sh, which is run where there is none). Needs buildah, and
# leaves none of its data behind.
#
#   [FAIRSPAN_ARCHITECTURE=aarch64] scripts/container.sh
#
# target/container/fairspan-VERSION-ARCHITECTURE.tar is what `podman load` and `docker load` read. It is
# read again and run: as root, two containers of it form a bond (tests/netns/container.sh), or, where it is for another architecture, an emulator runs
# the program of one. Exit status 77 where buildah is missing.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
. scripts/architecture.sh
command -v buildah >/dev/null 2>&1 || { echo 'container: skipped: no buildah (Debian package buildah)'; exit 77; }
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
case ${FAIRSPAN_PROFILE:-shipped} in shipped) static=target/static ;; *) static=target/static-$FAIRSPAN_PROFILE ;; esac
umask 022
[ -x "$static/$machine/fairspan" ] || scripts/static.sh

work=$(mktemp -d)
containers() { buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run" "$@"; }
trap 'containers rm --all >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
mkdir "$work/context"
cp "$static/$machine/fairspan" "$static/$machine/LIBRARIES.txt" packaging/container/Containerfile "$work/context"
containers build --quiet --platform "$platform" --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" --tag "fairspan:$version" \
    --file "$work/context/Containerfile" "$work/context" >/dev/null
archive=$(pwd)/target/container/fairspan-$version-$machine.tar
mkdir -p target/container
rm -f "$archive"
containers push --quiet "fairspan:$version" "docker-archive:$archive:fairspan:$version"
stat -c '%n %s' "target/container/${archive##*/}" | awk '{ printf "%s: %.1f MB\n", $1, $2 / 1e6 }'
if [ -n "$emulator" ]; then
    # As whoever loads it has it.
    containers rmi --all >/dev/null
    image=$(containers pull --quiet --platform "$platform" "docker-archive:$archive")
    said=$(containers inspect --type image --format '{{.OCIv1.Architecture}}' "$image")
    [ "$said" = "$(echo "$platform" | cut -d / -f 2)" ] || { echo "container: the image is for $said" >&2; exit 1; }
    if [ "$(id -u)" = 0 ]; then
        found=$(in_folder "$(containers mount "$(containers from --platform "$platform" "$image")")" /usr/bin/fairspan --version)
        [ "$found" = "fairspan $version" ] || { echo "container: the program of the image says \`$found\`" >&2; exit 1; }
        echo "container: no container was run: $(basename "$emulator") ran its program"
    else
        echo 'container: not run, as only root may look into one'
    fi
    exit
fi
status=0
FAIRSPAN_IMAGE=$archive FAIRSPAN_PROGRAM=$(pwd)/$static/$machine/fairspan tests/netns/container.sh || status=$?
case $status in 0) ;; 77) echo 'container: not run, for the reason above' ;; *) exit $status ;; esac
