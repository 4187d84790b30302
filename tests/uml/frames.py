"""Frames of many kinds for a bond, and what is to be done with them: `frames.py SEED FRAMES` prints a run for bonding.py.

Whole frames and broken ones: cut anywhere, with bytes changed, with lengths and protocols that lie. Checksums are wrong;
no bonding driver looks at them. Two kinds of frame have no answer and are left out: TIPC's keep-alive messages, which
Linux hashes at random, and FCoE in frames above a page, which it sees in pieces.
"""

import json
import random
import struct
import sys

IPV4, IPV6, VLAN, SERVICE_VLAN, BRIDGED, PPP = 0x0800, 0x86DD, 0x8100, 0x88A8, 0x6558, 0x880B
HASHES = ["layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"]
IGMP = bytes.fromhex("01005e010203c66ef79600f508004518001cf3c80000010256460af873bdef01020316000904ef010203")


class Frames:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.hosts4 = [self.bytes(4) for _ in range(12)]
        self.hosts6 = [self.bytes(16) for _ in range(12)]
        self.macs = [b"\2" + self.bytes(5) for _ in range(10)]

    def bytes(self, n):
        return self.random.randbytes(n)

    def below(self, n):
        return self.random.randrange(n)

    def one(self, *choices):
        return self.random.choice(choices)

    def chance(self, p):
        return self.random.random() < p

    def port(self):
        return struct.pack("!H", self.one(self.below(65536), self.below(1024), 80, 443, 0, 65535))

    def transport(self, depth, six):
        """A protocol and its bytes."""
        kind = self.one("tcp", "tcp", "udp", "udp", "icmp", "error", "ports", "ah", "other", "cut", "tunnel", "tunnel")
        if kind == "tcp":
            return 6, self.port() + self.port() + self.bytes(16 + self.below(40))
        if kind == "udp":
            return 17, self.port() + self.port() + self.bytes(4 + self.below(40))
        if kind == "ports":  # DCCP, ESP, SCTP, UDP-Lite
            return self.one(33, 50, 132, 136), self.port() + self.port() + self.bytes(20)
        if kind == "ah":
            return 51, bytes([self.one(6, 17, 50), 4, 0, 0]) + self.bytes(40)
        if kind == "other":
            some = [0, 2, 8, 27, 43, 44, 46, 55, 59, 60, 88, 89, 94, 97, 103, 108, 112, 115, 135, 137, 139, 140, 253, 255]
            return self.one(*some, self.below(256)), self.bytes(self.below(60))
        if kind == "cut":
            return self.one(6, 17, 50, 51, 1, 58, 47, 4, 41, 132), self.bytes(self.below(12))
        if kind == "icmp":
            types = [0, 8, 13, 14, 15, 17, 9, 10, 30, 42] if self.chance(0.6) else [128, 129, 130, 133, 134, 135, 136, 143]
            head = bytes([self.one(*types), self.one(0, 0, 0, 1, self.below(256))]) + self.bytes(2)
            identifier = self.one(self.bytes(2), b"\0\0", b"\0\1")
            return (58 if self.chance(0.85 if six else 0.15) else 1), head + identifier + self.bytes(2 + self.below(48))
        if kind == "error":
            version6 = six if self.chance(0.93) else not six
            kinds = [1, 2, 3, 4] if version6 else [3, 4, 5, 11, 12]
            if self.chance(0.1):
                kinds = [0, 1, 2, 3, 4, 5, 6, 11, 12, 13, 100, 127]
            quoted = self.ip(depth + 1, six if self.chance(0.95) else not six)
            if self.chance(0.3):
                quoted = quoted[: self.below(len(quoted) + 1)]
            return (58 if version6 else 1), bytes([self.one(*kinds), self.below(8)]) + self.bytes(6) + quoted
        return self.tunnel(depth)

    def tunnel(self, depth):
        kind = self.one("4", "6", "gre", "gre", "gre", "pptp", "mpls") if depth < 9 else "end"
        if kind == "end":
            return 17, self.bytes(30)
        if kind == "4":
            return 4, self.ip(depth + 1, not self.chance(0.93))
        if kind == "6":
            return 41, self.ip(depth + 1, self.chance(0.93))
        if kind == "mpls":
            return 137, self.mpls(depth)
        fields = [0x8000, 0x2000, 0x1000]  # checksum, key, sequence number
        if kind == "pptp":
            flags = 0x2001 | self.one(0, 0x1000) | self.one(0, 0x80)
            if self.chance(0.15):
                flags ^= self.one(0x8000, 0x4000, 0x2000, 0x0800, 3)
            six = self.chance(0.4)
            inner = self.one(0x0021, 0x0057, 0x0281, self.below(65536)) if self.chance(0.2) else 0x0057 if six else 0x0021
            body = self.one(b"\xff\x03", self.bytes(2)) + struct.pack("!H", inner) + self.ip(depth + 1, six)
            kind, fields = PPP if self.chance(0.93) else IPV4, fields + [0x80]
        else:
            flags = self.below(16) << 12 & 0xB000
            if self.chance(0.12):
                flags |= self.one(0x4000, 0x0800, 0x0100, 1, 2, 7, 0x80)
            kind, body = (BRIDGED, self.ethernet(depth + 1)) if self.chance(0.4) else self.network(depth + 1)
        optional = b"".join(self.bytes(4) for bit in fields if flags & bit)
        return 47, struct.pack("!HH", flags, kind) + optional + body

    def ip(self, depth, six):
        protocol, payload = self.transport(depth, six)
        if six:
            return self.ipv6(protocol, payload)
        words = 5 if self.chance(0.8) else self.one(6, 7, 10, 15, 4, 3, 0)
        fragment = 0 if self.chance(0.75) else self.one(0x4000, 0x2000, 0x2001, 1, 185, 0x8000, 0x4001, 0x1FFF)
        options = self.bytes(max(0, words * 4 - 20))
        length = 20 + len(options) + len(payload)
        if self.chance(0.05):
            length = self.one(self.below(65536), IPV4, IPV6, VLAN)
        to = self.one(b"\xff" * 4, b"\xe0\0\0\5", b"\0" * 4) if self.chance(0.05) else self.one(*self.hosts4)
        first = (4 if self.chance(0.98) else self.below(16)) << 4 | words
        head = struct.pack("!BBHHH", first, self.below(256), length & 0xFFFF, self.below(65536), fragment)
        return head + bytes([64, protocol]) + self.bytes(2) + self.one(*self.hosts4) + to + options + payload

    def ipv6(self, protocol, payload):
        for _ in range(self.one(0, 0, 0, 0, 1, 1, 2, 3) if self.chance(0.98) else 12 + self.below(6)):
            extension = self.one(0, 43, 60, 60, 44, 51, 135)
            if extension == 44:
                offset = self.one(0, 1, 8, 9, self.below(65536))
                payload = bytes([protocol, 0]) + struct.pack("!H", offset) + self.bytes(4) + payload
            elif extension == 51:
                payload = bytes([protocol, self.one(1, 4)]) + self.bytes(22) + payload
            else:
                eighths = self.one(0, 0, 0, 1, 2)
                said = eighths if self.chance(0.95) else self.below(4)
                payload = bytes([protocol, said]) + self.bytes(6 + 8 * eighths) + payload
            protocol = extension
        version = 6 if self.chance(0.98) else self.below(16)
        label = self.below(1 << 20) if self.chance(0.5) else 0
        length = len(payload) if self.chance(0.95) else self.below(65536)
        head = struct.pack("!IHBB", version << 28 | label, length & 0xFFFF, protocol, 64)
        return head + self.one(*self.hosts6) + self.one(*self.hosts6) + payload

    def mpls(self, depth):
        labels = [self.below(1 << 24) << 8 for _ in range(self.one(0, 0, 1, 2))] + [self.below(1 << 20) << 12 | 0x100]
        return b"".join(struct.pack("!I", label) for label in labels) + self.ip(depth + 1, False)

    def network(self, depth):
        """An EtherType and what follows it."""
        kinds = "4444444466666tttqdaooombhipfrluxxy"
        kind = self.random.choice(kinds) if depth < 11 else "4"
        if kind in "46":
            return (IPV4, IPV6)[kind == "6"], self.ip(depth, kind == "6")
        if kind in "tqd":  # one tag, two, up to 17
            tags = {"t": 1, "q": 2, "d": 3 + self.below(15)}[kind]
            inner, body = self.network(depth + 4)
            for _ in range(tags):
                body = struct.pack("!HH", self.below(65536), inner) + body
                inner = self.one(VLAN, VLAN, SERVICE_VLAN) if self.chance(0.95) else 0x9100
            return inner, body
        if kind == "a":
            return self.one(0x0806, 0x0806, 0x8035), bytes.fromhex("0001080006040001") + self.bytes(20 + self.below(18))
        if kind == "o":
            return self.pppoe(depth)
        if kind == "m":
            return self.one(0x8847, 0x8848), self.mpls(depth)
        if kind == "b":
            head = bytes([0x40 if self.chance(0.9) else self.below(256), 15 if self.chance(0.9) else self.below(256), 50, 1])
            return 0x4305, head + self.one(*self.macs) + self.ethernet(depth + 1)
        if kind == "h":
            inner, body = self.network(depth + 1)
            return self.one(0x892F, 0x88FB), self.bytes(4) + struct.pack("!H", inner) + body
        if kind == "i":
            return 0x88CA, bytes([self.below(256) & 0xF1]) + self.bytes(7 + self.below(40))
        if kind == "p":
            return 0x88F7, self.bytes(self.one(20, 33, 34, 44))
        if kind == "f":
            return 0x8906, self.bytes(self.one(20, 37, 38, 60))
        if kind == "r":
            return self.one(IPV4, IPV6), self.ip(depth, self.chance(0.5))
        if kind == "l":
            return self.below(1501), self.bytes(3 + self.below(60))
        if kind == "u":
            return 0, self.ip(depth, False)
        return self.one(0x88B5, 0x88CC, 0x888E, 0x88E5, 3, 4, BRIDGED, PPP, self.below(65536)), self.bytes(self.below(50))

    def pppoe(self, depth):
        six = self.chance(0.4)
        protocol = 0x0057 if six else 0x0021
        if self.chance(0.2):
            protocol = self.one(0x0281, 0x0283, 0xC021, 0x8021, 0x2145, self.below(65536))
        body = struct.pack("!H", protocol) if self.chance(0.85) or protocol > 255 else bytes([protocol])
        body += self.ip(depth + 1, six)
        first, code = 0x11 if self.chance(0.93) else self.below(256), 0 if self.chance(0.93) else self.below(256)
        kind = 0x8864 if self.chance(0.95) else 0x8863
        return kind, struct.pack("!BBHH", first, code, self.below(65536), len(body) & 0xFFFF) + body

    def ethernet(self, depth=0):
        kind, body = self.network(depth)
        to = self.one(*self.macs)
        if self.chance(0.1):
            to = self.one(b"\xff" * 6, b"\1\0\x5e" + self.bytes(3), b"\x33\x33" + self.bytes(4))
        return to + self.one(*self.macs) + struct.pack("!H", kind) + body

    def frame(self, may_be_long):
        frame = self.ethernet()
        how = self.random.random()
        if how < 0.12:
            frame = frame[: 14 + self.below(len(frame) - 13)]
        elif how < 0.22:
            changed = bytearray(frame)
            for _ in range(1 + self.below(3)):
                changed[12 + self.below(len(frame) - 12)] = self.one(self.below(256), self.one(*frame))
            frame = bytes(changed)
        elif how < 0.25:
            frame += self.bytes(self.below(30))
        if may_be_long and self.chance(0.005) and b"\x89\x06" not in frame:
            frame += bytes(max(0, 1500 + self.below(6500) - len(frame)))
        tipc = frame.find(b"\x88\xca")
        if 0 <= tipc < len(frame) - 3 and frame[tipc + 2] & 0x0E == 0x0E:
            frame = frame[: tipc + 3] + bytes([frame[tipc + 3] & 0xF7]) + frame[tipc + 4 :]
        return frame[: 9000 if may_be_long else 250]


def failing(make, frames, n, toggles):
    """Frames while links fail and come back, now and then all of them."""
    steps, up = [], set(range(n))
    for _ in range(toggles):
        steps += [["send", make.below(frames)] for _ in range(1 + make.below(11))]
        link = make.below(n)
        steps.append(["down" if link in up else "up", link])
        up ^= {link}
    return steps + [["send", make.below(frames)] for _ in range(10)]


def rounds(make, frames, n, count):
    """Frames between the moments at which balance-tlb weighs its loads, and a link that fails in between.

    Its ten seconds are 100 ticks of a timer that this kernel's clock of 100 Hz makes late: up to eleven seconds."""
    steps = [["sleep", 0.3]]
    for nth in range(count):
        steps += [["send", make.below(frames)] for _ in range(150)]
        if nth > 0:
            steps.append(["down" if nth % 2 else "up", n - 1])
            steps += [["send", make.below(frames)] for _ in range(50)]
        steps.append(["sleep", 11.2])
    return steps[:-1]


def main(seed, count):
    make = Frames(seed)
    small = count <= 500
    frames = [make.frame(not small) for _ in range(count)]
    tagged = IGMP[:12] + bytes.fromhex("81000005") + IGMP[12:]
    frames += [IGMP, tagged, IGMP[:33]] * (10 if small else 50)
    speeds = [[make.one(10, 100, 100, 1000, 1000, 2500), make.one("full", "full", "half")] for _ in range(8)]
    configs = []

    def add(mode, n, steps=None, **options):
        label = f"{mode}/n={n}/" + ",".join(f"{name}={value}" for name, value in options.items())
        options = {name: str(value) for name, value in options.items()}
        config = {"label": f"{label}/{len(configs)}", "mode": mode, "n": n, "options": options | {"miimon": "10"}}
        configs.append(config | ({"steps": steps} if steps else {}))

    for name in HASHES:
        for n in [7, 8] if small else [1, 2, 3, 5, 7, 8]:
            add("balance-xor", n, xmit_hash_policy=name)
    fail = lambda n: failing(make, len(frames), n, 8 if small else 14)
    for n in [1, 2, 3, 8] if small else range(1, 9):
        for packets in [1, 2, 3, 7]:
            add("balance-rr", n, fail(n), packets_per_slave=packets)
        add("broadcast", n, fail(n))
        add("balance-xor", n, fail(n), xmit_hash_policy=make.one(*HASHES))
        add("active-backup", n, fail(n))
        for reselect in ["always", "better", "failure"] if n > 1 else []:
            add("active-backup", n, fail(n), primary=f"s{make.below(n)}", primary_reselect=reselect)
        add("balance-tlb", n, fail(n), xmit_hash_policy=make.one(*HASHES), tlb_dynamic_lb=0)
    for n in [3] if small else [2, 5]:
        add("balance-tlb", n, rounds(make, len(frames), n, 4), xmit_hash_policy=make.one("layer2+3", "layer3+4"))
    frames = [frame.hex() for frame in frames]
    json.dump({"seed": seed, "frames": frames, "speeds": speeds, "configs": configs}, sys.stdout, separators=(",", ":"))


main(int(sys.argv[1]), int(sys.argv[2]))
