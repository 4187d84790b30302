"""Compares what arrived as OTLP (got.jsonl) with what the daemon says (before.json, after.json, page). Part of collector.sh.

    collector.py same|missing FOLDER
"""

import json
import re
import sys


def value(point):
    """The number of a data point, or None where it says that there is none."""
    if int(point.get("flags", 0)) & 1:
        return None
    return float(point["asDouble"]) if "asDouble" in point else float(point["asInt"])


def attributes(holder):
    return {pair["key"]: next(iter(pair["value"].values())) for pair in holder.get("attributes", [])}


def newest(folder):
    """The resource's attributes, and the metrics by name: kind, table and points, of the newest message."""
    with open(f"{folder}/got.jsonl") as lines:
        message = json.loads(lines.readlines()[-1])
    (resource,) = message["resourceMetrics"]
    metrics = {}
    for scope in resource["scopeMetrics"]:
        for metric in scope["metrics"]:
            kind = next(key for key in ("sum", "gauge", "histogram", "summary") if key in metric)
            assert metric["name"] not in metrics, f"{metric['name']} is there twice"
            metrics[metric["name"]] = (kind, metric[kind], metric[kind].get("dataPoints", []))
    return attributes(resource["resource"]), metrics


def counted(status):
    """Each counter of a status, by the name and the labels that it has in the metrics."""
    interface = {"interface": status["interface"]}
    groups = [("fairspan_events_total", interface, status["counters"])]
    for peer in status["peers"]:
        labels = interface | {"peer": peer["name"]}
        groups.append(("fairspan_peer_events_total", labels, peer["counters"]))
        for channel in peer["channels"]:
            groups.append(("fairspan_channel_events_total", labels | {"channel": channel["name"]}, channel["counters"]))
    return {
        (name, *sorted((labels | {"event": event}).items())): count
        for name, labels, counters in groups
        for event, count in counters.items()
    }


def same(folder):
    with open(f"{folder}/before.json") as before, open(f"{folder}/after.json") as after:
        before, after = counted(json.load(before)), counted(json.load(after))
    resource, metrics = newest(folder)
    with open("docs/web.md") as page:
        section = page.read().split("\n## OpenTelemetry\n")[1].split("\n## ")[0]
    told = dict(re.findall(r"^\| `([a-z.]+)` \| `([^`]*)` \|", section, re.MULTILINE))
    assert resource == told, f"of the resource the document says {told}, and it is {resource}"
    found = {}
    for name in {key[0] for key in before}:
        kind, table, points = metrics[name]
        assert kind == "sum" and table["isMonotonic"] and table["aggregationTemporality"] in (2, "AGGREGATION_TEMPORALITY_CUMULATIVE"), name
        for point in points:
            key = (name, *sorted(attributes(point).items()))
            assert key not in found, f"{key} is there twice"
            found[key] = value(point)
    assert found.keys() == before.keys() == after.keys(), found.keys() ^ before.keys() | before.keys() ^ after.keys()
    for key, count in found.items():
        assert before[key] <= count <= after[key], f"{key}: {before[key]}, then {count}, then {after[key]}"
    still = [key for key in found if before[key] == after[key] > 0]
    assert len(still) >= 5, f"only {still} stood still above zero"
    with open(f"{folder}/page") as page:
        series = {line.split("{")[0].split(" ")[0] for line in page if not line.startswith("#")}
    ours = {name for name in metrics if name.startswith("fairspan_")}
    assert ours == series, f"only at one end: {ours ^ series}"
    assert [value(point) for point in metrics["up"][2]] == [1.0], metrics["up"]
    print(f"{len(found)} counters, {len(still)} of them above zero and the same before and after; {len(ours)} metrics; {resource}")


def missing(folder):
    _, metrics = newest(folder)
    assert [value(point) for point in metrics["up"][2]] == [0.0]
    ours = [point for name in metrics if name.startswith("fairspan_") for point in metrics[name][2]]
    assert all(value(point) is None for point in ours), "the last values are told again"


{"same": same, "missing": missing}[sys.argv[1]](sys.argv[2])
