"""Drives a browser over its debugging pipe, for web.sh: no package is needed for that.

    web.py BROWSER RESTART SHOTS [long]

RESTART is a command that begins the site's daemon anew; pictures go to the folder SHOTS. FAIRSPAN_AXE may name axe-core's
axe.min.js; what the page shows has no fault that it finds then.
"""

import base64
import json
import os
import select
import subprocess
import sys
import tempfile
import time

BROWSER, RESTART, SHOTS = sys.argv[1:4]
LONG = sys.argv[4:] == ["long"]
AXE = os.environ.get("FAIRSPAN_AXE")
PAGE = "http://127.0.0.1:9320/"
HOSTILE_PEER = "<img src=x onerror=document.title='owned'>"
HOSTILE_CHANNEL = "lte</script><script>document.title='owned'</script>"


class Browser:
    """A browser with one page."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory()
        ours, theirs = os.pipe(), os.pipe()

        def pipes():
            os.dup2(ours[0], 13)
            os.dup2(theirs[1], 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
                   "--remote-debugging-pipe", "--hide-scrollbars", f"--user-data-dir={self.profile.name}"]
        log = open(os.path.join(self.profile.name, "log"), "wb")
        self.process = subprocess.Popen([BROWSER, *options, "about:blank"], preexec_fn=pipes, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        os.close(ours[0])
        os.close(theirs[1])
        self.out, self.into = ours[1], theirs[0]
        self.number, self.rest, self.told, self.answers = 0, b"", [], {}
        targets = self.call("Target.getTargets", session=None)["targetInfos"]
        target = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", session=None, targetId=target["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def read(self, seconds):
        """Takes what the browser says within so many seconds."""
        if not select.select([self.into], [], [], seconds)[0]:
            return
        part = os.read(self.into, 1 << 20)
        assert part, "the browser has ended"
        *messages, self.rest = (self.rest + part).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.told.append(message)

    def call(self, method, session="own", **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60
        while self.number not in self.answers:
            assert time.monotonic() < end, f"the browser does not answer {method}"
            self.read(1)
        answer = self.answers.pop(self.number)
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def value(self, expression):
        """What an expression gives on the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result}"
        return result["result"].get("value")

    def until(self, expression, why, seconds=90):
        """Waits until an expression holds; how long that took."""
        began = time.monotonic()
        while True:
            if self.call("Runtime.evaluate", expression=f"Boolean({expression})")["result"].get("value"):
                return time.monotonic() - began
            if time.monotonic() - began > seconds:
                text = self.value("document.body ? document.body.innerText : ''")
                raise AssertionError(f"{why}: {expression} does not come true\n{text}")
            self.read(0.02)

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'", "it does not load")

    def size(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 500)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, name):
        time.sleep(0.3)
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        with open(os.path.join(SHOTS, name + ".png"), "wb") as out:
            out.write(base64.b64decode(picture))

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def complaints(self):
        """Errors of scripts and what the page's policy refused; a daemon that is away is none."""
        found = []
        for message in self.told:
            if message["method"] == "Runtime.exceptionThrown":
                found.append(message["params"]["exceptionDetails"])
            elif message["method"] == "Log.entryAdded":
                entry = message["params"]["entry"]
                if entry["level"] == "error" and "net::ERR_" not in entry["text"] and entry["source"] != "network":
                    found.append(entry)
        return found

    def end(self):
        self.process.kill()
        self.process.wait()
        self.profile.cleanup()


def audit(browser, what):
    """Looks for what keeps people from using the page as it is now."""
    if not AXE:
        return
    with open(AXE, encoding="utf-8") as source:
        browser.value(source.read() + "; 0")
    found = browser.value("""axe.run(document).then((result) => ({
        rules: result.passes.length,
        faults: result.violations.map((fault) => fault.id + ": " + fault.nodes.map((node) => node.html).join(" ")) }))""")
    assert found["rules"] > 10, f"{what}: axe-core had next to nothing to look at: {found}"
    assert not found["faults"], f"{what}: " + "\n".join(found["faults"])
    print(f"{what}: {found['rules']} rules of axe-core hold")


LIVE = "document.getElementById('connection').textContent === 'live'"
ROW = "document.querySelector('#rows tr:first-child')"


def loads_and_moves(browser):
    browser.size(1200, 900)
    browser.open(PAGE)
    browser.until(LIVE, "the page does not go live")
    browser.until(f"Number({ROW}.children[2].textContent) > 0", "no rate is shown")
    first = browser.value("document.getElementById('summary').textContent")
    browser.until(f"document.getElementById('summary').textContent !== {json.dumps(first)}", "the page does not move")
    browser.until("document.querySelectorAll('#plots [role=img] path.sent')[0].getAttribute('d').split('L').length > 5", "no plot")
    print("it loads, and moves")


def names_are_text(browser):
    shown = browser.value("document.getElementById('rows').innerText")
    assert HOSTILE_PEER in shown and HOSTILE_CHANNEL in shown, shown
    assert browser.value("document.querySelectorAll('main img, main script').length") == 0
    assert "owned" != browser.value("document.title")
    titles = browser.value("[...document.querySelectorAll('#map title')].map((title) => title.textContent)")
    assert HOSTILE_PEER in titles and any(title.startswith(HOSTILE_CHANNEL + ": ") for title in titles), titles
    words = browser.value("document.querySelector('#map svg').getAttribute('aria-label')")
    assert HOSTILE_PEER in words and HOSTILE_CHANNEL in words, words
    written = browser.value("[...document.querySelectorAll('#map text')].map((text) => text.textContent)")
    assert any(text.startswith("<img src=x") for text in written), written
    print("hostile names are text, on the map too")


def news_are_ours(browser):
    """Loads the page with a source of news that is ours: `tell(view)` there. How to take it away again, and what the page shows now."""
    hook = "window.EventSource = class { constructor() { window.tell = (view) => this.onmessage({ data: JSON.stringify(view) }); } };"
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=hook)["identifier"]
    browser.open(PAGE)
    browser.until("window.tell", "the page asks for no news")
    return script, browser.value("fetch('/view.json').then((answer) => answer.json())")


def shows_each_flows_way(browser):
    # The pings of the test.
    row = "[...document.querySelectorAll('#flows tbody tr')].find((row) => row.textContent.startsWith('icmp 10.77.0.2 > 10.77.0.1'))"
    browser.until(f"{row} && {row}.querySelector('.ways li')", "no flow has a way")
    cells = browser.value(f"[...{row}.children].map((cell) => cell.innerText)")
    assert cells[1] == HOSTILE_PEER and cells[3].startswith("urgent") and "ICMP" in cells[3], cells
    ways = cells[4].splitlines()
    names = [way.rsplit(" %", 1)[0].rsplit(" ", 1)[0] for way in ways]
    assert names and set(names) <= {"dsl", HOSTILE_CHANNEL}, cells
    assert 99 <= sum(int(way.rsplit(" %", 1)[0].rsplit(" ", 1)[1]) for way in ways) <= 101, cells
    # One that goes by both, whatever is sent now: what others named is text, and a bar is as long as its share.
    script, view = news_are_ours(browser)
    view["time"] += 1
    view["status"]["uptime_s"] += 1
    flow = {"packets": 7, "bytes": 9000, "dropped": 0, "marked": 0, "waiting": 0}
    ways = [{"channel": "dsl", "mbit": 7.5, "bytes": 1, "share": 0.75}, {"channel": HOSTILE_CHANNEL, "mbit": 2.5, "bytes": 1, "share": 0.25}]
    view["status"]["peers"][0]["queue"]["flows"] = [
        {"flow": HOSTILE_CHANNEL, "mbit": 10, "class": HOSTILE_PEER, "because": HOSTILE_CHANNEL, "ways": ways, **flow},
        {"flow": "without a way yet", "mbit": 1, **flow}]
    browser.value(f"tell({json.dumps(view)})")
    browser.until("document.querySelectorAll('#flows tbody tr').length === 2", "the flows are not shown")
    cells = browser.value("[...document.querySelectorAll('#flows tbody tr')[0].children].map((cell) => cell.innerText)")
    assert cells[0] == HOSTILE_CHANNEL and cells[3].splitlines() == [HOSTILE_PEER, HOSTILE_CHANNEL], cells
    assert cells[4].splitlines() == ["dsl 75 % 7.50", HOSTILE_CHANNEL + " 25 % 2.50"], cells
    assert browser.value("[...document.querySelectorAll('#flows .bar .part')].map((bar) => bar.getAttribute('width')).join()") == "75.0,25.0"
    assert browser.value("document.querySelectorAll('#flows img, #flows script').length") == 0
    assert browser.value("document.querySelectorAll('#flows tbody tr')[1].children[4].innerText") == "–"
    for name, width in (("flows", 1200), ("flows-phone", 360)):
        browser.size(width, 800)
        browser.value("document.getElementById('flows').scrollIntoView()")
        browser.until(f"document.documentElement.scrollWidth <= {width}", f"the page is wider than {width}", 15)
        browser.picture(name)
    browser.size(1200, 900)
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    browser.open(PAGE)
    browser.until(LIVE, "the page does not go live again")
    print("each flow is shown with its channels, its class and why")


def shows_a_packets_life(browser):
    browser.until("/[1-9][0-9]* packets a second/.test(document.querySelector('#life li').innerText)", "no packet is seen")
    script, view = news_are_ours(browser)
    life = "[...document.querySelectorAll('#life li strong')].map((station) => station.parentNode.innerText)"
    peer = view["status"]["peers"][0]
    for _ in range(2):
        # Twelve packets a second find no room, and three come twice.
        view["time"] += 1
        view["status"]["uptime_s"] += 1
        for counter, rate in {"host_packets": 100, "host_bytes": 125_000, "queue_full": 12, "duplicates": 3}.items():
            peer["counters"][counter] += rate
        browser.value(f"tell({json.dumps(view)})")
    browser.until(f"{life}[0].includes('100 packets a second')", "what is sent is not counted")
    stations = browser.value(life)
    assert [station.splitlines()[0] for station in stations] == ["This host", "Waits for a channel", "Goes by", "Is under way", "Comes by", "Is put in order", "This host"], stations
    assert "1.00 Mbit/s" in stations[0] and "dropped, no room: 12 a second" in stations[1], stations
    assert [line for line in stations[5].splitlines() if line][1:] == ["came twice: 3.0 a second"], stations
    assert all(HOSTILE_CHANNEL in stations[n] and "dsl" in stations[n] for n in (2, 3, 4)), stations
    assert browser.value("document.querySelectorAll('#life img, #life script').length") == 0
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    browser.open(PAGE)
    browser.until(LIVE, "the page does not go live again")
    print("a packet's life is shown")


def seen_failure(browser):
    subprocess.run(["ip", "link", "set", "dsl", "down"], check=True)
    took = browser.until(f"{ROW}.querySelector('.state.down')", "a link that fails is not shown")
    news = browser.value("document.getElementById('news').textContent")
    assert "dsl" in news, f"who cannot see is not told: {news!r}"
    wires = "[...document.querySelectorAll('#map .wire.%s title')].map((title) => title.textContent.split(':')[0]).join()"
    failed = browser.value(wires % "down")
    assert failed == "dsl", f"the map shows as failed: {failed!r}"
    browser.picture("failure")
    subprocess.run(["ip", "link", "set", "dsl", "up"], check=True)
    browser.until(f"{ROW}.querySelector('.state.up')", "a link that is back is not shown")
    browser.until((wires % "down") + " === ''", "the map shows a link as failed that is back")
    print(f"a link that failed was seen after {took:.2f} s")
    assert not LONG or took < 2, "that is too late"


def station(number, east, west, reachable=True):
    """A node of a ring: what its two ways carry, and whether they are up; None: there is no such link."""
    sides = {}
    for side, up in (("east", east), ("west", west)):
        sides |= {side + "_mbit": 0 if up is None else 100, side + "_up": bool(up)}
    return {"number": number, "reachable": reachable, "weight": 1, "networks": [], "refused": [], **sides}


def maps_rings(browser):
    """Shows rings and lines that there are not, by a source of news that is ours."""
    script, view = news_are_ours(browser)
    ring = {"algorithm": "aggressive", "counters": {}, "ringlets": []}
    both, one = [{"side": "east"}, {"side": "west"}], [{"side": "east"}]
    cases = [
        ("a ring", 2, both, [(True, True)] * 3, "ring of 3 nodes, all links up", ["link 1: up", "link 2: up", "link 3: up"]),
        ("a ring with a gap", 2, both, [(True, False), (True, True), (False, True)], "ring of 3 nodes, link 3 down",
         ["link 1: up", "link 2: up", "link 3: down"]),
        ("a line, from the middle", 2, both, [(True, None), (True, True), (None, True)], "line of 3 nodes, all links up",
         ["link 1: up", "link 2: up"]),
        ("a line, from its end", 1, one, [(True, None), (False, True), (None, False)], "line of 3 nodes, link 2 down",
         ["link 1: up", "link 2: down"]),
        # What an end that is off said last does not count, and one end that can be reached is enough to tell.
        ("a line whose end is off", 2, both, [(True, None), (False, True), (True, True, False)], "line of 3 nodes, link 2 down",
         ["link 1: up", "link 2: down"]),
        ("a ring of which a node is off", 2, both, [(True, False), (False, True), (None, None, False)], "ring of 3 nodes, links 2, 3 down",
         ["link 1: up", "link 2: down", "link 3: down"]),
        ("a ring of two", 1, both, [(True, True)] * 2, "ring of 2 nodes, all links up", ["link 1: up", "link 2: up"]),
        ("a line of two", 1, one, [(True, None), (None, True)], "line of 2 nodes, all links up", ["link 1: up"]),
    ]
    for name, node, links, stations, words, titles in cases:
        view["time"] += 1
        view["status"]["uptime_s"] += 1
        view["status"]["peers"] = []
        view["status"]["ring"] = {**ring, "node": node, "nodes": len(stations), "links": links,
                                  "stations": [station(n + 1, *sides) for n, sides in enumerate(stations)]}
        browser.value(f"tell({json.dumps(view)})")
        label = "(document.querySelector('#map svg') || document.body).getAttribute('aria-label')"
        browser.until(f"String({label}).includes({json.dumps(words)})", f"{name} is described otherwise: {browser.value(label)}", 20)
        drawn = browser.value("[...document.querySelectorAll('#map .wire title')].map((title) => title.textContent)")
        assert drawn == titles, f"{name}: {drawn}"
        paths = browser.value("[...document.querySelectorAll('#map .wire path')].map((path) => path.getAttribute('d'))")
        assert len(set(paths)) == len(titles), f"{name}: {paths}"
        nodes = browser.value("[...document.querySelectorAll('#map .node.up text')].map((text) => text.textContent)")
        assert nodes == [f"{n + 1}, here" if n + 1 == node else str(n + 1) for n, sides in enumerate(stations) if len(sides) < 3], f"{name}: {nodes}"
        browser.picture(name.replace(",", "").replace(" ", "-"))
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    print("rings and lines are mapped as such")


def works_with_keys_and_on_a_phone(browser):
    browser.value("document.activeElement.blur(); window.scrollTo(0, 0)")
    reached = set()
    for _ in range(12):
        browser.press("Tab", 9)
        reached.add(browser.value("document.activeElement.id || document.activeElement.name || document.activeElement.className"))
    assert {"skip", "span", "pause"} <= reached, f"the keyboard does not reach all: {reached}"
    for name, width, height, dark in [("desktop-light", 1200, 900, False), ("desktop-dark", 1200, 900, True),
                                      ("phone-light", 360, 780, False), ("phone-dark", 360, 780, True)]:
        browser.size(width, height, dark)
        browser.until(f"outerWidth <= {width} || innerWidth <= {width}", "no such window")
        browser.until("!document.querySelector('#plots svg') || document.querySelector('#plots svg').clientWidth > 0", "no plot")
        browser.until(f"document.documentElement.scrollWidth <= {width}", f"the page is wider than {width}", 15)
        browser.picture(name)
        audit(browser, name)
    browser.size(1200, 900)
    print("it works with the keyboard and at 360 pixels")


def remembers(browser):
    before = time.time()
    subprocess.run([RESTART], check=True)
    browser.until("!(" + LIVE + ")", "the page does not see that the daemon is away", 30)
    browser.until(LIVE, "the page does not find the daemon again")
    known = f"""fetch('/history.json?link=0&span=hour&points=3600').then((answer) => answer.json()).then((history) =>
        history.sent.filter((sent, n) => sent !== null && history.from + n * history.step < {before} - 2).length)"""
    count = browser.value(known)
    assert count >= 3, f"of the time before the restart {count} seconds are known"
    browser.value("document.querySelector('input[value=hour]').click()")
    browser.until("[...document.querySelectorAll('#plots [role=img] path.sent')].every((path) => path.getAttribute('d').split('L').length > 2)", "no plot of the hour")
    browser.picture("hour")
    print(f"after a restart {count} seconds from before it are known")


def works_without_scripts(browser):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.call("Page.navigate", url=PAGE)
    end = time.monotonic() + 60
    while True:
        try:
            document = browser.call("DOM.getDocument")["root"]["nodeId"]
            rows = browser.call("DOM.querySelectorAll", nodeId=document, selector="#rows tr td .state")["nodeIds"]
            if len(rows) == 2:
                break
        except AssertionError as error:
            # The page may come between the two.
            if "Could not find node" not in str(error):
                raise
        assert time.monotonic() < end, "without JavaScript there is no table"
        browser.read(0.1)
    browser.picture("without-scripts")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    print("without JavaScript there is a table")


def asks_for_the_password(browser):
    browser.open("http://192.0.2.1:9320/")
    assert browser.value("document.querySelector('#rows')") is None
    browser.picture("password")
    audit(browser, "password")
    for password, selector in [("wrong horse", ".wrong"), ("correct horse", "#rows tr")]:
        browser.value(f"document.getElementById('password').value = {json.dumps(password)}; document.querySelector('form').submit()")
        browser.until(f"document.querySelector({json.dumps(selector)})", f"after {password}")
    browser.until("[...document.querySelectorAll('.card button')].length === 2", "no links can be taken out")
    browser.value("document.querySelector('.card button').click()")
    browser.until("document.querySelector('#rows .note') && document.querySelector('#rows .note').textContent === 'taken out'", "not taken out")
    browser.picture("taken-out")
    audit(browser, "taken-out")
    browser.value("document.querySelector('.card button').click()")
    browser.until("![...document.querySelectorAll('#rows .note')].some((note) => note.textContent === 'taken out')", "not taken in")
    print("the password is asked for, and links are taken out and in")


def main():
    browser = Browser()
    try:
        for step in (loads_and_moves, names_are_text, shows_each_flows_way, shows_a_packets_life, seen_failure, works_with_keys_and_on_a_phone, remembers,
                     maps_rings, works_without_scripts, asks_for_the_password):
            step(browser)
        complaints = browser.complaints()
        assert not complaints, f"the browser complains: {complaints}"
    finally:
        browser.end()


main()
