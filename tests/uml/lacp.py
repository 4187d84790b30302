"""Runs inside User-Mode Linux: the kernel's bond at one end, fairspan's in a namespace at the other."""

import hashlib
import json
import os
import subprocess
import sys
import time

from bonding import load, read

FAIRSPAN = sys.argv[1]
CONFIG, SOCKET, LOG = "/run/bond.toml", "/run/bond.sock", "/run/bond.log"
BYTES = 4_000_000


def run(command, check=True):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"{command}: {done.stdout}{done.stderr}\n{open(LOG).read() if os.path.exists(LOG) else ''}")
    return done.stdout


def until(what, holds, seconds):
    begin = time.time()
    while not holds():
        if time.time() - begin > seconds:
            raise SystemExit(f"{what}: not within {seconds} s\n{read('/proc/net/bonding/bond0')}\n{open(LOG).read()}")
        time.sleep(0.05)
    return time.time() - begin


def links_up():
    document = run(f"{FAIRSPAN} status --json --socket {SOCKET}", check=False)
    links = json.loads(document)["bond"]["links"] if document else []
    return sum(link["state"] == "up" for link in links)


def agreed(ports):
    """The kernel counts `ports` in its aggregator, with ours as the partner, and all of them collect and distribute."""
    bond = read("/proc/net/bonding/bond0")
    mac = json.loads(run(f"{FAIRSPAN} status --json --socket {SOCKET}"))["bond"]["mac"]
    states = [int(line.split()[-1]) for line in bond.splitlines() if "port state" in line]
    steady = sum(state & 0x3C == 0x3C for state in states)
    return f"Number of ports: {ports}\n" in bond and f"Partner Mac Address: {mac}" in bond and steady >= 2 * ports


def transfer(sink, source, address):
    """BYTES over TCP from one end to the other; each end is the words before a command there."""
    listen = (
        "import socket,hashlib;s=socket.create_server(('%s',5000));print('ready',flush=True);c,_=s.accept();h=hashlib.md5();\n"
        "while d:=c.recv(65536): h.update(d)\nprint(h.hexdigest())" % address
    )
    give = (
        "import socket;c=socket.create_connection(('%s',5000));c.settimeout(30);c.sendall(bytes(i %% 251 for i in range(%d)));"
        "c.shutdown(1);c.recv(1)" % (address, BYTES)
    )
    server = subprocess.Popen([*sink, sys.executable, "-c", listen], stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    subprocess.run([*source, sys.executable, "-c", give], check=True, timeout=60)
    wanted = hashlib.md5(bytes(i % 251 for i in range(BYTES))).hexdigest()
    assert server.communicate(timeout=60)[0].strip() == wanted, "other bytes arrived"


def flow(ours):
    """A steady flow from our end: a datagram every 5 ms."""
    give = (
        "import socket,time;s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.connect(('10.9.0.2',9))\n"
        "while True:\n try: s.send(bytes(200))\n except OSError: pass\n time.sleep(.005)"
    )
    return subprocess.Popen([*ours, sys.executable, "-c", give])


def meet(rate):
    ours = ["ip", "netns", "exec", "ours"]
    run("ip netns add ours && ip -n ours link set lo up")
    for n in (1, 2):
        run(f"ip link add k{n} type veth peer name u{n} netns ours && ip -n ours link set u{n} up")
    run(f"ip link add bond0 type bond mode 802.3ad miimon 50 lacp_rate {rate} xmit_hash_policy layer3+4")
    for n in (1, 2):
        run(f"ip link set k{n} master bond0 && ip link set k{n} up")
    run("ip address add 10.9.0.2/24 dev bond0 && ip link set bond0 up")
    with open(CONFIG, "w") as file:
        file.write(f'[interface]\nname = "fs0"\naddress = ["10.9.0.1/24"]\ncontrol_socket = "{SOCKET}"\n')
        file.write(f'[bond]\npolicy = "802.3ad:layer3+4,lacp_rate={rate},flush=on,flush_wait=300ms"\n')
        file.writelines(f'[[bond.link]]\ndevice = "u{n}"\n' for n in (1, 2))
    with open(LOG, "w") as log:
        daemon = subprocess.Popen([*ours, FAIRSPAN, "up", CONFIG], stdout=log, stderr=log)
    took = until("both ports in one aggregator", lambda: links_up() == 2 and agreed(2), 40)
    print(f"lacp_rate {rate}: agreed after {took:.1f} s")
    run("ping -c 3 -i 0.2 -W 2 10.9.0.1")

    # The kernel has tags of its own making and removing on both sides.
    run("ip link add link bond0 name v2 type vlan id 10 && ip address add 10.10.0.2/24 dev v2 && ip link set v2 up")
    run("ip -n ours link add link fs0 name v1 type vlan id 10 && ip -n ours address add 10.10.0.1/24 dev v1")
    run("ip -n ours link set v1 up")
    for sink, source, address in (([], ours, "10.9.0.2"), (ours, [], "10.9.0.1"), ([], ours, "10.10.0.2"), (ours, [], "10.10.0.1")):
        transfer(sink, source, address)
    print(f"lacp_rate {rate}: TCP both ways, tagged and not")

    echoes = subprocess.Popen(["ping", "-q", "-i", "0.05", "-c", "100", "-W", "2", "10.9.0.1"], stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    run("ip link set k1 down")
    until("one port", lambda: links_up() == 1, 5)
    time.sleep(2)
    run("ip link set k1 up")
    said = echoes.communicate()[0]
    lost = 100 - int(said.split(" received")[0].split(", ")[-1])
    # What was under way on the link at that moment may be lost.
    assert lost <= 1, said
    took = until("both ports again", lambda: links_up() == 2 and agreed(2), 40)
    print(f"lacp_rate {rate}: {lost} of 100 echoes lost over a pulled link")
    # Steady flows: some move back when the second one joins again, behind markers that the driver answers.
    transfers = [flow(ours) for _ in range(8)]
    run("ip link set k1 down")
    until("one port", lambda: links_up() == 1, 5)
    time.sleep(1)
    # From here on all flows are on a link that stays up: each move needs an answer.
    flushed = json.loads(run(f"{FAIRSPAN} status --json --socket {SOCKET}"))["bond"]["counters"]
    run("ip link set k1 up")
    until("both ports again", lambda: links_up() == 2 and agreed(2), 40)
    time.sleep(3)
    for process in transfers:
        process.kill()
        process.wait()
    counters = json.loads(run(f"{FAIRSPAN} status --json --socket {SOCKET}"))["bond"]["counters"]
    moved, markers = (counters[name] - flushed[name] for name in ("flush_moved", "flush_markers"))
    assert moved > 0 and markers > 0, counters
    print(f"lacp_rate {rate}: {moved} moves of flows with {markers} markers that the driver answered")
    daemon.terminate()
    assert daemon.wait(10) == 0, open(LOG).read()
    run("ip link del bond0; ip netns del ours", check=False)
    until("the other end is gone", lambda: "k1" not in run("ip -brief link"), 10)


load("bonding", "max_bonds=0")
for module in ("veth", "tun", "8021q"):
    load(module)
run("ip link set lo up; mkdir -p /run/netns")
for rate in ("fast", "slow"):
    meet(rate)
