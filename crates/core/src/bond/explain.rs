//! Which channels carry what, why, and what would have to change for it to be otherwise: for people.
//!
//! What it is: the decisions of [`by_class`](super::by_class), [`prompt`](super::prompt) and [`reserve`](super::reserve) told with the measurements
//! that led to them. Nothing is decided here. What would have to change is found by asking the same code again with other delays and
//! rates, so that it says what would happen. Cost: O(channels^2) a call, with allocation; it is for whoever asks, and never on a packet's way.

use super::Bond;
use super::channel::{bit, each};
use super::class::ClassMode;
use super::classed::ClassReport;
use super::compressed::FASTEST as COMPRESSED_TO;
use super::config::Mode;
use super::reserve::{Candidate, TYPICAL, sum, time_over, used_at_once};
use super::slight::{FRAME, slight};
use super::treatment::Treatment;
use crate::options::Words;
use crate::packet::Packet;
use crate::path::delay::Reference;
use crate::set::LinkSet;
use crate::units::{ChannelId, Rate, Span, Time};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// What is done with one class of traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The class: a configured one by its name; `urgent` and `all else` are the bond's own in mode `reliable`, and `all` is all traffic in any
    /// other mode.
    pub name: String,
    /// The mode of the class or of the bond.
    pub mode: &'static str,
    /// The channels that carry it now.
    pub channels: LinkSet,
    /// Why: whole sentences.
    pub because: Vec<String>,
    /// What would have to be otherwise for other channels to carry it.
    pub would_change_if: Vec<String>,
}

/// In how many steps one looks for the rate or the delay at which another plan is better, and how far apart they are, in percent.
const STEPS: usize = 60;
const STEP: u64 = 10;

impl<P: Packet> Bond<P> {
    /// Which channels carry which traffic at `now`, why, and what would change that: the configured classes in their order, then what the bond
    /// does by itself.
    pub fn explain(&self, now: Time) -> Vec<Explanation> {
        if self.config.mode != Mode::Reliable {
            return vec![self.explain_mode(now)];
        }
        let classes = self.classes().map(|class| self.explain_class(now, &class));
        classes.chain([self.explain_urgent(now), self.explain_rest(now)]).collect()
    }

    /// What a flow of which most bytes have this note is of, by the name that [`Bond::explain`] gives it, and why.
    pub fn treatment(&self, noted: u8) -> (String, &'static str) {
        let (name, why) = match Treatment::noted(noted) {
            // Fragments have urgent packets go ahead of them.
            Treatment::Marked if self.config.mode != Mode::Reliable => {
                ("all", "most of it is marked urgent (DSCP) or ICMP")
            }
            _ if self.config.mode != Mode::Reliable => ("all", "this mode has one class"),
            Treatment::Class(place) => {
                let class = self.config.classes.0.get(usize::from(place));
                return (class.map_or_else(String::new, |class| class.name.clone()), "most of it matches this class");
            }
            Treatment::Usual => ("all else", "most of it is of no class and not urgent"),
            Treatment::Marked => ("urgent", "most of it is marked urgent (DSCP) or ICMP"),
            Treatment::Acknowledges => ("urgent", "most of it is TCP acknowledgements"),
            Treatment::SendsLittle => ("urgent", "it sends little"),
        };
        (name.into(), why)
    }

    fn explain_mode(&self, now: Time) -> Explanation {
        let mode = self.config.mode;
        let channels = self.using(now);
        let mut told = Told::default();
        told.because.push(match self.config.fragment_delay {
            Some(_) => format!("mode {mode} is configured with fragment_delay: {CUTS}"),
            None => format!("mode {mode} is configured: {}", what_it_does(mode)),
        });
        if let (Mode::Backup, Some(best)) = (mode, each(channels).min_by_key(|c| self.channels[*c].config.priority)) {
            told.because.push(self.is_best(best));
        }
        self.tell_each(now, channels, &mut told);
        self.tell_metered(&mut told);
        self.tell_absent(now, channels, &mut told);
        told.change.push("another `mode` is configured; `reliable` chooses channels by what it measures".into());
        told.of("all".into(), mode.word(), channels)
    }

    fn explain_class(&self, now: Time, class: &ClassReport<'_>) -> Explanation {
        let config = class.config;
        let mut channels = class.channels.bits();
        let mut told = Told::default();
        let named = each(self.channels.joined).filter(|c| config.channels.0.iter().any(|name| name.0 == self.name(*c)));
        let named = named.fold(0, |set, c| set | bit(c));
        let works = named & self.channels.usable;
        if !config.channels.0.is_empty() {
            let names: Vec<&str> = config.channels.0.iter().map(|name| name.0.as_str()).collect();
            let may =
                if config.only { "only these may carry it" } else { "these carry it as long as one of them works" };
            told.because.push(format!("it names {}: {may}", names.join(", ")));
            if works == 0 {
                let who = if config.only {
                    "its packets wait for one of them, and are dropped in the end"
                } else {
                    "others carry it"
                };
                told.because.push(format!("none of them works, so {who}"));
            }
        } else if config.mode == ClassMode::Reliable && config.latency.is_none() {
            told.because.push("it names no channels and no latency budget: it goes as all else".into());
            channels = self.channels.in_use();
        }
        if let Some(budget) = config.latency {
            let of = if works != 0 { works } else { self.channels.in_use() };
            self.tell_budget(budget, of & !channels, channels, &mut told);
        }
        match config.mode {
            ClassMode::Backup => {
                if let Some(best) = each(channels).min_by_key(|c| (self.channels[*c].config.priority, *c)) {
                    let others = channels & !bit(best);
                    channels = bit(best);
                    told.because.push(self.is_best(best));
                    if others != 0 {
                        told.change.push(format!("{} fails: {} may take over", self.name(best), self.names(others)));
                    }
                }
            }
            ClassMode::Prompt => {
                self.tell_fastest(now, &mut channels, &mut told);
                let lane =
                    self.config.classes.0.iter().position(|other| other.name == config.name).map_or(0, |n| n + 1);
                self.tell_parity(lane, &mut told);
            }
            ClassMode::Duplicate => {
                told.because.push("each packet goes by all of them, and the first copy counts".into())
            }
            ClassMode::Reliable => {}
        }
        let considered = if named != 0 { named } else { self.channels.joined };
        self.tell_each(now, channels, &mut told);
        self.tell_absent(now, self.channels.usable | !considered, &mut told);
        told.of(config.name.clone(), config.mode.word(), channels)
    }

    fn explain_urgent(&self, now: Time) -> Explanation {
        let mut channels = self.channels.in_use();
        let mut told = Told::default();
        let acks = match self.config.ack_filter {
            true => "which have four fifths of a channel at most, and half where others wait",
            false => "as long as nothing waits",
        };
        told.because.push(format!("packets of DSCP EF, VOICE-ADMIT and CS4 to CS7, and ICMP, go before others; so do TCP acknowledgements, {acks}"));
        if self.config.sparse {
            told.because.push("flows that send at most 500 kbit/s, and steadily, go with them".into());
        }
        self.tell_fastest(now, &mut channels, &mut told);
        if let Some(one) = each(channels).next()
            && self.config.spare_copies
            && let Some(flight) = self.channels[one].path.flight.as_ref().filter(|flight| flight.losses.loses())
        {
            let each = if self.protect.cover.is_some() && self.peer.mends { "each that has no parity" } else { "each" };
            told.because.push(format!(
                "{each} goes a second time, because {} loses {}",
                self.name(one),
                percent(flight.losses.ppm())
            ));
            told.change.push(format!("{} loses less than one packet in a thousand: each goes once", self.name(one)));
        }
        self.tell_parity(0, &mut told);
        self.tell_absent(now, self.channels.usable, &mut told);
        told.of("urgent".into(), "prompt", channels)
    }

    fn explain_rest(&self, now: Time) -> Explanation {
        let channels = self.channels.in_use();
        let mut told = Told::default();
        match channels.count_ones() {
            0 => told.because.push("no channel works".into()),
            1 => told.because.push(format!("{} alone carries it", self.names(channels))),
            _ => told.because.push("it is spread over these by what each carries, and what is lost goes again".into()),
        }
        self.tell_each(now, channels, &mut told);
        self.tell_reserve(&mut told);
        self.tell_metered(&mut told);
        self.tell_compression(channels, &mut told);
        self.tell_absent(now, self.channels.usable, &mut told);
        if channels.count_ones() > 1 {
            told.change.push("one of them fails: the others carry all, and what was under way there goes again".into());
        }
        told.of("all else".into(), Mode::Reliable.word(), channels)
    }

    fn name(&self, channel: ChannelId) -> String {
        match self.channels[channel].config.name.as_str() {
            "" => format!("channel {channel}"),
            name => name.to_string(),
        }
    }

    fn names(&self, channels: u64) -> String {
        let names: Vec<String> = each(channels).map(|c| self.name(c)).collect();
        names.join(", ")
    }

    fn is_best(&self, best: ChannelId) -> String {
        let priority = self.channels[best].config.priority;
        format!("{} is the usable one of the best priority ({priority})", self.name(best))
    }

    /// What a channel usually takes one way.
    fn takes(&self, channel: ChannelId, reference: Option<Reference>) -> Option<Span> {
        let delay = &self.channels[channel].path.delay;
        Some(delay.delay(reference)? + delay.full_variation())
    }

    /// The one of `channels` that usually takes least, and how long.
    fn quickest(&self, channels: u64) -> Option<(Span, ChannelId)> {
        let reference = self.channels.reference();
        each(channels).filter_map(|c| Some((self.takes(c, reference)?, c))).min()
    }

    /// What was measured of each channel.
    fn tell_each(&self, now: Time, channels: u64, told: &mut Told) {
        let first = self.quickest(channels);
        let reference = self.channels.reference();
        for channel in each(channels) {
            let c = &self.channels[channel];
            let mut facts = vec![];
            match (c.rate, c.known_rate()) {
                (Some(rate), _) => facts.push(format!("{} configured", mbit(rate))),
                (None, Some(rate)) => facts.push(format!("{} measured", mbit(rate))),
                (None, None) => facts.push("its rate is not known".into()),
            }
            if let Some(trip) = c.path.rtt() {
                facts.push(format!("a round trip of {}", ms(trip)));
            }
            if let (Some((least, fastest)), Some(takes)) = (first, self.takes(channel, reference))
                && fastest != channel
            {
                facts.push(format!("{} more one way than {}", ms(takes - least), self.name(fastest)));
            }
            if let Some(ppm) = c.path.measured(now, c.usable, None).loss_ppm.filter(|ppm| *ppm > 0) {
                facts.push(format!("{} lost", percent(ppm)));
            }
            told.because.push(format!("{}: {}", self.name(channel), facts.join(", ")));
        }
    }

    /// Packets go by the one of `channels` that brings them first.
    fn tell_fastest(&self, now: Time, channels: &mut u64, told: &mut Told) {
        let Some((first, _)) = self.first_for_prompt(now, self.ingress.prompt.by, *channels) else { return };
        let reference = self.channels.reference();
        let way = self.lately(first, reference);
        for other in each(*channels & !bit(first)) {
            let more = self.lately(other, reference) - way;
            let (first, other) = (self.name(first), self.name(other));
            told.because.push(format!("{first} brings a packet first, {} before {other}", ms(more)));
            told.change.push(format!(
                "{first} is busy for more than {}, or its delay grows by that: {other} carries some",
                ms(more)
            ));
        }
        *channels = bit(first);
    }

    /// What parity the packets have of the class that is `lane` less one, or of none.
    fn tell_parity(&self, lane: usize, told: &mut Told) {
        let Some(cover) = &self.protect.cover else { return };
        if !self.peer.mends {
            told.because.push("the peer takes no parity, so no packet has any".into());
            told.change.push("both ends have `parity` set: streams that are dense enough have parity".into());
            return;
        }
        match cover.newest(lane) {
            Some((packets, 0)) => told.because.push(format!(
                "its dense streams go in blocks, {packets} packets in the last one, and lose so little that none has parity now"
            )),
            Some((packets, rows)) => told.because.push(format!(
                "its dense streams have parity: {rows} more frames for the last {packets} packets, {} %",
                100 * u32::from(rows) / u32::from(packets.max(1))
            )),
            None => told.because.push("none of its streams is dense enough for parity".into()),
        }
    }

    /// On which of these channels headers are compressed, where that is wanted.
    fn tell_compression(&self, channels: u64, told: &mut Told) {
        if self.compressed.to.is_none() {
            return;
        }
        if !self.peer.expands {
            told.because.push("the peer takes no compressed headers, so all go whole".into());
            told.change.push("both ends have `compress_headers` set: headers of TCP and UDP are compressed".into());
            return;
        }
        let on = each(channels).filter(|c| self.compresses_on(*c)).fold(0, |set, channel| set | bit(channel));
        if on != 0 {
            let packets = self.stats.compressed;
            let saved = match self.stats.compressed_saved.checked_div(packets) {
                Some(saved) => format!("{packets} packets so far, {saved} bytes less each"),
                None => "no packet yet".into(),
            };
            told.because.push(format!("headers of TCP and UDP are compressed on {}: {saved}", self.names(on)));
        }
        let off = channels & !on;
        if off != 0 {
            told.because.push(format!(
                "headers go whole on {}, of which it is not known that they carry at most {}",
                self.names(off),
                mbit(COMPRESSED_TO)
            ));
            told.change.push(format!("they carry at most {}: headers are compressed there too", mbit(COMPRESSED_TO)));
        }
    }

    /// Which channels are beyond a class's latency `budget`.
    fn tell_budget(&self, budget: Span, beyond: u64, carriers: u64, told: &mut Told) {
        let reference = self.channels.reference();
        let Some((least, fastest)) = self.quickest(self.channels.usable) else { return };
        let allows = format!("the class allows {}", ms(budget));
        let more = |channel| Some(self.takes(channel, reference)? - least);
        for channel in each(beyond) {
            let Some(more) = more(channel) else { continue };
            let (name, fastest) = (self.name(channel), self.name(fastest));
            told.because.push(format!("{name} takes {} longer than {fastest}; {allows}", ms(more)));
            told.change.push(format!("{name} takes at most {} longer than {fastest}", ms(budget)));
        }
        for channel in each(carriers & !bit(fastest)) {
            let Some(more) = more(channel) else { continue };
            let (name, fastest) = (self.name(channel), self.name(fastest));
            if more <= budget {
                told.change.push(format!(
                    "{name} takes more than {} longer than {fastest} ({} now)",
                    ms(budget),
                    ms(more)
                ));
            } else {
                told.because
                    .push(format!("none that may carry it is within {}; {name} is the fastest of them", ms(budget)));
            }
        }
    }

    /// Which channels are held in reserve, and what would change that.
    fn tell_reserve(&self, told: &mut Told) {
        if !self.config.reserve {
            return;
        }
        let Some(mut all) = self.candidates() else {
            if self.channels.usable.count_ones() > 1 {
                told.because.push("none is held in reserve, because not all rates and delays are known".into());
            }
            return;
        };
        let reserve = &self.channels.reserve;
        self.tell_slight(&all, told);
        all.retain(|c| reserve.slight & bit(c.channel) == 0);
        let before = all.len() - (reserve.planned & !reserve.slight).count_ones() as usize;
        for (k, c) in all.iter().enumerate().skip(1) {
            let name = self.name(c.channel);
            let is_used = |changed: &dyn Fn(&mut Candidate)| {
                let mut other = all.clone();
                changed(&mut other[k]);
                other.sort_by_key(|c| (c.delay, c.channel));
                let used = used_at_once(&other, Some(before).filter(|n| *n > 0));
                other[..used].iter().any(|other| other.channel == c.channel)
            };
            let more = c.delay - all[0].delay;
            if reserve.demand.unneeded & bit(c.channel) != 0 {
                told.because.push(format!(
                    "what is sent fits the others, and {name} takes {} longer than {}: it is in reserve",
                    ms(more),
                    self.name(all[0].channel)
                ));
                told.change.push(format!("next to nothing is sent for a second: {name} is used at once again"));
                self.tell_called(c, told);
            } else if reserve.planned & bit(c.channel) != 0 {
                let (with, without) = (time_over(&all[..=k]), time_over(&all[..k]));
                let little = if with < without { "that gains too little, so " } else { "" };
                told.because.push(format!(
                    "{name} adds {} to {}, and a transfer of {} MB would take {} with it and {} without: {little}it is in reserve",
                    mbit(c.rate), mbit(sum(&all[..k])), TYPICAL.as_u64() / 1_000_000, seconds(with), seconds(without)
                ));
                self.tell_called(c, told);
                if let Some(rate) = first(|n| Some(raised(c.rate, n)?).filter(|rate| is_used(&|c| c.rate = *rate))) {
                    told.change.push(format!("{name} carried {} or more ({} now)", mbit(rate), mbit(c.rate)));
                }
                let sooner = |n: usize| Some(part(more, n)).filter(|span| is_used(&|c| c.delay = all[0].delay + *span));
                if let Some(span) = first(sooner) {
                    told.change.push(format!(
                        "{name} took at most {} longer than {} ({} now)",
                        ms(span),
                        self.name(all[0].channel),
                        ms(more)
                    ));
                }
            } else {
                let lossless: Vec<Candidate> = all.iter().map(|c| Candidate { loss: 0, ..*c }).collect();
                let is_for_losses = used_at_once(&lossless, None) <= k && used_at_once(&all, None) > k;
                if let Some(most) = all[..k].iter().max_by_key(|c| c.loss).filter(|_| is_for_losses) {
                    told.because.push(format!(
                        "{} loses {} of its packets by itself, and {name} brings what goes once more in time: it is used at once",
                        self.name(most.channel),
                        percent(most.loss)
                    ));
                }
                let later = |n: usize| Some(longer(c.delay, n)).filter(|delay| !is_used(&|c| c.delay = *delay));
                if let Some(delay) = first(later) {
                    let span = delay - all[0].delay;
                    told.change.push(format!(
                        "{name} took {} longer than {} ({} now): it would wait in reserve",
                        ms(span),
                        self.name(all[0].channel),
                        ms(more)
                    ));
                }
            }
        }
        if let Some(next) = all.iter().find(|c| reserve.waiting() & bit(c.channel) != 0) {
            let waits = self.ingress.bytes() + self.classed.bulk_for_any();
            told.change.push(format!(
                "more than {} kB wait for 0.1 s ({} kB now): {} is called",
                reserve.call_at / 1000,
                waits / 1000,
                self.name(next.channel)
            ));
            if reserve.ramp.wait > Span::ZERO {
                told.because.push(format!(
                    "packets wait for {} before they are sent, and ever longer, until {} is called: the others are full, and who sends lets little wait",
                    ms(reserve.ramp.wait),
                    self.name(next.channel)
                ));
            }
        }
    }

    /// Whether a channel of the reserve carries data now.
    fn tell_called(&self, c: &Candidate, told: &mut Told) {
        if self.channels.reserve.called & bit(c.channel) != 0 {
            let name = self.name(c.channel);
            told.because.push(format!("{name} is called now, because too much waited"));
            told.change
                .push(format!("the others could carry all for 2 s, with a quarter to spare: {name} waits again"));
        }
    }

    /// Which channels carry next to nothing of `all`, and from which rate on that would be otherwise.
    fn tell_slight(&self, all: &[Candidate], told: &mut Told) {
        let before = self.channels.reserve.slight;
        for (k, c) in all.iter().enumerate().filter(|(_, c)| before & bit(c.channel) != 0) {
            let name = self.name(c.channel);
            let others: Vec<Candidate> = all.iter().filter(|other| before & bit(other.channel) == 0).copied().collect();
            told.because.push(format!(
                "{name} adds {} to {}, and all would wait for each of its frames, which take {}: it carries only what is small",
                mbit(c.rate), mbit(sum(&others)), ms(c.rate.transmit_time(FRAME))
            ));
            let is_slight = |rate: Rate| {
                let mut other = all.to_vec();
                other[k].rate = rate;
                slight(&other, before) & bit(c.channel) != 0
            };
            if let Some(rate) = first(|n| raised(c.rate, n).filter(|rate| !is_slight(*rate))) {
                told.change.push(format!("{name} carried {} or more ({} now)", mbit(rate), mbit(c.rate)));
            }
        }
    }

    /// Which channels carry nothing because that would cost money.
    fn tell_metered(&self, told: &mut Told) {
        for channel in each(self.channels.usable & !self.channels.eligible()) {
            let name = self.name(channel);
            told.because.push(format!("{name} is metered: it carries data only while no other channel works"));
            told.change.push(format!("no other channel works: {name} carries all"));
        }
    }

    /// Why the channels of the bond that are not `here` carry nothing.
    fn tell_absent(&self, now: Time, here: u64, told: &mut Told) {
        for channel in each(self.channels.joined & !here & !self.channels.reserve.held()) {
            let c = &self.channels[channel];
            let signs = &c.path.signs;
            let name = self.name(channel);
            let measured = c.path.measured(now, c.usable, None);
            let (why, change) = if c.usable {
                continue;
            } else if signs.leaving {
                ("leaves the bond".to_string(), None)
            } else if !signs.up {
                ("is not connected, or its link is down".into(), Some("is connected"))
            } else if signs.silent {
                ("brings nothing".into(), Some("brings something"))
            } else if signs.unheard {
                ("is not heard by the peer".into(), Some("is heard by the peer"))
            } else if signs.mute {
                ("is silent about what was sent there".into(), Some("answers"))
            } else if signs.stalled {
                ("takes nothing at its socket".into(), Some("takes frames again"))
            } else if let Some(span) = measured.held {
                (
                    format!("failed {} times lately, and is held back for {} more", measured.failures, seconds(span)),
                    Some("stays well for so long"),
                )
            } else if signs.late {
                (
                    "brings packets too late behind those of the others, for what it carries".into(),
                    Some("has a delay that is nearer to the others'"),
                )
            } else if signs.lossy {
                (
                    "loses more than a quarter of what goes there: that brings less than it costs".into(),
                    Some("loses less"),
                )
            } else {
                ("is held back".into(), None)
            };
            told.because.push(format!("{name} {why}"));
            told.change.extend(change.map(|change| format!("{name} {change}")));
        }
    }
}

/// What is told of one class.
#[derive(Default)]
struct Told {
    because: Vec<String>,
    change: Vec<String>,
}

impl Told {
    fn of(self, name: String, mode: &'static str, channels: u64) -> Explanation {
        let channels = LinkSet::from_bits(channels);
        Explanation { name, mode, channels, because: self.because, would_change_if: self.change }
    }
}

const CUTS: &str = "packets are cut and spread by bytes in turn, and urgent ones go ahead of the pieces";

fn what_it_does(mode: Mode) -> &'static str {
    match mode {
        Mode::Ordered => "packets are spread by rates, and each flow is put in order",
        Mode::Stripe => "packets are spread by bytes in turn, and read back in the same turn",
        Mode::Duplicate => "each packet goes by several channels, and the first copy counts",
        Mode::Backup => "one channel carries all",
        Mode::Plain => "packets are spread by rates, and delivered as they come",
        Mode::Flow => "its policy chooses a link",
        Mode::Reliable => "channels are chosen by what is measured",
    }
}

/// What the first step gives that gives anything.
fn first<T>(of: impl FnMut(usize) -> Option<T>) -> Option<T> {
    (1..=STEPS).find_map(of)
}

/// A rate that is higher by so many steps.
fn raised(rate: Rate, steps: usize) -> Option<Rate> {
    let bits = (0..steps).try_fold(rate.as_bits_per_sec(), |bits, _| bits.checked_add(bits / 100 * STEP + 1));
    bits.map(Rate::from_bits_per_sec)
}

/// A delay that is longer by so many steps.
fn longer(delay: Span, steps: usize) -> Span {
    let longer = |nanos: u64, _| nanos.saturating_add(nanos / 100 * STEP + 1);
    Span::from_nanos((0..steps).fold(delay.as_nanos(), longer))
}

/// So many steps less of `span`, down to nothing.
fn part(span: Span, steps: usize) -> Span {
    Span::from_nanos(span.as_nanos() / STEPS as u64 * (STEPS - steps) as u64)
}

fn mbit(rate: Rate) -> String {
    format!("{:.1} Mbit/s", rate.as_bits_per_sec() as f64 / 1e6)
}

fn ms(span: Span) -> String {
    format!("{:.1} ms", span.as_secs_f64() * 1e3)
}

fn seconds(span: Span) -> String {
    format!("{:.2} s", span.as_secs_f64())
}

fn percent(ppm: u32) -> String {
    format!("{:.2} %", f64::from(ppm) / 1e4)
}
