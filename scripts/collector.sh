#!/bin/sh
# Builds an OpenTelemetry Collector for tests/netns/collector.sh, with the four components that it needs and no others, and runs that test.
#
#   scripts/collector.sh     some minutes the first time, and some gigabytes for Go's modules and its cache
#
# The collector is made by its own builder, in the version that docs/web.md names, and is kept in ~/.local/share/fairspan/collector.
# Exit status 77 where something is missing that this needs; the last line says what.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
# Go is often installed where no path leads.
PATH="$PATH:/usr/local/go/bin"
version=0.161.0
prefix="$HOME/.local/share/fairspan/collector"
collector=$prefix/otelcol-$version
skip() { echo "collector: skipped: $1"; exit 77; }

if [ ! -x "$collector" ]; then
    command -v go >/dev/null 2>&1 || skip 'no Go (Debian package golang-go, or https://go.dev/dl)'
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    contrib=github.com/open-telemetry/opentelemetry-collector-contrib core=go.opentelemetry.io/collector
    cat >"$work/builder.yaml" <<END
dist: {name: otelcol, output_path: "$work/dist", version: "$version"}
receivers:
  - gomod: $contrib/receiver/prometheusreceiver v$version
  - gomod: $core/receiver/otlpreceiver v$version
exporters:
  - gomod: $core/exporter/otlphttpexporter v$version
  - gomod: $contrib/exporter/fileexporter v$version
END
    go run "$core/cmd/builder@v$version" --config "$work/builder.yaml" >"$work/log" 2>&1 \
        || { tail -n 20 "$work/log"; skip "version $version of the collector could not be built"; }
    mkdir -p "$prefix"
    mv "$work/dist/otelcol" "$collector"
fi
echo "collector: $("$collector" --version)"
FAIRSPAN_COLLECTOR=$collector tests/netns/collector.sh
