"""What tests/netns/ring.sh measures with: paced UDP flows, gaps, and what should come of them.

Rates are Mbit/s on the ring's links, with all that is added to a packet, unless said otherwise. Flows are of single packets
at equal distances: groups would be bursts to the meters, whose interval holds five packets.
"""
import json
import os
import socket
import struct
import subprocess
import sys
import time

PAYLOAD = int(os.environ.get("RING_PAYLOAD", 1372))
# Ethernet 14, IPv4 and UDP 28, the seal 30, the ring's head 6.
OVERHEAD = int(os.environ.get("RING_OVERHEAD", 78))
WIRE = PAYLOAD + 28 + OVERHEAD
UDP_SEGMENT, UDP_GRO = 103, 104
SO_TIMESTAMPNS = 35
SEGMENTS = 1
PORT = 5201


def send(address, rate, seconds, port, over):
    """A constant rate, until there is a file `over`, or for so many seconds."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_UDP, UDP_SEGMENT, PAYLOAD)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 21)
    s.connect((address, port))
    data = bytes(PAYLOAD * SEGMENTS)
    step = SEGMENTS * WIRE * 8 / (rate * 1e6)
    begin = time.monotonic()
    due, end, n = begin, begin + seconds, 0
    while due < end and not (n % 100 == 0 and os.path.exists(over)):
        n += 1
        now = time.monotonic()
        if now < due:
            time.sleep(due - now)
        elif now - due > 0.1:
            due = now
        try:
            s.send(data)
        except (BlockingIOError, OSError):
            pass
        due += step


def receive(delay, seconds, port, heard, *flows):
    """The rate that arrives in a window, on the wire. Something has arrived of each of the flows `delay` seconds before it begins:
    each makes its file `heard` then. The files and the kernel tell the times, so that the window is one for all, and what came in it
    counts also where this process had no processor to read it."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    s.setsockopt(socket.SOL_UDP, UDP_GRO, 1)
    s.bind(("", port))
    s.settimeout(60)
    s.recv(65536)
    open(heard, "w").close()
    s.settimeout(0.01)
    begin, end, arrived, flows = None, time.time() + 60, [], flows or (heard,)
    while True:
        if begin is None and all(map(os.path.exists, flows)):
            begin = max(map(os.path.getmtime, flows)) + delay
            end = begin + seconds
        late = time.time() >= end
        try:
            data, ancillary, *_ = s.recvmsg(65536, 128)
        except TimeoutError:
            if late:
                break
            continue
        times = [struct.unpack("@qq", value[:16]) for _, kind, value in ancillary if kind == SO_TIMESTAMPNS]
        arrived.append((times[0][0] + times[0][1] / 1e9, len(data)))
        if arrived[-1][0] >= end:
            break
    total = sum(n for at, n in arrived if begin and begin <= at < end)
    print(f"{total / PAYLOAD * WIRE * 8 / seconds / 1e6:.3f}")


def ticks(address, seconds, over="", port=PORT + 1):
    """A small packet each millisecond, numbered; no more once there is a file `over`."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    begin = time.monotonic()
    n = 0
    while (now := time.monotonic()) < begin + seconds and not (n % 100 == 0 and os.path.exists(over)):
        due = begin + n / 1000
        if now < due:
            time.sleep(due - now)
        try:
            s.sendto(struct.pack("!Qd", n, time.monotonic()), (address, port))
        except OSError:
            pass
        n += 1


def gap(seconds, failed="", heard="", port=PORT + 1):
    """The longest time, in ms, of sending from which nothing arrived; and how many packets were lost. With a file `failed`, it ends
    when 100 packets arrived that were sent after there was that file. The first that arrives makes the file `heard`."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", port))
    s.settimeout(0.05)
    end, arrived, since, after = time.monotonic() + seconds, [], float("inf"), 0
    while (now := time.monotonic()) < end and after < 100:
        if since > now and os.path.exists(failed):
            since = now
        try:
            arrived.append(struct.unpack("!Qd", s.recv(64)))
        except TimeoutError:
            continue
        after += arrived[-1][1] > since
        if heard and len(arrived) == 1:
            open(heard, "w").close()
    if failed and after < 100:
        sys.exit(f"only {after} packets arrived of those sent after it failed")
    arrived.sort()
    if len(arrived) < 100:
        sys.exit(f"only {len(arrived)} packets arrived")
    # By the sender's clock: what the sender itself was late does not count, what the ring lost does.
    holes = [later[1] - sooner[1] for sooner, later in zip(arrived, arrived[1:]) if later[0] > sooner[0] + 1]
    worst = max(holes, default=0.0)
    lost = arrived[-1][0] - arrived[0][0] + 1 - len({n for n, _ in arrived})
    print(f"{worst * 1e3:.1f} {lost}")


def rias(work, program, nodes, capacity, flows):
    """The reference rates, by the program's own command."""
    problem = {"nodes": nodes, "capacity": capacity, "topology": "ring",
               "flows": [{"from": a, "to": b, "demand": d} for a, b, d in flows]}
    path = f"{work}/problem.json"
    with open(path, "w") as f:
        json.dump(problem, f)
    answer = subprocess.run([program, "ring", "rias", path, "--json"], capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)["rates"]


def check(work, program, nodes, capacity, what, within, *flows):
    """Compares what arrived, FROM:TO:OFFERED:ARRIVED each, with the reference: each `rate`, or each `share` of the sum."""
    parsed = [flow.split(":") for flow in flows]
    offered = [(int(a), int(b), min(float(d), float(capacity))) for a, b, d, _ in parsed]
    expected = rias(work, program, int(nodes), float(capacity), offered)
    # What a machine carries less than the links would, it carries less of all flows.
    scale = sum(float(arrived) for *_, arrived in parsed) / sum(expected) if what == "share" else 1.0
    worst = 0.0 if scale > 0 else float("inf")
    for (a, b, d, arrived), rate in zip(parsed, expected):
        error = float(arrived) / (rate * scale or 1.0) - 1
        worst = max(worst, abs(error))
        print(f"  ({a},{b}) offered {d}: {float(arrived):.2f} Mbit/s, RIAS {rate:.2f}, {error:+.2%}")
    # What no busy machine explains: a flow that gets the double of its share or next to nothing.
    sys.exit(0 if worst <= float(within) else 2 if worst > 0.85 else 1)


def fair(ringlet, node, seconds=0.8):
    """The median of a node's fair rate as a control byte, and how many of the samples are within 1 of it, in per cent."""
    end, found = time.monotonic() + seconds, []
    while time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("/run/fairspan/ring0.sock")
            s.sendall(b'{"command":"status"}\n')
            answer = b"".join(iter(lambda: s.recv(65536), b""))
        entries = json.loads(answer)["ring"]["ringlets"][ringlet]["fair"]
        found.append(next(entry["byte"] for entry in entries if entry["node"] == node))
        time.sleep(0.005)
    median = sorted(found)[len(found) // 2]
    print(median, round(100 * sum(abs(byte - median) <= 1 for byte in found) / len(found)))


def counter(status, name):
    print(json.load(open(status))["ring"]["counters"][name])


def capacity(status, side):
    print(next(link["rate_mbit"] for link in json.load(open(status))["ring"]["links"] if link["side"] == side))


def part(percent, of):
    print(f"{float(percent) * float(of) / 100:.2f}")


def goodput(report):
    print(f"{json.load(open(report))['end']['sum_received']['bits_per_second'] / 1e6:.1f}")


def near(found, expected, within):
    sys.exit(0 if abs(float(found) / float(expected) - 1) <= float(within) else 1)


def within(found, least, most):
    sys.exit(0 if float(least) <= float(found) <= float(most) else 1)


def whole(status):
    ring = json.load(open(status))["ring"]
    known = all(station["networks"] for station in ring["stations"])
    sys.exit(0 if ring["whole"] and known else 1)


if __name__ == "__main__":
    command, args = sys.argv[1], sys.argv[2:]
    if command == "send":
        send(args[0], float(args[1]), float(args[2]), int(args[3]), args[4])
    elif command == "receive":
        receive(float(args[0]), float(args[1]), int(args[2]), *args[3:])
    elif command == "ticks":
        ticks(args[0], float(args[1]), *args[2:])
    elif command == "gap":
        gap(float(args[0]), *args[1:])
    elif command == "fair":
        fair(int(args[0]), int(args[1]))
    else:
        globals()[command](*args)
