//! Workloads of whole applications: what they are made of, and whether that fits together.
//!
//! How each of them behaves is in the file of its name in [`application`](super::application).

use super::error::ConfigError;
use super::sizes::Sizes;
use fairspan_core::units::{Bytes, Rate, Span};
use std::sync::Arc;

/// Transfers that begin at times of their own (an open loop), as users' do who do not know of one another.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfers {
    /// How the times between beginnings are distributed.
    pub arrivals: Arrivals,
    /// Their mean.
    pub every: Span,
    /// Payload of each.
    pub sizes: Sizes,
    /// How many in all; `None`: until the flow stops.
    pub count: Option<u64>,
    /// Most that are under way at once. One that begins when so many are is refused, and counts as failed.
    pub parallel: u32,
    /// Sizes up to which the classes reach, ascending; one more class has what is larger.
    pub classes: Arc<[Bytes]>,
}

/// How times between beginnings are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Exponential.
    Poisson,
    /// All the same.
    Constant,
    /// Pareto with this shape, above 1: bursts.
    Pareto(f64),
}

/// Most classes of sizes, the last one included.
pub const MOST_CLASSES: usize = 16;

impl Transfers {
    /// Whether it can be made.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.every == Span::ZERO {
            return Err(ConfigError::Application("the mean time between transfers is less than 1 ns"));
        }
        if let Arrivals::Pareto(shape) = self.arrivals
            && !(shape > 1.0 && shape.is_finite())
        {
            return Err(ConfigError::Shape { shape });
        }
        if self.parallel == 0 {
            return Err(ConfigError::ZeroParallel);
        }
        if self.classes.len() >= MOST_CLASSES || self.classes.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(ConfigError::Application("bounds of classes ascend, and there are 15 at most"));
        }
        self.sizes.check()
    }
}

/// Web pages: a browser loads one after the other, each anew, without a cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Web {
    /// What a page has, in an order in which each stands behind what it waits for.
    pub objects: Arc<[Object]>,
    /// Connections at most; each serves one object after the other.
    pub parallel: u32,
    /// How many pages in all; `None`: until the flow stops.
    pub pages: Option<u64>,
    /// Bytes of a request.
    pub request: Bytes,
    /// Pause between pages (exponential mean); zero: none.
    pub think: Span,
}

/// Objects of a page that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Bytes of each.
    pub sizes: Sizes,
    /// How many.
    pub count: u32,
    /// Places of those that must be there, all of each, before these are asked for.
    pub after: Vec<u16>,
    /// What the browser takes between that and asking.
    pub wait: Span,
}

/// Most objects of a page.
pub const MOST_OBJECTS: u32 = 10_000;

impl Web {
    /// Whether it can be made.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.parallel == 0 {
            return Err(ConfigError::ZeroParallel);
        }
        if self.request == Bytes::ZERO {
            return Err(ConfigError::ZeroMessage { which: "request" });
        }
        let count = self.objects.iter().fold(0, |sum: u32, object| sum.saturating_add(object.count));
        if !(1..=MOST_OBJECTS).contains(&count) || self.objects.iter().any(|object| object.count == 0) {
            return Err(ConfigError::Application("a page has 1 to 10000 objects, and none of its groups is empty"));
        }
        for (place, object) in self.objects.iter().enumerate() {
            if object.after.iter().any(|&other| usize::from(other) >= place) {
                return Err(ConfigError::Application("an object waits only for objects that stand before it"));
            }
            object.sizes.check()?;
        }
        Ok(())
    }
}

/// A film that a player fetches chunk by chunk, in the quality that the level of its buffer allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    /// Rates of the qualities, ascending.
    pub levels: Arc<[Rate]>,
    /// How long a chunk plays.
    pub chunk: Span,
    /// How long the film is; `None`: until the flow stops.
    pub length: Option<Span>,
    /// Most that the player has in store.
    pub buffer: Span,
    /// Below this it takes the least quality.
    pub reservoir: Span,
    /// From the reservoir so much higher it takes the best one.
    pub cushion: Span,
    /// So much is in store before it begins to play, and goes on after a stall.
    pub resume: Span,
    /// Bytes of a request.
    pub request: Bytes,
}

impl Video {
    /// Whether it can be made.
    pub fn check(&self) -> Result<(), ConfigError> {
        let rates = self.levels.iter().map(|rate| rate.as_bits_per_sec());
        let ascending = self.levels.windows(2).all(|pair| pair[0] < pair[1]);
        if self.levels.is_empty() || !ascending || rates.min() == Some(0) {
            return Err(ConfigError::Application("the rates of the qualities ascend, and there is at least one"));
        }
        if self.chunk == Span::ZERO || self.request == Bytes::ZERO || self.resume == Span::ZERO {
            return Err(ConfigError::Application("chunk, request and resume are more than nothing"));
        }
        // While nothing plays, chunks up to `resume` must find room.
        if self.chunk + self.resume > self.buffer {
            return Err(ConfigError::Application("the buffer must hold `resume` and one chunk more"));
        }
        if self.reservoir + self.cushion > self.buffer {
            return Err(ConfigError::Application("reservoir and cushion together are at most the buffer"));
        }
        Ok(())
    }
}

/// A game: states of the server and inputs of the player, each at a clock of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Game {
    /// From one state to the next.
    pub tick: Span,
    /// From one input to the next.
    pub every: Span,
    /// How much later than it came the first state is shown, and with it all others.
    pub interpolation: Span,
    /// Payload of a state.
    pub state: Sizes,
    /// Payload of an input.
    pub input: Sizes,
}

impl Game {
    /// Whether it can be made.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.tick == Span::ZERO || self.every == Span::ZERO {
            return Err(ConfigError::Application("a game's states and inputs are some time apart"));
        }
        self.state.check()?;
        self.input.check()
    }
}

/// One direction of a call: frames at a fixed distance, played at a fixed time after they were spoken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// How speech is coded.
    pub codec: Codec,
    /// How much longer than the first one every frame may take.
    pub playout: Span,
    /// Bytes of headers of each packet.
    pub header: u32,
}

/// A codec, with what the E-model has to know of it (ITU-T G.113, appendix I).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Codec {
    /// Payload of a packet, in bytes.
    pub payload: u32,
    /// Speech in a packet.
    pub frame: Span,
    /// What the coder looks ahead.
    pub ahead: Span,
    /// Ie, the impairment without loss.
    pub impairment: f64,
    /// Bpl, the robustness against loss.
    pub robustness: f64,
}

impl Codec {
    /// G.711 with concealment of lost frames (its appendix I), 64 kbit/s.
    pub const G711: Codec = Codec::of(160, 0, 0.0, 25.1);
    /// G.711 without it.
    pub const G711_PLAIN: Codec = Codec::of(160, 0, 0.0, 4.3);
    /// G.729A with voice activity detection, two frames a packet, 8 kbit/s.
    pub const G729: Codec = Codec::of(20, 5, 11.0, 19.0);

    /// Packets of 20 ms.
    const fn of(payload: u32, ahead: u64, impairment: f64, robustness: f64) -> Codec {
        let (frame, ahead) = (Span::from_millis(20), Span::from_millis(ahead));
        Codec { payload, frame, ahead, impairment, robustness }
    }
}

impl Call {
    /// Whether it can be made.
    pub fn check(&self) -> Result<(), ConfigError> {
        let codec = &self.codec;
        let valid = codec.payload > 0 && codec.frame > Span::ZERO && codec.robustness > 0.0;
        if valid { Ok(()) } else { Err(ConfigError::Application("a codec's packets have payload and length")) }
    }
}
