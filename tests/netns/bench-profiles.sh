#!/bin/sh
# `bench profiles` measures each path and the bond of both, and says so in one document. How fast they are, is not asked here.
. tests/netns/lib.sh

cat >"$work/pairs.toml" <<'END'
[[profile]]
name = "even"
a = { rate_mbit = 100, delay_ms = 2 }
b = { rate_mbit = 20, delay_ms = 4, jitter_ms = 1 }
[[profile]]
name = "other"
a = { rate_mbit = 1 }
b = { rate_mbit = 1 }
END
"$fairspan" bench profiles --file "$work/pairs.toml" --only even --runs 1 --seconds 1 --cc cubic --json \
    >"$work/out.json" 2>"$work/bench.log" || wrong "bench profiles ended with $?"
python3 - "$work/out.json" <<'END' || wrong 'the document is not what it should be'
import json, sys

text = open(sys.argv[1]).read()
assert text.count("\n") == 1, text
(profile,) = json.loads(text)["profiles"]
assert list(profile) == [
    "name", "cc", "mode", "rates", "simulated", "runs", "seconds", "a_mbit", "b_mbit", "bond_mbit", "payload_share", "ratio_of_sum",
    "ratio_of_best", "ratio_of_capacity", "download_20mib", "ping_idle_ms", "ping_loaded_ms", "call"], text
told = [profile[key] for key in ("name", "cc", "rates", "simulated", "runs")]
assert told == ["even", "cubic", "configured", False, 1], text
# What the emulated paths carry, or less: that depends on the machine. A receiver that had to wait reads within one second also what
# came before, hence the factor.
for key, most in ("a_mbit", 100), ("b_mbit", 20), ("bond_mbit", 120):
    assert 0 < profile[key] < 2 * most, (key, text)
assert 0.85 < profile["payload_share"] < 0.96, text
assert 2 * 2 <= profile["ping_idle_ms"], text
END
echo 'each path and the bond were measured'
