"""The programs of burst-round-robin.sh: web server, parallel fetches, capture, and what they say beside the simulator.

points SCENARIO            the points of the scenario's sweep, one a line, for the shell to set up
links SCENARIO POINT       the links of a point, as a file for `fairspan emulate`
serve ADDRESS PORT CC      a web server with this congestion control: GET /N answers with N bytes
measure ...                fetches, with a capture beside them, and counts: one line of JSON
check                      whether the comparison sees what is just beyond each of its margins
compare SCENARIO SIM REAL [strict]   a table of both, medians; strict: status 1 where they differ by more than allowed
"""

import http.client
import http.server
import json
import os
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
import tomllib

# Most that both may differ by: a share of the throughput; and points of the load's and the order's shares.
ALLOWED = {"throughput": 0.15, "load_difference": 0.05}
# That of the order is wide for packets in turn: whether what four like links carry side by side arrives in order hangs on
# microseconds. Bursts take one link, so theirs is narrow; and where the simulator has next to none, there is next to none.
ALLOWED_BY_TURNS, ALLOWED_BY_BURSTS, ALLOWED_NONE = 0.35, 0.06, 0.03
NEXT_TO_NONE = 0.01
SHOWN = 96  # bytes of a frame that are kept: all headers
BLOCK = bytes(65536)


def scenario_points(path):
    """Every point of the one sweep, as a table from parameter to value, with what stands outside of the sweep."""
    with open(path, "rb") as file:
        scenario = tomllib.load(file)
    (sweep,) = scenario["sweep"]
    return scenario, [dict(zip(sweep["parameter"], values)) for values in sweep["values"]]


def points(path):
    _, table = scenario_points(path)
    for number, point in enumerate(table):
        print(
            number,
            point["bond.bond0.policy"],
            point["flow.web.tcp.congestion"],
            point["flow.web.parallel"],
            point["flow.web.fetches"],
            size(point["flow.web.files"]),
        )


def size(text):
    number, unit = re.fullmatch(r"(\d+)(kB|MB)", text).groups()
    return int(number) * {"kB": 1000, "MB": 1000_000}[unit]


def links(path, number):
    """The server's links are a1..a4 to b1..b4, and the client's is a5 to b5."""
    scenario, table = scenario_points(path)
    point = table[number]
    given = {link["name"]: link for link in scenario["link"]}
    for n, name in enumerate(["eth0", "eth1", "eth2", "eth3", "port"], 1):
        link = given[name]
        delay = point.get(f"link.{name}.delay", link["delay"])
        queue = link["queue"].removesuffix(" packets")
        # An Ethernet frame has 14 bytes here, and on a wire 24 more: check sequence, preamble and gap.
        print(f'[[link]]\nname = "{name}"\na = "a{n}"\nb = "b{n}"')
        print(f'both = {{ rate = "{link["rate"]}", queue = "{queue}", overhead = 24 }}')
        print(f'forward = {{ delay = "{delay}" }}')
        print(f'backward = {{ delay = "{link.get("reverse", link)["delay"]}" }}')


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        left = int(self.path[1:])
        self.send_response(200)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        while left > 0:
            self.wfile.write(BLOCK[: min(left, len(BLOCK))])
            left -= len(BLOCK)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def serve(address, port, congestion):
    server = Server((address, int(port)), Handler)
    # Connections get what their listener has.
    server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    server.serve_forever()


class Capture:
    """What the client's device received, by a process of its own so that it misses nothing while fetches are busy."""

    def __init__(self, device):
        code = [sys.executable, __file__, "capture", device]
        self.process = subprocess.Popen(code, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        text, _ = self.process.communicate(timeout=60)
        return json.loads(text)


def capture(device):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    sock.bind((device, 0x0800))
    SO_RCVBUFFORCE, SOL_PACKET, PACKET_STATISTICS = 33, 263, 6
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 128 << 20)
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    stopped, frames = [], []
    sock.settimeout(0.1)
    print("ready", flush=True)
    while True:
        try:
            frame, address = sock.recvfrom(SHOWN)
            if address[2] != socket.PACKET_OUTGOING:
                frames.append(frame)
        except TimeoutError:
            if stopped:
                break
    _, dropped = struct.unpack("II", sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    print(json.dumps({**out_of_order(frames, 8080), "capture_lost": dropped}))


def out_of_order(frames, port):
    """The paper's 6.3.1: data packets that are not above the highest sequence number of their flow so far.

    Copies of one packet (broadcast) count once: they have one identification.
    """
    highest, seen = {}, set()
    packets = below = copies = 0
    for frame in frames:
        header = 14 + 4 * (frame[14] & 15)
        if frame[23] != 6 or len(frame) < header + 20:
            continue
        source, destination, sequence = struct.unpack_from("!HHI", frame, header)
        length = struct.unpack_from("!H", frame, 16)[0] - (header - 14) - 4 * (frame[header + 12] >> 4)
        if source != port or length <= 0:
            continue
        identification = (destination, frame[18:20], sequence)
        if identification in seen:
            copies += 1
            continue
        seen.add(identification)
        packets += 1
        before = highest.get(destination)
        if before is not None and not 0 < (sequence - before) % (1 << 32) < 1 << 31:
            below += 1
        else:
            highest[destination] = sequence
    return {"packets": packets, "out_of_order": below / max(packets, 1), "copies": copies}


def fetch_all(address, port, parallel, fetches, size):
    """`fetches` fetches of `size` bytes, `parallel` at once, each on a connection of its own; the seconds they took."""
    left, lock, failed = [fetches], threading.Lock(), []

    def work():
        buffer = bytearray(1 << 18)
        while True:
            with lock:
                if left[0] == 0:
                    return
                left[0] -= 1
            try:
                connection = http.client.HTTPConnection(address, port, timeout=60)
                connection.request("GET", f"/{size}")
                response = connection.getresponse()
                total = 0
                while count := response.readinto(buffer):
                    total += count
                connection.close()
                if total != size:
                    failed.append(f"{total} of {size} bytes")
            except (OSError, http.client.HTTPException) as error:
                failed.append(str(error))

    workers = [threading.Thread(target=work) for _ in range(parallel)]
    began = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        sys.exit(f"{len(failed)} fetches failed: {failed[0]}")
    return time.monotonic() - began


def counted(command):
    """Packets sent by each link, of the bond's own counters; segments sent, and sent again, by the server's TCP."""
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    status, snmp = text.split("\n", 1)
    sent = [link["counters"]["sent_packets"] for link in json.loads(status)["bond"]["links"]]
    names, values = (line.split()[1:] for line in snmp.splitlines() if line.startswith("Tcp:"))
    tcp = dict(zip(names, map(int, values)))
    return sent, tcp["OutSegs"], tcp["RetransSegs"]


def measure(number, device, address, port, parallel, fetches, size, *command):
    watching = Capture(device)
    before = counted(command)
    took = fetch_all(address, int(port), int(parallel), int(fetches), int(size))
    seen = watching.stop()
    after = counted(command)
    packets = [b - a for a, b in zip(before[0], after[0])]
    if seen["capture_lost"]:
        sys.exit(f"the capture lost {seen['capture_lost']} frames")
    result = {
        "point": int(number),
        "throughput": int(fetches) * int(size) * 8 / took,
        "load": [n / sum(packets) for n in packets],
        "load_difference": (max(packets) - min(packets)) / sum(packets),
        "out_of_order": seen["out_of_order"],
        "packets": seen["packets"],
        "copies": seen["copies"],
        "sent_again": after[2] - before[2],
        "seconds": took,
        "machine_load": os.getloadavg()[0],
    }
    print(json.dumps(result), flush=True)


def simulated(path):
    """The same figures of the simulator's runs, by point."""
    with open(path) as file:
        document = json.load(file)
    table = {}
    for run in document["runs"]:
        (flow,) = run["flows"]
        transfers = flow["transfers"]
        load = [link["packets"] for link in run["links"] if re.fullmatch("eth[0-3]", link["name"])]
        table.setdefault(run["point"], []).append(
            {
                "throughput": transfers["bytes"] * 8 / (transfers["elapsed_s"] or 1),
                "load_difference": (max(load) - min(load)) / sum(load),
                "out_of_order": flow["reordering"]["below_highest"],
                "sent_again": flow["tcp"]["retransmitted"],
                "completed": transfers["completed"],
            }
        )
    return table


def middle(runs, key):
    return statistics.median(run[key] for run in runs)


def allowed_out_of_order(policy, simulated_share):
    if policy == "balance-rr":
        return ALLOWED_BY_TURNS
    return ALLOWED_NONE if simulated_share < NEXT_TO_NONE else ALLOWED_BY_BURSTS


def is_beyond(policy, simulated_share, difference):
    """Whether any difference is more than what is allowed where the simulator has this share out of order."""
    allowed = {**ALLOWED, "out_of_order": allowed_out_of_order(policy, simulated_share)}
    return any(abs(difference[key]) > allowed[key] for key in allowed)


def check():
    """The comparison itself, just inside and just outside of each margin."""
    inside = {"throughput": 0.149, "load_difference": 0.049, "out_of_order": 0.029}
    for sign in (1, -1):
        # Policy, share out of order in the simulator, and differences of it that are allowed and that are not.
        for policy, share, most, more in [
            ("balance-rr", 0.2, 0.349, 0.351),
            ("balance-rr", 0.0, 0.349, 0.351),
            ("brr:12ms", 0.0099, 0.029, 0.031),
            ("brr:12ms", 0.0101, 0.059, 0.061),
            ("active-backup", 0.0, 0.029, 0.031),
        ]:
            of = lambda **changed: is_beyond(policy, share, {key: sign * n for key, n in (inside | changed).items()})
            assert not of() and not of(out_of_order=most) and of(out_of_order=more), (policy, share, sign)
            assert of(throughput=0.151) and of(load_difference=0.051), (policy, share, sign)


def compare(scenario, sim, real, strict=None):
    _, table = scenario_points(scenario)
    sims, reals = simulated(sim), {}
    with open(real) as file:
        for line in file:
            run = json.loads(line)
            reals.setdefault(run["point"], []).append(run)
    beyond = 0
    print("| policy | TCP | fetches | delay | Mbit/s | simulated | | load | simulated | out of order | simulated |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for number, runs in sorted(reals.items()):
        point, ours = table[number], sims[number]
        a, b = middle(runs, "throughput"), middle(ours, "throughput")
        spread = sorted(run["throughput"] / 1e6 for run in runs)
        difference = {"throughput": b / a - 1}
        row = [
            point["bond.bond0.policy"],
            point["flow.web.tcp.congestion"],
            point["flow.web.parallel"],
            point["link.eth0.delay"].replace("5us", "0"),
            f"{a / 1e6:.1f} ({spread[0]:.1f} to {spread[-1]:.1f})" if len(runs) > 1 else f"{a / 1e6:.1f}",
            f"{b / 1e6:.1f}",
            f"{difference['throughput']:+.1%}",
        ]
        for key in ["load_difference", "out_of_order"]:
            difference[key] = middle(ours, key) - middle(runs, key)
            row += [f"{middle(runs, key):.1%}", f"{middle(ours, key):.1%}"]
        beyond += is_beyond(point["bond.bond0.policy"], middle(ours, "out_of_order"), difference)
        print("|", " | ".join(map(str, row)), "|")
    sys.exit(1 if strict and beyond else 0)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "check":
        check()
    elif command == "points":
        points(*arguments)
    elif command == "links":
        links(arguments[0], int(arguments[1]))
    elif command == "serve":
        serve(*arguments)
    elif command == "capture":
        capture(*arguments)
    elif command == "measure":
        measure(*arguments)
    elif command == "compare":
        compare(*arguments)
    else:
        sys.exit(__doc__)
