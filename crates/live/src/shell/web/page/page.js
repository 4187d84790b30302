"use strict";
(() => {
  const LIVE = 180; // seconds of the plots that move
  const DRAWN = 24; // peers on the map
  const LIVES = 4; // peers of which a packet's life is shown
  const byId = (id) => document.getElementById(id);

  // ---- building blocks: text is only ever set as text
  const fill = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat(9)) {
      if (child !== null && child !== undefined) node.append(child instanceof Node ? child : String(child));
    }
    return node;
  };
  const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
  const svg = (name, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
  const put = (node, ...children) => node.replaceChildren(...children.flat(9).filter((child) => child !== null && child !== undefined));

  const number = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const percent = (share, digits) => (share === null || share === undefined ? "–" : (share * 100).toFixed(digits));
  const two = (n) => String(n).padStart(2, "0");
  const clock = (seconds, exact) => {
    const at = new Date(seconds * 1000);
    return two(at.getHours()) + ":" + two(at.getMinutes()) + (exact ? ":" + two(at.getSeconds()) : "");
  };
  const day = (seconds) => new Date(seconds * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" });
  const lasting = (s) => {
    if (s < 60) return Math.floor(s) + " s";
    if (s < 3600) return Math.floor(s / 60) + " min";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  };
  const bytes = (n) => (n >= 1e6 ? (n / 1e6).toFixed(1) + " MB" : n >= 1e3 ? (n / 1e3).toFixed(1) + " kB" : n + " B");

  // ---- what is known
  let view = JSON.parse(byId("view").textContent);
  let span = "live";
  let paused = false;
  const live = new Map(); // of each link: the newest samples
  const past = new Map(); // of each link and span: a history, and when it was fetched
  const cards = new Map();
  const version = view.status.version;
  const keyOf = (link) => link.of + "\n" + link.name;

  const remember = (now) => {
    count(now);
    for (const link of now.links) {
      const list = live.get(keyOf(link)) || [];
      if (!list.length || list[list.length - 1].t < now.time) {
        list.push({ t: now.time, sent: link.sent_mbit, received: link.received_mbit, delay: link.delay_ms, loss: link.loss, queue: link.queue_ms, up: link.up ? 1 : 0 });
      }
      while (list.length && list[0].t < now.time - LIVE - 5) list.shift();
      live.set(keyOf(link), list);
    }
  };
  // Of each peer: how often a second each of its counters rose lately.
  const rates = new Map();
  let counted = null;
  const count = (now) => {
    const over = counted ? now.time - counted.time : 0, anew = counted && now.status.uptime_s < counted.status.uptime_s;
    if (counted && !anew && over < 0.9) return;
    rates.clear();
    for (const peer of counted && !anew ? now.status.peers : []) {
      const before = counted.status.peers.find((other) => other.name === peer.name);
      if (!before) continue;
      rates.set(peer.name, new Map(Object.entries(peer.counters).map(([name, value]) => [name, Math.max(0, value - (before.counters[name] || 0)) / over])));
    }
    counted = now;
  };
  const unpacked = (history) => history.up.map((up, n) => ({
    t: history.from + n * history.step, sent: history.sent[n], received: history.received[n], delay: history.delay[n],
    loss: history.loss[n], queue: history.queue[n], up, missing: up === null,
  }));

  // ---- plots
  const nice = (max) => {
    if (!(max > 0)) return 1;
    const unit = 10 ** Math.floor(Math.log10(max));
    return [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= max * 0.999);
  };
  const short = (value) => (value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : String(Number(value.toPrecision(2))));
  const plot = (title, unit, points, lines, range, step, width, height) => {
    const left = 38, bottom = 18, top = 8;
    const max = nice(Math.max(...points.flatMap((p) => lines.map((line) => p[line] || 0)), 0));
    const x = (t) => left + ((t - range[0]) / (range[1] - range[0])) * (width - left - 4);
    const y = (v) => height - bottom - (v / max) * (height - bottom - top);
    const marks = [];
    for (const share of [0, 0.5, 1]) {
      marks.push(svg("line", { class: "grid", x1: left, x2: width, y1: y(max * share), y2: y(max * share) }));
      marks.push(svg("text", { x: left - 5, y: y(max * share) + 4, "text-anchor": "end" }, short(max * share)));
    }
    const long = range[1] - range[0] > 90000;
    for (const [share, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
      const at = range[0] + (range[1] - range[0]) * share;
      marks.push(svg("text", { x: x(at), y: height - 4, "text-anchor": anchor }, long ? day(at) : clock(at, range[1] - range[0] < 1000)));
    }
    // Where nothing is known, and where the link was down.
    const bands = [];
    let open = null;
    const close = (end) => { if (open) bands.push(svg("rect", { class: open.kind, x: open.x, y: top, width: Math.max(1, end - open.x), height: height - bottom - top })); open = null; };
    let last = range[0];
    for (const p of points) {
      const at = Math.max(x(p.t), left);
      if (p.missing || p.t - last > step * 2.5) { if (!open || open.kind !== "gap") { close(x(last)); open = { kind: "gap", x: Math.max(x(last), left) }; } }
      if (!p.missing) {
        if (open && open.kind === "gap") close(at);
        if (p.up < 0.999) { if (!open) open = { kind: "gone", x: at }; } else close(at);
        last = p.t;
      }
    }
    if (range[1] - last > step * 2.5) { close(x(last)); open = { kind: "gap", x: Math.max(x(last), left) }; }
    close(width - 4);
    const paths = lines.map((line) => {
      let path = "", begun = false, before = null;
      for (const p of points) {
        const known = !p.missing && p[line] !== null && p[line] !== undefined;
        if (known) path += (begun && p.t - before <= step * 2.5 ? "L" : "M") + x(p.t).toFixed(1) + " " + y(p[line]).toFixed(1);
        begun = known;
        before = p.t;
      }
      return svg("path", { class: line, d: path });
    });
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title + ", " + unit }, bands, marks, paths);
  };
  const key = (unit, lines) => el("ul", { class: "key" }, el("li", null, unit), lines.map(([line, text]) =>
    el("li", null, svg("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" }, line === "gone" || line === "gap"
      ? svg("rect", { class: line, x: 0, y: 0, width: 22, height: 8 }) : svg("path", { class: line, d: "M0 4H22" })), text)));

  const pointsOf = (link) => {
    if (span === "live") {
      const list = live.get(keyOf(link)) || [];
      const old = past.get(keyOf(link) + "\nhour");
      const first = list.length ? list[0].t : Infinity;
      const before = old ? unpacked(old.document).filter((p) => p.t >= view.time - LIVE && p.t < first - 0.5) : [];
      return { points: before.concat(list), range: [view.time - LIVE, view.time], step: old && before.length ? old.document.step : 1 };
    }
    const known = past.get(keyOf(link) + "\n" + span);
    const length = { hour: 3600, day: 86400, year: 31536000 }[span];
    if (!known) return { points: [], range: [view.time - length, view.time], step: 1 };
    return { points: unpacked(known.document), range: [view.time - length, view.time], step: known.document.step };
  };

  const words = (points) => {
    const known = points.filter((p) => !p.missing);
    if (!known.length) return "nothing is known of this time";
    const most = (line) => Math.max(...known.map((p) => p[line] || 0));
    const down = known.filter((p) => p.up < 0.999).length;
    return `sent at most ${number(most("sent"), 2)}, received at most ${number(most("received"), 2)} Mbit/s` +
      (down ? `, down in ${down} of ${known.length} steps` : "");
  };
  const table = (link, points, step) => {
    const every = Math.max(1, Math.floor(points.length / 12));
    const rows = points.filter((p, n) => n % every === 0).slice(-12).reverse();
    const long = step > 60;
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${link.name}, ${link.of}, as numbers` }, el("table", null,
      el("thead", null, el("tr", null, ["Time", "Sent", "Received", "Delay ms", "Loss %", "Queue ms", "Up %"].map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", null, rows.map((p) => el("tr", null, el("th", { scope: "row" }, (long ? day(p.t) + " " : "") + clock(p.t, !long)),
        [number(p.sent, 2), number(p.received, 2), number(p.delay, 1), percent(p.loss, 2), number(p.queue, 1), percent(p.up, 0)].map((cell) => el("td", { class: "number" }, p.missing ? "–" : cell)))))));
  };
  const card = (link) => {
    let known = cards.get(keyOf(link));
    if (!known) {
      const body = el("div"), numbers = el("div"), title = el("h3"), state = el("span"), tools = el("span");
      const details = el("details", null, el("summary", null, "As numbers"), numbers);
      details.addEventListener("toggle", () => draw());
      known = { body, numbers, title, state, details, tools, root: el("section", { class: "card" }, el("header", null, title, state, tools), body, details) };
      known.root.setAttribute("aria-label", link.name + ", " + link.of);
      cards.set(keyOf(link), known);
    }
    put(known.title, link.name, " ", el("span", { class: "of" }, link.of));
    known.state.className = "state " + (link.up ? "up" : "down");
    known.state.textContent = link.state;
    const { points, range, step } = pointsOf(link);
    const width = Math.max(260, known.body.clientWidth || 420);
    const has = (line) => points.some((p) => p[line] !== null && p[line] !== undefined && !p.missing);
    const parts = [plot(link.name + ": " + words(points), "Mbit/s", points, ["sent", "received"], range, step, width, 130),
      key("Mbit/s", [["sent", "sends"], ["received", "receives"], ["gone", "down"], ["gap", "not known"]])];
    if (has("delay") || has("queue")) {
      parts.push(plot(link.name + ": delays", "ms", points, ["delay", "queue"], range, step, width, 92),
        key("ms", [["delay", "round trip"], ["queue", "queue"]].filter(([line]) => has(line))));
    }
    put(known.body, parts);
    if (known.details.open && !known.numbers.contains(document.activeElement)) put(known.numbers, table(link, points, step));
    return known;
  };
  const draw = () => {
    const box = byId("plots");
    const shown = view.links.map((link) => card(link).root);
    if (shown.length !== box.children.length || shown.some((node, n) => box.children[n] !== node)) put(box, shown);
    // Those that were not on the page yet had no width.
    if (draw.width !== box.clientWidth) { draw.width = box.clientWidth; view.links.forEach(card); }
  };

  // ---- the map: who is joined with whom, by what. It is a picture; its words are in the tables.
  const cut = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
  const box = (x, y, width, height, name, up) => svg("g", { class: "node " + (up ? "up" : "down") },
    svg("title", null, name + (up ? "" : ", down")), svg("rect", { x, y, width, height, rx: 6 }),
    svg("text", { x: x + width / 2, y: y + height / 2 + 4, "text-anchor": "middle" }, cut(name, Math.floor((width - 10) / 6.4))));
  const wire = (link, path, x, y, room) => {
    const rate = (link.sent_mbit || 0) + (link.received_mbit || 0);
    const says = link.up ? `↑${number(link.sent_mbit, 1)} ↓${number(link.received_mbit, 1)}` : link.state;
    return svg("g", { class: "wire " + (link.up ? "up" : "down") }, svg("title", null, `${link.name}: ${link.state}`),
      svg("path", { d: path, "stroke-width": (1.5 + 2 * Math.log10(1 + rate)).toFixed(1) }),
      svg("text", { x, y, "text-anchor": "middle" }, cut(link.name, Math.max(3, Math.floor(room / 6) - says.length - 1)) + " " + says));
  };
  const ofPeers = (status, width) => {
    const own = Math.min(140, width * 0.24), theirs = Math.min(180, width * 0.28), gap = 14, each = 30;
    const parts = [], words = [], hub = [];
    let y = 6;
    for (const peer of status.peers.slice(0, DRAWN)) {
      const links = view.links.filter((link) => link.of === peer.name && peer.channels.some((channel) => channel.name === link.name));
      const height = Math.max(34, links.length * each);
      links.forEach((link, n) => hub.push([link, y + (height * (n + 0.5)) / links.length]));
      parts.push(box(width - theirs - 2, y, theirs, height, peer.name, peer.up));
      words.push(`${peer.name} by ${links.map((link) => link.name + " " + link.state).join(", ") || "no channel"}`);
      y += height + gap;
    }
    const height = y - gap + 6, top = Math.max(6, height / 2 - Math.max(20, hub.length * 6)), tall = Math.min(height - 12, Math.max(40, hub.length * 12));
    const from = own + 2, to = width - theirs - 2, middle = (from + to) / 2;
    if (status.peers.length > DRAWN) words.push(`${status.peers.length - DRAWN} peers that are not drawn`);
    hub.forEach(([link, at], n) => {
      const begin = top + (tall * (n + 0.5)) / hub.length;
      parts.push(wire(link, `M${from} ${begin}C${from + 40} ${begin} ${from + 20} ${at} ${from + 70} ${at}L${to} ${at}`, (middle + to) / 2, at - 5, to - middle + 40));
    });
    parts.push(box(2, top, own, tall, status.interface, true));
    if (status.peers.length > DRAWN) parts.push(svg("text", { x: 4, y: height - 8 }, `and ${status.peers.length - DRAWN} peers more`));
    return [parts, words, height];
  };
  // Link n leads from node n to the next; a line has no last one. Its ends know that, and announce no capacity there: one of them that can be reached is enough.
  const linksOf = (ring) => {
    const known = new Map(ring.stations.map((station) => [station.number, station])), all = [];
    for (let n = 1; n <= ring.nodes; n += 1) {
      const next = (n % ring.nodes) + 1, [a, b] = [known.get(n), known.get(next)];
      const mine = ring.node === n ? "east" : ring.node === next ? "west" : null;
      const says = [a && a.reachable ? [a.east_mbit] : [], b && b.reachable ? [b.west_mbit] : []].flat();
      const none = mine ? !ring.links.some((link) => link.side === mine) : says.length > 0 && says.every((mbit) => !mbit);
      if (n === ring.nodes && n > 1 && none) continue;
      all.push({ number: n, next, up: Boolean(a && b && a.east_up && b.west_up) });
    }
    return all;
  };
  const formOf = (ring) => {
    const links = linksOf(ring), down = links.filter((link) => !link.up).map((link) => link.number);
    return [links.length < ring.nodes ? "line" : "ring", down.length ? `${down.length > 1 ? "links" : "link"} ${down.join(", ")} down` : "all links up"];
  };
  const ofRing = (ring, width) => {
    const radius = Math.min(150, width / 2 - 60), height = 2 * radius + 60, x = width / 2, y = height / 2, parts = [];
    const at = (n) => [x + radius * Math.sin((2 * Math.PI * n) / ring.nodes), y - radius * Math.cos((2 * Math.PI * n) / ring.nodes)];
    const known = new Map(ring.stations.map((station) => [station.number, station]));
    for (const link of linksOf(ring)) {
      const [[ax, ay], [bx, by]] = [at(link.number - 1), at(link.next - 1)], says = link.up ? "up" : "down";
      // The two links of two nodes bend apart.
      const bend = ring.nodes === 2 ? (link.number === 1 ? 70 : -70) : 0;
      parts.push(svg("g", { class: "wire " + says }, svg("title", null, `link ${link.number}: ${says}`),
        svg("path", { d: `M${ax} ${ay}Q${(ax + bx) / 2 + bend} ${(ay + by) / 2} ${bx} ${by}`, "stroke-width": 3 })));
    }
    for (let n = 0; n < ring.nodes; n += 1) {
      const [bx, by] = at(n), station = known.get(n + 1);
      parts.push(box(bx - 34, by - 15, 68, 30, n + 1 === ring.node ? `${n + 1}, here` : String(n + 1), Boolean(station && station.reachable)));
    }
    const [form, links] = formOf(ring);
    return [parts, [`others in a ${form} of ${ring.nodes} nodes, ${links}`], height];
  };
  const map = (status) => {
    const width = Math.max(300, Math.min(1180, byId("plots").clientWidth || 700));
    if (!status.ring && !status.peers.length) return null;
    const [parts, words, height] = status.ring ? ofRing(status.ring, width) : ofPeers(status, width);
    return svg("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Map: ${status.interface} is joined with ${words.join("; ")}. The table of links says more.` }, parts);
  };

  // ---- tables
  const row = (link) => el("tr", { role: "row" },
    el("th", { role: "rowheader", scope: "row" }, link.name, " ", el("span", { class: "of" }, link.of)),
    el("td", { role: "cell", "data-label": "State" }, el("span", { class: "state " + (link.up ? "up" : "down") }, link.state),
      link.note ? el("span", { class: "note" }, link.note) : null),
    [["Sends, Mbit/s", number(link.sent_mbit, 2)], ["Receives, Mbit/s", number(link.received_mbit, 2)], ["Carries, Mbit/s", number(link.capacity_mbit, 1)],
      ["Round trip, ms", number(link.delay_ms, 1)], ["Loss, %", percent(link.loss, 2)], ["Queue, ms", number(link.queue_ms, 1)]]
      .map(([label, text]) => el("td", { role: "cell", class: "number", "data-label": label }, text)));
  const grid = (label, heads, rows) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label + ", table" }, el("table", null,
    el("thead", null, el("tr", null, heads.map(([head, kind]) => el("th", { scope: "col", class: kind }, head)))),
    el("tbody", null, rows.map((cells) => el("tr", null, cells.map((cell, n) => (n ? el("td", { class: heads[n][1] }, cell) : el("th", { scope: "row" }, cell))))))));
  const n = "number";
  const section = (id, content) => {
    const node = byId(id);
    node.hidden = !content;
    if (content) {
      const body = node.querySelector(".body");
      if (!body.contains(document.activeElement)) return put(body, content);
      // Where the keyboard is, the tables stay, and what is in them is new.
      const fresh = el("div", null, content).querySelectorAll("tbody"), old = body.querySelectorAll("tbody");
      if (fresh.length === old.length) old.forEach((rows, place) => rows.replaceChildren(...fresh[place].children));
    }
  };
  const list = (pairs) => el("dl", null, pairs.filter(Boolean).map(([term, text]) => [el("dt", null, term), el("dd", null, text)]));

  const control = (link) => {
    const known = cards.get(keyOf(link));
    if (!known || !view.control || link.taken_out === null || link.taken_out === undefined) return;
    const button = known.tools.firstChild || el("button");
    button.textContent = link.taken_out ? "Take in again" : "Take out";
    button.onclick = async () => {
      const body = new URLSearchParams({ of: link.of, name: link.name });
      const answer = await fetch(link.taken_out ? "/take-in" : "/take-out", { method: "POST", body }).catch(() => null);
      byId("news").textContent = answer && answer.ok ? link.name + (link.taken_out ? " is in again" : " was taken out") : "It could not be done: " + (answer ? await answer.text() : "no answer");
    };
    if (!known.tools.firstChild) known.tools.append(button);
  };

  const peers = (status) => status.peers.length ? status.peers.map((peer) => el("article", null, el("h3", null, peer.name, " ", el("span", { class: "state " + (peer.up ? "up" : "down") }, peer.up ? "up" : "down")),
    list([["Mode", peer.mode + (peer.policy ? ", " + peer.policy : "")], ["MTU", peer.mtu + " bytes"],
      ["Channels", peer.channels.map((channel) => channel.name + (channel.remote ? " to " + channel.remote : "")).join(", ") || "none"],
      peer.queue && ["Waiting", bytes(peer.queue.waiting_bytes) + " in " + peer.queue.discipline],
      peer.queue && peer.queue.delay && ["Wait", number(peer.queue.delay.median_ms, 1) + " ms, 99 % within " + number(peer.queue.delay.p99_ms, 1) + " ms"],
      peer.peer_mode && ["The peer", "has mode " + peer.peer_mode]]))) : null;
  const flows = (status) => {
    const queues = [...status.peers.map((peer) => [peer.name, peer.queue]), ...status.peers.filter((peer) => peer.split).map((peer) => ["gateway to " + peer.name, peer.split.queue]), ...(status.shape ? status.shape.directions.map((d) => [d.name, d]) : []),
      ...(status.gateway ? [["gateway", status.gateway.queue]] : [])];
    const all = queues.flatMap(([of, queue]) => (queue && queue.flows ? queue.flows.map((flow) => [of, flow]) : [])).filter(([, flow]) => flow.mbit > 0 || flow.waiting > 0);
    all.sort((a, b) => b[1].mbit - a[1].mbit);
    if (!queues.some(([, queue]) => queue && queue.flows)) return null;
    if (!all.length) return el("p", null, "Nothing was sent in the last second.");
    const shown = all.slice(0, 30);
    const table = (wayed) => grid("Flows", [["Flow", ""], ["By", ""], ["Mbit/s", n], ...(wayed ? [["Class", ""], ["Goes by", ""]] : []), ["Packets", n], ["Dropped", n], ["Marked", n], ["Waiting", n]],
      shown.map(([of, flow]) => [flow.flow, of, number(flow.mbit, 2), ...(wayed ? [classOf(flow), waysOf(flow)] : []), flow.packets, flow.dropped, flow.marked, flow.waiting]));
    if (!shown.some(([, flow]) => flow.ways || flow.class)) return table(false);
    return [el("p", { class: "hint" }, "What this end sends, in the last whole second; copies and repairs count where they go. Why a class goes by these channels stands below, under its name."), table(true)];
  };
  const classOf = (flow) => (flow.class ? [flow.class, el("span", { class: "note" }, flow.because)] : "–");
  const bar = (share) => svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { class: "all", width: 100, height: 8 }), svg("rect", { class: "part", width: (share * 100).toFixed(1), height: 8 }));
  const waysOf = (flow) => (flow.ways ? el("ul", { class: "ways" }, flow.ways.map((way) => el("li", null, bar(way.share),
    `${way.channel} ${percent(way.share, 0)} %`, el("span", { class: "of" }, ` ${number(way.mbit, 2)}`)))) : "–");
  // What happens to packets between two hosts, station by station, and how many it happens to.
  const SENT = [["dropped, no room", "queue_full"], ["dropped early", "early_dropped"], ["marked", "early_marked"], ["dropped, no channel is up", "no_channel"], ["dropped, too long", "host_too_big"]];
  const ADDED = [["sent once more, to be in time", "spare_copies", "urgent_copies"], ["rows of parity", "parity_sent"], ["sent again, being lost", "resent"], ["sent by another channel as well, theirs being slow", "detoured"]];
  const ORDERED = [["waited for others", "held_packets"], ["rebuilt by parity", "rebuilt"], ["missing", "packets_missing"], ["came twice", "duplicates"], ["came too late", "late"]];
  const each = (rate, what) => `${rate >= 10 ? Math.round(rate) : number(rate, 1)}${what || ""} a second`;
  const lives = (status) => {
    const shown = status.peers.slice(0, LIVES);
    const life = (peer) => {
      const rate = rates.get(peer.name), of = (...names) => names.reduce((sum, name) => sum + ((rate && rate.get(name)) || 0), 0);
      const happened = (kinds) => kinds.filter(([, ...names]) => of(...names) > 0).map(([what, ...names]) => el("p", { class: "note" }, `${what}: ${each(of(...names))}`));
      const links = view.links.filter((link) => link.of === peer.name && peer.channels.some((channel) => channel.name === link.name));
      const by = (key) => {
        const all = links.reduce((sum, link) => sum + (link[key] || 0), 0);
        return el("ul", { class: "ways" }, links.map((link) => el("li", null, bar(all ? (link[key] || 0) / all : 0), link.name, el("span", { class: "note" }, link.up ? `${number(link[key], 2)} Mbit/s` : link.state))));
      };
      const packets = (count, size) => (rate ? el("p", null, each(of(count), " packets"), el("span", { class: "note" }, number(of(size) * 8e-6, 2) + " Mbit/s")) : el("p", null, "–"));
      const station = (title, ...parts) => el("li", null, el("strong", null, title), parts.map((part) => part || null));
      const queue = peer.queue, order = { plain: null, flow: null, duplicate: "Doubles are left out" }[peer.mode];
      const waits = queue ? [el("p", null, bytes(queue.waiting_bytes) + " now"), queue.delay && el("p", { class: "note" }, `waited ${number(queue.delay.median_ms, 1)} ms, 99 % within ${number(queue.delay.p99_ms, 1)} ms`)]
        : [el("p", null, bytes(peer.channels.reduce((sum, channel) => sum + (channel.queued_bytes || 0), 0)) + " now")];
      return el("article", null, el("h3", null, peer.name),
        el("h4", null, "From this host"), el("ol", { class: "life" }, station("This host", packets("host_packets", "host_bytes")), station("Waits for a channel", waits, happened(SENT)),
          station("Goes by", by("sent_mbit"), happened(ADDED)),
          station("Is under way", el("ul", { class: "ways" }, links.filter((link) => link.up).map((link) => el("li", null, link.name, el("span", { class: "note" }, `${number(link.delay_ms, 1)} ms there and back, ${number(link.queue_ms, 1)} ms of it in a queue, ${percent(link.loss, 2)} % lost`)))))),
        el("h4", null, "To this host"), el("ol", { class: "life" }, station("Comes by", by("received_mbit")),
          order === null ? null : station(order || "Is put in order", rate ? happened(ORDERED) : el("p", null, "–"), rate && !ORDERED.some(([, ...names]) => of(...names) > 0) ? el("p", null, "Nothing waits, and nothing is missing") : null),
          station("This host", packets("delivered_packets", "delivered_bytes"))));
    };
    if (!shown.length) return null;
    return [el("p", { class: "hint" }, "What happened to packets in the last second, and what waits now. For how long packets waited is of the last 10 to 20 seconds." + (status.peers.length > LIVES ? ` Of ${status.peers.length} peers the first ${LIVES} are shown.` : "")), shown.map(life)];
  };
  const classes = (status) => {
    const all = status.peers.flatMap((peer) => (peer.classes || []).map((one) => [peer.name, one]));
    return all.length ? grid("Traffic classes", [["Class", ""], ["Peer", ""], ["Matches", ""], ["Mode", ""], ["Carried by", ""], ["Packets", n], ["Bytes", n], ["Dropped", n]],
      all.map(([peer, one]) => [one.name, peer, Object.entries(one.matches).map(([k, v]) => k + " " + v).join(", "), one.mode, one.carried_by.join(", ") || "–",
        one.counters.packets || 0, bytes(one.counters.bytes || 0), one.counters.dropped || 0])) : null;
  };
  const decisions = (status) => status.peers.flatMap((peer) => (peer.explained || []).map((told) => el("article", null,
    el("h3", null, peer.name, ": ", told.name, " ", el("span", { class: "of" }, told.mode)),
    el("p", null, "By " + (told.channels.join(", ") || "no channel") + "."),
    [["Because", told.because], ["Would change if", told.would_change_if]].filter(([, sentences]) => sentences.length)
      .map(([title, sentences]) => [el("h4", null, title), el("ul", null, sentences.map((sentence) => el("li", null, sentence)))]))));
  const ring = (status) => status.ring ? [list([["This node", status.ring.node + " of " + status.ring.nodes], ["Form", formOf(status.ring).join(", ")], ["Fairness", status.ring.algorithm]]),
    el("br"), grid("Nodes of the ring", [["Node", ""], ["East", ""], ["West", ""], ["East Mbit/s", n], ["West Mbit/s", n], ["Reached", ""], ["Networks", ""]],
      status.ring.stations.map((s) => [s.number, s.east_up ? "up" : "down", s.west_up ? "up" : "down", number(s.east_mbit, 1), number(s.west_mbit, 1), s.reachable ? "yes" : "no", s.networks.map((net) => net.network).join(", ")]))] : null;
  const gateways = (status) => {
    const all = [...status.peers.filter((peer) => peer.split).map((peer) => [peer.name, peer.split]), ...(status.gateway ? [["gateway", status.gateway]] : [])];
    return all.length ? all.map(([of, gateway]) => [el("p", null, `${of}: ${gateway.open} of at most ${gateway.most_open} connections, ${gateway.opened} since the beginning.`),
      gateway.connections.length ? grid("Split connections of " + of, [["Caller", ""], ["Called", ""], ["Mbit/s to the caller", n], ["Mbit/s to the called", n], ["Held back by", ""]],
        gateway.connections.slice(0, 20).map((c) => [c.caller, c.called, number(c.caller_side.rate_mbit, 2), number(c.called_side.rate_mbit, 2), c.called_side.limited_by || c.caller_side.limited_by || "–"])) : null]) : null;
  };
  const counters = (status) => {
    const groups = [["daemon", status.counters], ...status.peers.map((peer) => [peer.name, peer.counters]), ...(status.bond ? [["bond", status.bond.counters]] : []), ...(status.ring ? [["ring", status.ring.counters]] : []),
      ...(status.shape ? status.shape.directions.map((d) => [d.name, d.counters]) : []), ...status.peers.filter((peer) => peer.split).map((peer) => ["gateway to " + peer.name, peer.split.counters]), ...(status.gateway ? [["gateway", status.gateway.counters]] : [])];
    const open = new Set([...byId("counters").querySelectorAll("details[open]")].map((node) => node.dataset.of));
    return groups.map(([of, values]) => {
      const rows = Object.entries(values).filter(([, value]) => value > 0);
      const details = el("details", { "data-of": of, open: open.has(of) }, el("summary", null, `${of}: ${rows.length} counters above zero`));
      if (open.has(of)) details.append(grid("Counters of " + of, [["Counter", ""], ["Value", n]], rows));
      else details.addEventListener("toggle", () => { if (details.open) details.append(grid("Counters of " + of, [["Counter", ""], ["Value", n]], rows)); }, { once: true });
      return details;
    });
  };
  const events = (status) => status.events.slice().reverse().map((event) => el("li", null, el("time", { datetime: new Date(event.at * 1000).toISOString() }, (view.time - event.at > 80000 ? day(event.at) + " " : "") + clock(event.at, true)), " ",
    el("span", { class: "level " + event.level }, event.level), " ", event.text));

  const render = () => {
    const status = view.status;
    byId("summary").textContent = `up ${lasting(status.uptime_s)} · MTU ${status.mtu} · ${status.version}`;
    put(byId("rows"), view.links.map(row));
    const kept = byId("kept"), history = view.history;
    const texts = [];
    if (history.problem) texts.push(`The history is not kept on the disk since ${clock(history.since, true)} (${history.file}: ${history.problem}). What happens meanwhile is in memory, and gone when the daemon ends.`);
    if (history.without) texts.push(`${history.without} links have no history: there are too many.`);
    kept.hidden = !texts.length;
    kept.textContent = texts.join(" ");
    draw();
    view.links.forEach(control);
    section("map", map(status));
    section("peers", peers(status));
    section("ring", ring(status));
    section("gateway", gateways(status));
    section("flows", flows(status));
    section("life", lives(status));
    section("classes", classes(status));
    const told = decisions(status);
    byId("decided").hidden = !told.length;
    put(byId("decisions"), told);
    put(byId("events"), events(status));
    section("counters", counters(status));
  };

  // ---- news, for those who do not see
  const states = new Map();
  const tell = () => {
    const changed = [];
    for (const link of view.links) {
      const before = states.get(keyOf(link));
      if (before !== undefined && before !== link.state) changed.push(`${link.name} is ${link.state}`);
      states.set(keyOf(link), link.state);
    }
    if (changed.length) byId("news").textContent = changed.join(", ");
  };

  // ---- fetching
  let fetching = false;
  let generation = 0; // of the daemon
  const refresh = async () => {
    if (fetching) return;
    fetching = true;
    const wanted = span === "live" ? "hour" : span;
    const began = generation;
    for (const link of view.links) {
      const place = keyOf(link) + "\n" + wanted;
      const known = past.get(place);
      const fresh = known && Date.now() - known.at < (span === "live" ? 1e12 : Math.max(5000, known.document.step * 500));
      if (link.history === null || link.history === undefined || fresh) continue;
      const points = wanted === "hour" ? 1800 : 720;
      // The daemon may end in the middle of an answer.
      const read = async (answer) => (answer.ok ? answer.json() : null);
      const history = await fetch(`/history.json?link=${link.history}&span=${wanted}&points=${points}`).then(read).catch(() => null);
      // Of another run of the daemon: there it may be another link's.
      if (!history || generation !== began) break;
      past.set(place, { document: history, at: Date.now() });
    }
    fetching = false;
  };
  const connection = (text, good) => {
    const chip = byId("connection");
    chip.hidden = false;
    if (chip.textContent !== text) chip.textContent = text;
    chip.className = "chip " + (good ? "up" : "down");
  };
  let source;
  const listen = () => {
    source = new EventSource("/live");
    source.onmessage = (message) => {
      const now = JSON.parse(message.data);
      if (now.status.version !== version) return location.reload();
      // A daemon that began anew has histories in other places.
      if (now.status.uptime_s < view.status.uptime_s) { past.clear(); generation += 1; }
      remember(now);
      if (paused) return;
      view = now;
      connection("live", true);
      tell();
      refresh().then(() => { if (!paused) render(); });
    };
    source.onerror = async () => {
      connection("no answer from the daemon, trying again", false);
      if (source.readyState !== EventSource.CLOSED) return;
      source.close();
      const answer = await fetch("/view.json").catch(() => null);
      if (answer && answer.status === 401) return location.reload();
      setTimeout(listen, 2000);
    };
  };

  byId("tools").hidden = false;
  byId("spans").addEventListener("change", (event) => { span = event.target.value; refresh().then(render); });
  byId("pause").addEventListener("click", () => {
    paused = !paused;
    byId("pause").setAttribute("aria-pressed", String(paused));
    byId("pause").textContent = paused ? "Go on" : "Pause";
    if (paused) connection("paused", true);
  });
  addEventListener("resize", () => draw());
  remember(view);
  tell();
  render();
  listen();
})();
