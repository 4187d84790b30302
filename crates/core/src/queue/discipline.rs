//! What a queue discipline is: packets of flows go in and come out in its order.

use crate::buffer::Victim;
use crate::units::{FlowNumber, Span, Time};

/// A packet that waits, and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<P> {
    /// The packet.
    pub packet: P,
    /// Whose it is.
    pub flow: FlowNumber,
    /// What it counts in bytes.
    pub size: u32,
    /// When it came.
    pub since: Time,
}

/// A packet that goes next, and the queue that it left.
#[derive(Debug)]
pub struct Taken<P> {
    /// The packet.
    pub entry: Entry<P>,
    /// The number of its queue, which another takes once this one has fallen empty; 0 where there is one for all.
    pub queue: u32,
    /// Whose queue it is: a flow, a bucket, or 0 where there is one for all.
    pub key: u32,
    /// Bytes that stay in it.
    pub behind: u64,
}

/// The order in which packets go. It holds what it is given, whatever that is: limits are the buffer policy's.
pub trait Discipline<P> {
    /// A packet arrives.
    fn enqueue(&mut self, entry: Entry<P>);

    /// The packet that goes next. `None` also tells the discipline that the link has fallen idle.
    fn dequeue(&mut self, now: Time) -> Option<Taken<P>>;

    /// What [`dequeue`](Discipline::dequeue) would give.
    fn peek(&self) -> Option<&Entry<P>>;

    /// Takes a packet out that the policy drops. Only a victim for which the discipline was made is found.
    fn evict(&mut self, victim: Victim) -> Option<Entry<P>>;

    /// The packet that [`evict`](Discipline::evict) would take out.
    fn find(&mut self, victim: Victim) -> Option<&mut Entry<P>>;

    /// Takes out a packet that came before `oldest`, if there is one.
    fn expire(&mut self, oldest: Time) -> Option<Entry<P>>;

    /// Gives `flow` a share of this weight (1 to [`MOST_WEIGHT`]), whenever it has packets; 1 is that of all others. Nothing
    /// changes where flows have no shares of their own.
    fn set_weight(&mut self, _flow: FlowNumber, _weight: u32) {}

    /// Gives `flow` so much room in the buffer (1 to [`MOST_ROOM`]): its queue's length counts over that where the longest one
    /// is looked for; 1 is the room of all others.
    fn set_room(&mut self, _flow: FlowNumber, _room: u32) {}

    /// Gives `flow` this bound of delay. Nothing changes where delays are not bounded flow by flow.
    fn set_delay(&mut self, _flow: FlowNumber, _delay: Span) {}

    /// How many flows have a packet waiting; one where the discipline does not tell flows apart.
    fn active_flows(&self) -> usize;

    /// Whether flows or buckets have queues of their own.
    fn by_flow(&self) -> bool {
        true
    }

    /// When the first packets came: of all, or of the Classic and of the low-latency queue where these are apart. Disciplines with many
    /// queues look for it.
    fn heads(&self) -> [Option<Time>; 2] {
        [self.peek().map(|entry| entry.since), None]
    }

    /// Whether it remembers nothing once it is empty: a packet that comes and goes while nothing else waits then changes nothing,
    /// and it need not know of it.
    fn forgets(&self) -> bool {
        false
    }

    /// From when on [`dequeue`](Discipline::dequeue) gives a packet; `None` while nothing waits. A work-conserving
    /// discipline always could at once.
    fn next_ready(&self) -> Option<Time> {
        (self.active_flows() > 0).then_some(Time::ZERO)
    }
}

/// The largest weight of a flow.
pub const MOST_WEIGHT: u32 = 1 << 10;

/// The largest room of a flow.
pub const MOST_ROOM: u32 = 1 << 20;

/// By what a discipline must find its victims. Any packet is found without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Index {
    /// By nothing.
    #[default]
    None,
    /// By age.
    Age,
    /// By the length of their queue.
    Longest(Unit),
    /// By the greatest length of a queue that was seen.
    Suspect(Unit),
    /// By finish numbers; where there are none, by the length of their queue in bytes.
    Finish,
}

/// What lengths are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
}
