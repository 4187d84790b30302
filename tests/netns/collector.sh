#!/bin/sh
# docs/grafana/otel-collector.yaml as it stands there: a collector asks a daemon that carries traffic, and what arrives elsewhere as OTLP is
# what `fairspan status --json` counts. FAIRSPAN_COLLECTOR names the collector, which has the components `prometheus`, `otlp`, `otlp_http` and
# `file`, as the distribution otelcol-contrib does. docs/web.md tells of it.
#
#   site  eth1 198.51.100.10 ---- 198.51.100.1 eth1  hub
#         daemon :9310 <- collector -> :4318 receiver
. tests/netns/lib.sh
collector=${FAIRSPAN_COLLECTOR:-}
[ -n "$collector" ] || skip 'no OpenTelemetry Collector is named by FAIRSPAN_COLLECTOR'
[ -x "$collector" ] || wrong "FAIRSPAN_COLLECTOR names no program: $collector"
for tool in python3 curl ping; do command -v $tool >/dev/null || skip "no $tool"; done
shipped=docs/grafana/otel-collector.yaml

HOSTNAME=site "$collector" validate --config "$shipped" >"$work/validate.log" 2>&1 || wrong 'the collector finds the configuration wrong'

host site
host hub
cable site eth1 198.51.100.10/24 hub eth1 198.51.100.1/24
for end in site hub; do (umask 077 && "$fairspan" keygen >"$work/$end.key"); done
cat >"$work/site.toml" <<END
[interface]
name = "fs0"
address = ["10.77.0.2/24"]
private_key_file = "$work/site.key"
metrics = "127.0.0.1:9310"

[[peer]]
name = "hub"
public_key = "$("$fairspan" pubkey <"$work/hub.key")"
allowed_ips = ["10.77.0.1/32"]

[[peer.channel]]
name = "dsl"
kind = "udp"
device = "eth1"
endpoint = "198.51.100.1:51900"
END
cat >"$work/hub.toml" <<END
[interface]
name = "fs0"
address = ["10.77.0.1/24"]
private_key_file = "$work/hub.key"
listen_port = 51900

[[peer]]
name = "site"
public_key = "$("$fairspan" pubkey <"$work/site.key")"
allowed_ips = ["10.77.0.2/32"]
END
for end in hub site; do
    on "$end" "$fairspan" up "$work/$end.toml" >"$work/$end.log" 2>&1 &
    pids="$pids $!"
done
# A host has an empty /etc, and the collector asks for `localhost`.
on site sh -c 'echo "127.0.0.1 localhost" >/etc/hosts'
# What receives has no metrics of its own, as the two would want one port for them.
cat >"$work/receiver.yaml" <<END
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:4318"}}}}
exporters: {file: {path: "$work/got.jsonl"}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [otlp], exporters: [file]}}
END
: >"$work/got.jsonl"
on site "$collector" --config "$work/receiver.yaml" >"$work/receiver.log" 2>&1 &
pids="$pids $!"
on site env HOSTNAME=site "$collector" --config "$shipped" >"$work/collector.log" 2>&1 &
pids="$pids $!"

reached() { on site ping -q -c 1 -W 1 10.77.0.1; }
eventually reached || wrong 'no ping through the bond'
on site ping -q -c 200 -i 0.01 -s 900 10.77.0.1 >"$work/ping.log" || wrong 'pings are lost'

# The second of two that come after it was asked of a daemon that was asked after the first status.
status() { on site "$fairspan" status fs0 --json >"$work/$1.json" || wrong 'no status'; }
more() { [ "$(wc -l <"$work/got.jsonl")" -ge "$1" ]; }
eventually more 1 || wrong 'nothing arrives as OTLP'
status before
eventually more $(($(wc -l <"$work/got.jsonl") + 2)) || wrong 'no more arrives'
on site curl -s --max-time 20 http://127.0.0.1:9310/metrics >"$work/page" || wrong 'no metrics'
status after
python3 tests/netns/collector.py same "$work" >"$work/same.log" || wrong 'what arrives is not what the daemon counts'

# A daemon that does not answer is told of.
end_daemons site
missing() { python3 tests/netns/collector.py missing "$work"; }
eventually missing || wrong 'nothing tells that the daemon is gone'
tail -n 1 "$work/same.log"
