//! Web pages, whose objects depend on one another: what a browser does with HTTP/1.1.
//!
//! The flow's receiver is the browser. It opens connections to the flow's sender, up to a number, keeps them until the page is complete,
//! and has one request under way on each (no pipelining). Objects are asked for in the order in which they became known: those that wait for nothing
//! at once, the others when all that they wait for is there, and a time of the browser's own has passed. Each page begins without connections
//! and without anything in a cache. A page is one transfer: it lasts from its beginning to the last byte of its last object, and its bytes are those
//! of all objects. When a connection fails, the page has failed.

use super::{Application, End, Pair, Pairs, Transfers};
use crate::traffic::error::ConfigError;
use crate::traffic::pareto::exponential;
use crate::traffic::sizes::Sampler;
use crate::traffic::workload;
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A browser that loads pages.
#[derive(Clone, Debug)]
pub struct Web {
    config: workload::Web,
    sizes: Vec<Sampler>,
    left: u64,
    rng: Rng,
    stopped: bool,
    page: Option<Page>,
    /// When the next page begins.
    next: Option<Time>,
    transfers: Transfers,
}

/// The page that is being loaded.
#[derive(Clone, Debug)]
struct Page {
    begun: Time,
    bytes: u64,
    /// Objects of each group that are not there yet.
    missing: Vec<u32>,
    /// Groups that are not there yet in all.
    groups: usize,
    /// Groups that will be known, and when.
    known: BinaryHeap<Reverse<(Time, u16)>>,
    /// Objects to be asked for.
    wanted: VecDeque<u16>,
    connections: BTreeMap<u32, Connection>,
    /// All is there, or a connection failed: nothing more is asked for.
    over: bool,
}

/// A connection of the page.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    /// Group of the object under way.
    busy: Option<u16>,
    /// Bytes of the object under way, and whether the server has sent them.
    size: u32,
    answered: bool,
    /// Bytes that the server, and the browser, have when the object is there.
    asked: u64,
    done: u64,
}

impl Web {
    /// The browser; what it measures goes to `transfers`.
    pub fn new(config: &workload::Web, transfers: Transfers, rng: Rng) -> Result<Web, ConfigError> {
        let sizes = config.objects.iter().map(|object| Sampler::new(&object.sizes));
        Ok(Web {
            sizes: sizes.collect::<Result<_, ConfigError>>()?,
            left: config.pages.unwrap_or(u64::MAX),
            config: config.clone(),
            rng,
            stopped: false,
            page: None,
            next: None,
            transfers,
        })
    }

    fn begin_page(&mut self, now: Time) {
        self.next = None;
        if self.stopped || self.left == 0 {
            return;
        }
        self.left -= u64::from(self.left != u64::MAX);
        self.transfers.handle_begun(0);
        let objects = &self.config.objects;
        let first = objects.iter().enumerate().filter(|(_, object)| object.after.is_empty());
        self.page = Some(Page {
            begun: now,
            bytes: 0,
            missing: objects.iter().map(|object| object.count).collect(),
            groups: objects.len(),
            known: first.map(|(place, object)| Reverse((now + object.wait, place as u16))).collect(),
            wanted: VecDeque::new(),
            connections: BTreeMap::new(),
            over: false,
        });
    }

    /// Asks for what is known, on connections that are idle or new.
    fn ask(&mut self, now: Time, pairs: &mut Pairs) {
        let Some(page) = &mut self.page else { return };
        while let Some(&Reverse((_, place))) = page.known.peek().filter(|known| known.0.0 <= now) {
            page.known.pop();
            let count = self.config.objects[usize::from(place)].count;
            page.wanted.extend((0..count).map(|_| place));
        }
        while let Some(&place) = page.wanted.front() {
            let idle = page.connections.iter().find(|(_, connection)| connection.busy.is_none());
            let number = match idle {
                Some((&number, _)) => number,
                None if page.connections.len() < self.config.parallel as usize => {
                    let number = pairs.open(now, End::Receiver).number();
                    page.connections.insert(number, Connection::default());
                    number
                }
                None => return,
            };
            let (Some(pair), Some(connection)) = (pairs.get(number), page.connections.get_mut(&number)) else {
                // It is over, which is told next.
                return;
            };
            page.wanted.pop_front();
            let size = self.sizes[usize::from(place)].next(&mut self.rng);
            let (request, before) = (self.config.request.as_u64(), *connection);
            let (asked, done) = (before.asked + request, before.done + u64::from(size));
            *connection = Connection { busy: Some(place), size, answered: false, asked, done };
            pair.write(now, End::Receiver, request);
        }
    }

    /// An object is there.
    fn handle_object(&mut self, now: Time, place: u16, size: u32) {
        let Some(page) = &mut self.page else { return };
        page.bytes += u64::from(size);
        let missing = &mut page.missing[usize::from(place)];
        *missing -= 1;
        if *missing > 0 {
            return;
        }
        page.groups -= 1;
        let objects = &self.config.objects;
        let waits = |object: &workload::Object| object.after.contains(&place);
        for (place, object) in objects.iter().enumerate().filter(|(_, object)| waits(object)) {
            if object.after.iter().all(|&other| page.missing[usize::from(other)] == 0) {
                page.known.push(Reverse((now + object.wait, place as u16)));
            }
        }
        if page.groups == 0 {
            page.over = true;
            self.transfers.handle_completed(now, page.begun, page.bytes);
        }
    }

    fn end_page(&mut self, now: Time, pairs: &mut Pairs) {
        let Some(page) = self.page.take() else { return };
        for &number in page.connections.keys() {
            if let Some(pair) = pairs.get(number) {
                End::BOTH.into_iter().for_each(|end| pair.close(now, end));
            }
        }
        let pause = match self.config.think {
            Span::ZERO => Span::ZERO,
            think => Span::from_nanos(exponential(think.as_nanos() as f64, &mut self.rng) as u64),
        };
        self.next = (!self.stopped && self.left > 0).then(|| now + pause);
    }
}

impl Application for Web {
    fn start(&mut self, now: Time, pairs: &mut Pairs) {
        self.begin_page(now);
        self.ask(now, pairs);
    }

    fn stop(&mut self, _: Time, _: &mut Pairs) {
        // A page under way may end.
        self.stopped = true;
        self.next = None;
    }

    fn serve(&mut self, now: Time, pair: &mut Pair) {
        let connection = self.page.as_mut().and_then(|page| page.connections.get_mut(&pair.number()));
        let Some(connection) = connection else {
            // Of a page that is over: the other end has closed.
            for end in End::BOTH {
                if pair.end(end).at_end_of_stream() && !pair.is_closing(end) {
                    pair.close(now, end);
                }
            }
            return;
        };
        let Some(place) = connection.busy else { return };
        if !connection.answered && pair.received(End::Sender) >= connection.asked {
            connection.answered = true;
            pair.write(now, End::Sender, u64::from(connection.size));
        }
        if connection.answered && pair.received(End::Receiver) >= connection.done {
            connection.busy = None;
            let size = connection.size;
            self.handle_object(now, place, size);
        }
    }

    fn over(&mut self, _: Time, pair: &Pair) {
        if let Some(page) = &mut self.page
            && page.connections.remove(&pair.number()).is_some()
            && !page.over
        {
            page.over = true;
            self.transfers.handle_failed(0);
        }
    }

    fn handle_timeout(&mut self, now: Time, pairs: &mut Pairs) {
        if self.page.as_ref().is_some_and(|page| page.over) {
            self.end_page(now, pairs);
        }
        if self.next.is_some_and(|next| next <= now) {
            self.begin_page(now);
        }
        self.ask(now, pairs);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let Some(page) = &self.page else { return self.next };
        if page.over {
            return Some(Time::ZERO);
        }
        let idle = page.connections.values().any(|connection| connection.busy.is_none());
        let room = idle || page.connections.len() < self.config.parallel as usize;
        if !page.wanted.is_empty() && room {
            return Some(Time::ZERO);
        }
        page.known.peek().map(|known| known.0.0)
    }

    fn transfers(&self) -> Option<&Transfers> {
        Some(&self.transfers)
    }

    fn begin(&mut self, _: Time) {
        self.transfers.begin();
    }
}
