//! All connections that are split: how they come to be, what their sockets tell, and how they end.

use super::budget::{Budget, Weight};
use super::connection::{Asked, Connection, Explicit, Held};
use super::half::Half;
use super::headers::Way;
use super::leavers::Leavers;
use super::pipes::Pipes;
use super::proxy::{Wanted, say};
use super::reach::Reach;
use super::request::Failure;
use super::socket::{Sockets, accept};
use crate::config::Gateway;
use crate::shell::poller::{Poller, Token};
use fairspan_core::split::Level;
use fairspan_core::split::relay::Side;
use fairspan_core::units::{FlowNumber, Rate, Span, Time};
use rustix::io::Errno;
use socket2::Socket;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

/// How long the far end may take to answer, and then the caller to be there.
const SET_UP_WITHIN: Span = Span::from_secs(30);
/// Connections accepted before others get their turn.
const AT_ONCE: usize = 64;
/// Where a bond shares the thread: bytes that all connections together move before it has its turn, and what each that is ready moves
/// beyond that.
const TURN: (u64, u64) = (4 << 20, 64 << 10);
/// What a connection sends between two looks tells how long its packets wait: so many bytes, for more than single acknowledgments.
const BUSY: u64 = 16 << 10;
/// So many of them are asked.
const ASKED: usize = 16;
/// Numbers of directions of connections, which no other flow has.
pub(super) const SPLIT: u32 = 1 << 31;
/// How often each connection's round trips are measured: one part of all at a time.
const PARTS: usize = 10;

/// One end of a connection, by the place of the connection in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) number: u32,
    pub(super) side: Side,
}

/// What the table tells of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// These two flows are the directions of a connection from now on.
    Opened([FlowNumber; 2]),
    /// The far end has answered the SYN that is held.
    Answered(u32),
    /// The far end could not be reached with it.
    Refused(u32, Errno),
    /// Nobody waits for it any more.
    Abandoned(u32),
    /// Both round trips of a connection are known: from where to where, whether it came by the long link, the longer one.
    Measured(Way, bool, Span),
    /// The connection is over.
    Closed([FlowNumber; 2]),
}

/// What became of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) opened: u64,
    pub(super) finished: u64,
    pub(super) refused: u64,
    pub(super) abandoned: u64,
    pub(super) strangers: u64,
    pub(super) no_descriptors: u64,
    /// Addresses that clients of the proxy may not reach.
    pub(super) forbidden: u64,
    /// Bytes that were moved.
    pub(super) moved: u64,
}

/// The table.
#[derive(Debug)]
pub(super) struct Connections {
    table: Vec<Option<Connection>>,
    free: Vec<u32>,
    ways: HashMap<Way, Place>,
    /// By the slot of a socket's token.
    sockets: Vec<Option<(Token, Place)>>,
    next_flow: u32,
    pub(super) settings: Sockets,
    reach: Reach,
    budget: Budget,
    scale: u64,
    rate: Option<Rate>,
    /// What each that sends by the long link has of it, in bytes a second.
    part_of_rate: Option<u64>,
    pipes: Pipes,
    leavers: Leavers,
    poller: Poller,
    /// Of the long round trips of those that sent of late, the shortest one that was, and how much longer it is, where that is least.
    pub(super) wait: Option<(Span, Span)>,
    /// Bytes that may be moved in this turn of the thread; `None`: nobody else needs it.
    turn: Option<u64>,
    /// Connections that are being set up.
    half_open: u32,
    part: usize,
    pub(super) counts: Counts,
    pub(super) news: Vec<News>,
    /// Connections that something happened to since it was last asked.
    touched: Vec<u32>,
}

/// What an end was not given yet is lost with the gateway. So both ends are reset: neither is to take that for all there was.
impl Drop for Connections {
    fn drop(&mut self) {
        self.table.iter_mut().flatten().flat_map(|connection| &mut connection.halves).flatten().for_each(Half::abort);
        self.sockets.iter().flatten().for_each(|(token, _)| self.poller.forget(*token));
    }
}

impl Connections {
    pub(super) fn new(config: &Gateway, settings: Sockets, reach: Reach, poller: &Poller) -> Connections {
        let budget = Budget::new(config);
        Connections {
            table: Vec::new(),
            free: Vec::new(),
            ways: HashMap::new(),
            sockets: Vec::new(),
            next_flow: SPLIT,
            settings,
            reach,
            scale: budget.scale(),
            budget,
            rate: config.rate,
            part_of_rate: config.rate.map(bytes_a_second),
            pipes: Pipes::default(),
            leavers: Leavers::default(),
            poller: poller.clone(),
            wait: None,
            turn: config.of_peer.is_some().then_some(TURN.0),
            half_open: 0,
            part: 0,
            counts: Counts::default(),
            news: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Other settings.
    pub(super) fn change(&mut self, config: &Gateway) {
        self.budget.change(config);
        self.reach.change(config);
        self.rate = config.rate;
        self.share_memory();
        self.pace_all();
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What all sockets' buffers may hold, in bytes.
    pub(super) fn granted(&self) -> u64 {
        let halves = self.iter().flat_map(|connection| connection.halves.iter().flatten());
        halves.chain(self.leavers.halves()).map(|half| half.buffers.0).sum()
    }

    pub(super) fn half_open(&self) -> u32 {
        self.half_open
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.table.iter().flatten()
    }

    /// Whose segments go this way.
    pub(super) fn find(&self, way: Way) -> Option<Place> {
        self.ways.get(&way).copied()
    }

    pub(super) fn get(&self, number: u32) -> Option<&Connection> {
        self.table.get(number as usize)?.as_ref()
    }

    /// The level behind the flow of a place, if its connection is still there.
    pub(super) fn level(&self, place: Place) -> Option<(FlowNumber, Level)> {
        let connection = self.get(place.number).filter(|connection| connection.is_open())?;
        Some((connection.flows[place.side as usize], connection.level(place.side)))
    }

    /// Another turn of the thread begins.
    pub(super) fn begin_turn(&mut self) {
        self.turn = self.turn.map(|_| TURN.0);
    }

    /// Connections that something happened to.
    pub(super) fn take_touched(&mut self, into: &mut Vec<u32>) {
        std::mem::swap(&mut self.touched, into);
        self.touched.clear();
    }

    /// Calls the far end for a SYN that is held.
    ///
    /// # Errors
    /// What the kernel says at once.
    pub(super) fn call(&mut self, now: Time, way: Way, from_long: bool, dscp: u8, held: Held) -> io::Result<()> {
        let number = self.begin(now, Some(way.source), way, from_long, dscp)?;
        self.with(number, |connection| connection.held = Some(held));
        for (way, side) in [(way, Side::Caller), (way.back(), Side::Called)] {
            self.ways.insert(way, Place { number, side });
        }
        Ok(())
    }

    /// Calls the far end for a client of the proxy, at one of these addresses.
    pub(super) fn call_for(&mut self, now: Time, wanted: Wanted, addresses: Vec<SocketAddr>) {
        let Wanted { socket, remote, request, host, port, dscp, early } = wanted;
        let name = format!("{host}:{port}");
        let explicit = Explicit { socket: Some(socket), request, early, others: addresses, name, dscp };
        self.try_next(now, remote, Box::new(explicit), Failure::NoName);
    }

    fn try_next(&mut self, now: Time, remote: SocketAddr, mut explicit: Box<Explicit>, mut why: Failure) {
        while !explicit.others.is_empty() {
            let mut destination = explicit.others.remove(0);
            destination.set_ip(destination.ip().to_canonical());
            if !self.reach.allows(destination.ip()) {
                self.counts.forbidden += 1;
                why = Failure::Forbidden;
                continue;
            }
            if !self.budget.has_room() {
                why = Failure::General;
                continue;
            }
            match self.begin(now, None, Way { source: remote, destination }, false, explicit.dscp) {
                Ok(number) => {
                    self.with(number, |connection| {
                        connection.dscp = [explicit.dscp; 2];
                        connection.explicit = Some(explicit);
                    });
                    return;
                }
                Err(error) => why = Failure::of(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }
        }
        self.counts.refused += 1;
        turn_away(&explicit, why);
    }

    /// Begins to call, from `source` where that is given; the number of the connection.
    fn begin(&mut self, now: Time, source: Option<SocketAddr>, way: Way, from_long: bool, dscp: u8) -> io::Result<u32> {
        let weight = Weight::of(Span::ZERO);
        let is_long = !from_long;
        let called = self.settings.call(source, way.destination, is_long, self.budget.share(weight));
        let socket = called.inspect_err(|error| self.counts.no_descriptors += u64::from(is_descriptors(error)))?;
        let mut called = Half::new(socket, is_long, false, &self.poller)?;
        called.mark(dscp);
        let flows = [FlowNumber(self.next_flow), FlowNumber(self.next_flow + 1)];
        self.next_flow = self.next_flow.wrapping_add(2) | SPLIT;
        let mut connection = Connection::new(way, from_long, called, flows, now);
        connection.dscp[Side::Caller as usize] = dscp;
        let number = self.insert(connection);
        self.half_open += 1;
        self.budget.add(weight);
        self.budget.add(weight);
        self.register(number, Side::Called);
        Ok(number)
    }

    fn with(&mut self, number: u32, change: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.table.get_mut(number as usize).and_then(Option::as_mut) {
            change(connection);
        }
    }

    fn insert(&mut self, connection: Connection) -> u32 {
        if let Some(number) = self.free.pop() {
            self.table[number as usize] = Some(connection);
            return number;
        }
        self.table.push(Some(connection));
        (self.table.len() - 1) as u32
    }

    fn register(&mut self, number: u32, side: Side) {
        let Some(connection) = self.table.get_mut(number as usize).and_then(Option::as_mut) else { return };
        let Some(half) = connection.halves[side as usize].as_mut() else { return };
        half.share(&self.budget);
        half.pace(self.part_of_rate.filter(|_| half.is_long));
        let slot = half.token.slot();
        if self.sockets.len() <= slot {
            self.sockets.resize(slot + 1, None);
        }
        self.sockets[slot] = Some((half.token, Place { number, side }));
        if self.budget.scale() > self.scale {
            self.share_memory();
        }
    }

    /// Accepts the callers whose far ends have answered.
    ///
    /// # Errors
    /// `EMFILE` and its like: no descriptors are left.
    pub(super) fn accept(&mut self, now: Time, listener: &Socket) -> Result<(), Errno> {
        for _ in 0..AT_ONCE {
            match accept(listener) {
                Ok(Some((socket, way))) => self.admit(now, socket, way),
                Ok(None) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => {
                    self.counts.no_descriptors += 1;
                    return Err(errno);
                }
            }
        }
        Ok(())
    }

    fn admit(&mut self, now: Time, socket: Socket, way: Way) {
        let place = self.find(way).filter(|place| place.side == Side::Caller);
        let awaited = place.filter(|place| self.get(place.number).is_some_and(Connection::awaits_caller));
        let Some(Place { number, .. }) = awaited else {
            // Nobody asked for it through the gateway, or it took too long.
            self.counts.strangers += 1;
            let _ = socket.set_linger(Some(std::time::Duration::ZERO));
            return;
        };
        self.join(now, number, socket);
    }

    /// The caller's own end is there.
    fn join(&mut self, now: Time, number: u32, socket: Socket) {
        let Some(connection) = self.table.get_mut(number as usize).and_then(Option::as_mut) else { return };
        let prepared = self.settings.prepare(&socket, connection.from_long).map_err(|_| Errno::INVAL);
        let joined = prepared.and_then(|()| Half::new(socket, connection.from_long, true, &self.poller));
        let Ok(mut half) = joined else { return self.give_up(number) };
        half.mark(connection.dscp[Side::Called as usize]);
        connection.halves[Side::Caller as usize] = Some(half);
        connection.since = now;
        self.half_open -= 1;
        self.counts.opened += 1;
        self.news.push(News::Opened(connection.flows));
        self.register(number, Side::Caller);
        self.measure(number);
        self.advance(now, number);
    }

    /// The far end has answered a client of the proxy: so is the client.
    fn answer(&mut self, now: Time, number: u32) {
        let Some(connection) = self.table.get_mut(number as usize).and_then(Option::as_mut) else { return };
        let Some(called) = &connection.halves[Side::Called as usize] else { return };
        let Some(explicit) = &mut connection.explicit else { return };
        let Some(socket) = explicit.socket.take() else { return };
        let bound = called.socket.local_addr().ok().and_then(|address| address.as_socket());
        let bound = bound.unwrap_or(connection.way.destination);
        let early = std::mem::take(&mut explicit.early);
        if say(&called.socket, &early) && say(&socket, &explicit.request.success(bound)) {
            self.join(now, number, socket);
        } else {
            self.give_up(number);
        }
    }

    /// Whether `token` is of one of these sockets.
    pub(super) fn has(&self, token: Token) -> bool {
        self.place(token).is_some()
    }

    fn place(&self, token: Token) -> Option<Place> {
        let known = self.sockets.get(token.slot()).copied().flatten();
        known.filter(|(known, _)| *known == token).map(|(_, place)| place)
    }

    /// A socket can be read or written; whether it is one of these.
    pub(super) fn on_ready(&mut self, now: Time, token: Token, writable: bool) -> bool {
        let Some(place) = self.place(token) else { return false };
        let connection = self.table.get_mut(place.number as usize).and_then(Option::as_mut);
        if let Some(half) = connection.and_then(|connection| connection.halves[place.side as usize].as_mut()) {
            if writable {
                half.on_writable()
            } else {
                half.on_readable()
            }
            self.advance(now, place.number);
        }
        true
    }

    /// Does what can be done for a connection now.
    fn advance(&mut self, now: Time, number: u32) {
        let Some(connection) = self.table.get_mut(number as usize).and_then(Option::as_mut) else { return };
        let most = self.turn.map_or(u64::MAX, |left| left.max(TURN.1));
        let (moved, asked) = connection.advance(most, &mut self.pipes);
        self.turn = self.turn.map(|left| left.saturating_sub(moved));
        match asked {
            Some(Asked::Accept) if connection.explicit.is_some() => {
                connection.settle(&self.poller);
                self.answer(now, number);
                return;
            }
            Some(Asked::Accept) => {
                self.news.extend(connection.held.take().map(|held| News::Answered(held.id)));
                connection.answered = Some(now);
                connection.settle(&self.poller);
            }
            Some(Asked::Refuse(errno)) => {
                if let Some(explicit) = connection.explicit.take() {
                    let remote = connection.way.source;
                    self.remove(number);
                    return self.try_next(now, remote, explicit, Failure::of(errno));
                }
                self.counts.refused += 1;
                self.news.extend(connection.held.take().map(|held| News::Refused(held.id, errno)));
                self.remove(number);
                return;
            }
            Some(Asked::End) => {
                self.counts.finished += 1;
                self.remove_when_sent(now, number);
                return;
            }
            None => connection.settle(&self.poller),
        }
        self.touched.push(number);
    }

    /// A caller takes back what it asked for, or it has taken too long.
    pub(super) fn give_up(&mut self, number: u32) {
        let Some(connection) = self.table.get_mut(number as usize).and_then(Option::as_mut) else { return };
        connection.halves.iter_mut().flatten().for_each(Half::abort);
        self.counts.abandoned += 1;
        self.news.extend(connection.held.take().map(|held| News::Abandoned(held.id)));
        connection.explicit.iter().for_each(|explicit| turn_away(explicit, Failure::TimedOut));
        self.remove(number);
    }

    /// It passes unsplit after all: the SYN that was held, whose verdict is still to come. The far end is called no more, and hears nothing of that.
    pub(super) fn let_pass(&mut self, number: u32) -> Option<Held> {
        let connection = self.table.get_mut(number as usize).and_then(Option::as_mut)?;
        let held = connection.held.take()?;
        self.remove(number);
        Some(held)
    }

    /// A packet of a connection has come, with this DSCP.
    pub(super) fn on_packet(&mut self, place: Place, dscp: u8) {
        self.with(place.number, |connection| connection.dscp[place.side as usize] = dscp);
    }

    fn remove(&mut self, number: u32) {
        for half in self.take_out(number) {
            self.budget.remove(half.weight());
        }
    }

    /// The same for one that has ended in order: its ends count until all has arrived that they were given.
    fn remove_when_sent(&mut self, now: Time, number: u32) {
        for half in self.take_out(number) {
            if let Some(half) = self.leavers.take(now, half) {
                self.budget.remove(half.weight());
            }
        }
    }

    /// Takes a connection out of the table; its ends count still.
    fn take_out(&mut self, number: u32) -> Vec<Half> {
        let Some(connection) = self.table.get_mut(number as usize).and_then(Option::take) else { return Vec::new() };
        if connection.explicit.is_none() {
            self.ways.remove(&connection.way);
            self.ways.remove(&connection.way.back());
        }
        self.free.push(number);
        let was_open = connection.halves.iter().all(Option::is_some);
        if was_open {
            self.news.push(News::Closed(connection.flows));
        } else {
            self.half_open -= 1;
        }
        let mut halves = Vec::with_capacity(2);
        for half in connection.halves {
            let Some(mut half) = half else {
                self.budget.remove(Weight::of(Span::ZERO));
                continue;
            };
            self.counts.moved += half.given;
            if let Some(known) = self.sockets.get_mut(half.token.slot()) {
                *known = None;
            }
            half.detach(&self.poller, &mut self.pipes);
            halves.push(half);
        }
        halves
    }

    /// Measures a connection's round trips, and gives it its share of the memory by them.
    fn measure(&mut self, number: u32) {
        let Some(connection) = self.table.get_mut(number as usize).and_then(Option::as_mut) else { return };
        let mut longer = Span::ZERO;
        for (half, dscp) in connection.halves.iter_mut().zip([connection.dscp[1], connection.dscp[0]]) {
            let Some(half) = half else { continue };
            half.mark(dscp);
            let before = half.weight();
            let info = half.measure();
            longer = longer.max(info.least_round_trip);
            let after = Weight::of(half.round_trip);
            if after.differs(before) {
                half.set_weight(after);
                self.budget.remove(before);
                self.budget.add(after);
                half.share(&self.budget);
            }
        }
        if connection.is_open() {
            self.news.push(News::Measured(connection.way, connection.from_long, longer));
        }
    }

    /// A tenth of a second has passed: ends what takes too long, measures one part, and paces all.
    pub(super) fn look(&mut self, now: Time) {
        let late: Vec<u32> =
            self.numbers(|connection| !connection.is_open() && now.since(connection.since) > SET_UP_WITHIN);
        late.into_iter().for_each(|number| self.give_up(number));
        self.leavers.look(now, |weight| self.budget.remove(weight));
        self.part = (self.part + 1) % PARTS;
        let part = self.part;
        for number in self.numbers(|_| true).into_iter().filter(|number| *number as usize % PARTS == part) {
            self.measure(number);
            self.look_at_rates(number);
        }
        if self.budget.scale() != self.scale {
            self.share_memory();
        }
        self.pace_all();
    }

    fn look_at_rates(&mut self, number: u32) {
        let Some(connection) = self.table.get_mut(number as usize).and_then(Option::as_mut) else { return };
        for (number, half) in connection.halves.iter().enumerate() {
            let came = half.as_ref().map_or(0, |half| half.came);
            connection.rates[number] = came - connection.looked[number];
            connection.looked[number] = came;
        }
    }

    fn numbers(&self, which: impl Fn(&Connection) -> bool) -> Vec<u32> {
        let numbered = (0..).zip(&self.table);
        numbered.filter_map(|(number, entry)| entry.as_ref().filter(|entry| which(entry)).map(|_| number)).collect()
    }

    /// Gives each socket its share of the memory.
    fn share_memory(&mut self) {
        self.scale = self.budget.scale();
        let halves = self.table.iter_mut().flatten().flat_map(|connection| &mut connection.halves).flatten();
        for half in halves.chain(self.leavers.halves_mut()) {
            half.share(&self.budget);
        }
    }

    /// Paces what goes by the long link: each of those that send has an equal part of its rate. Of those that sent most notes the least wait.
    fn pace_all(&mut self) {
        let halves = self.table.iter_mut().flatten().flat_map(|connection| &mut connection.halves).flatten();
        let mut long: Vec<&mut Half> = halves.filter(|half| half.is_long).collect();
        let given: Vec<u64> = long.iter_mut().map(|half| half.look_at_given()).collect();
        let active = given.iter().filter(|given| **given > 0).count() as u64;
        self.wait = self.rate.and_then(|_| {
            let busy = long.iter_mut().zip(&given).filter(|(_, given)| **given >= BUSY);
            busy.take(ASKED).filter_map(|(half, _)| half.wait()).min_by_key(|(_, wait)| *wait)
        });
        self.part_of_rate = self.rate.map(|rate| bytes_a_second(rate) / active.max(1));
        long.into_iter().for_each(|half| half.pace(self.part_of_rate));
    }
}

/// Tells a client why there is no connection, if it waits still.
fn turn_away(explicit: &Explicit, why: Failure) {
    if let Some(socket) = &explicit.socket {
        say(socket, &explicit.request.failure(why));
    }
}

fn bytes_a_second(rate: Rate) -> u64 {
    rate.as_bits_per_sec() / 8
}

fn is_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS))
}
