"""Runs inside User-Mode Linux: says which slave of a bond carried which frame.

The run is a JSON file, as frames.py writes it: `frames` (hexadecimal), `speeds` (Mbit/s and duplex of each slave) and
`configs`, each with a `label`, a `mode`, `options`, `n` slaves, and `steps`; without steps every frame is sent once.

    ["send", frame]  ["down", slave]  ["up", slave]  ["sleep", seconds]

`results` are added: by label, for each frame sent the slave, a list of several, or null.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time

MODULES = "/usr/lib/uml/modules/" + os.uname().release
FINIT_MODULE = 313
TUNSETIFF, TAP_WITHOUT_HEADER = 0x400454CA, 0x1002
SIOCETHTOOL, ETHTOOL_SSET = 0x8946, 2
PACKET_OUTGOING = 4


def load(name, parameters=""):
    needed = {}
    for line in open(MODULES + "/modules.dep"):
        path, others = line.split(":")
        needed[os.path.basename(path).split(".")[0]] = [path] + others.split()
    for path in reversed(needed[name]):
        with open(os.path.join(MODULES, path)) as module:
            of_its_own = parameters if path == needed[name][0] else ""
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.syscall(FINIT_MODULE, module.fileno(), of_its_own.encode(), 0) and ctypes.get_errno() != 17:
                raise OSError(ctypes.get_errno(), path)


def ip(*commands):
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))


def read(path):
    return open(path).read().strip()


def wait_for(slave, state):
    for _ in range(1000):
        if read(f"/sys/class/net/s{slave}/bonding_slave/mii_status") == state:
            return
        time.sleep(0.005)
    raise RuntimeError(f"slave {slave} does not go {state}")


def make_slave(n, speed, duplex):
    """A TAP interface. Nobody reads from it: what matters is seen on the way in."""
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", f"s{n}".encode(), TAP_WITHOUT_HEADER))
    settings = struct.pack("=IIIHBB28x", ETHTOOL_SSET, 0, 0, speed, duplex == "full", 0)
    buffer = ctypes.create_string_buffer(settings, len(settings))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCETHTOOL, struct.pack("16sQ16x", f"s{n}".encode(), ctypes.addressof(buffer)))
    ip(f"link set s{n} address 02:00:00:00:00:{n + 1:02x} mtu 9000")
    return tap


class Bond:
    def __init__(self, config, tap):
        self.mode, self.n, self.tap = config["mode"], config["n"], tap
        self.names = {f"s{n}": n for n in range(self.n)}
        options = dict(config["options"])
        primary = options.pop("primary", None)
        ip(f"link add bond0 mtu 9000 type bond mode {self.mode}")
        for name, value in options.items():
            write(f"/sys/class/net/bond0/bonding/{name}", value)
        ip("link set bond0 up", *(f"link set s{n} master bond0" for n in range(self.n)))
        if primary:
            write("/sys/class/net/bond0/bonding/primary", primary)
        for n in range(self.n):
            wait_for(n, "up")
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.socket.bind(("bond0", 0))
        self.seen()

    def seen(self):
        frames = []
        while True:
            try:
                frame, (name, _, kind, *_) = self.tap.recvfrom(65536)
            except BlockingIOError:
                return frames
            if kind == PACKET_OUTGOING and name in self.names:
                frames.append((self.names[name], frame))

    def send(self, frame):
        self.socket.send(frame)
        # The modes by load put the slave's address into the frame.
        same = lambda sent: sent[:6] == frame[:6] and sent[12:] == frame[12:]
        slaves = sorted(slave for slave, sent in self.seen() if same(sent))
        return slaves[0] if len(slaves) == 1 else slaves or None

    def carrier(self, slave, is_on):
        write(f"/sys/class/net/s{slave}/carrier", int(is_on))
        wait_for(slave, "up" if is_on else "down")
        # The bond's own carrier follows, and balance-tlb weighs its loads every tenth of a second.
        time.sleep(0.25 if is_on and self.mode == "balance-tlb" else 0.015)

    def close(self):
        self.socket.close()
        for n in range(self.n):
            write(f"/sys/class/net/s{n}/carrier", 1)
        ip("link del bond0")


def run(config, frames, tap):
    bond = Bond(config, tap)
    results = []
    for what, value in config.get("steps") or [["send", n] for n in range(len(frames))]:
        if what == "send":
            results.append(bond.send(frames[value]))
        elif what == "sleep":
            time.sleep(value)
        else:
            bond.carrier(value, what == "up")
    bond.close()
    return results


def main(path):
    spec = json.load(open(path))
    load("bonding", "max_bonds=0")
    load("tun")
    # Nothing but the frames: no router solicitations, no reports.
    for which in ("all", "default"):
        write(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6", 1)
    slaves = [make_slave(n, *speed) for n, speed in enumerate(spec["speeds"])]
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.setblocking(False)
    frames = [bytes.fromhex(frame) for frame in spec["frames"]]
    spec["kernel"] = os.uname().release
    spec["results"] = {config["label"]: run(config, frames, tap) for config in spec["configs"]}
    with open(path, "w") as file:
        json.dump(spec, file, separators=(",", ":"))
    print(f"kernel {spec['kernel']}, {len(slaves)} slaves, {len(spec['configs'])} configurations")


if __name__ == "__main__":
    main(sys.argv[1])
