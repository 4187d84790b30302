//! An application over TCP as one endpoint of the world: its connections, both ends of each, and their timers.
//!
//! What happens at one instant: a segment goes to the end that it is for; the application there takes what has arrived;
//! the application writes, opens and closes; then the world takes the segments one by one. A connection that something
//! happened to is *touched* and polled until it gives nothing more and its application writes nothing more; only then its
//! timer is read. So a connection that rests costs nothing.
//!
//! Connections are numbered in the order of opening and found by number, in a ring from the oldest one that is not over;
//! one that is over is forgotten (see `Pair::is_over`), and segments that still arrive for it are ignored.
//!
//! Warm-up: counters of TCP count from its end on; windows and round trips are as they are.

use super::call::Call;
use super::datagram::Datagrams;
use super::exchange::Exchange;
use super::ftp::Ftp;
use super::game::Game;
use super::http::Http;
use super::pair::End;
use super::pairs::{Application, Pairs};
use super::transfers::OpenLoop;
use super::video::Video;
use super::web::Web;
use super::{Transfers, Wanted};
use crate::endpoint::{Endpoint, Handled, Outgoing};
use crate::packet::{Body, Packet};
use crate::results::{self, TcpResult, VideoResult};
use crate::tcp::config::Nagle;
use crate::tcp::{self, Connection};
use crate::traffic::{Config, ConfigError, Transport};
use fairspan_core::rng::Rng;
use fairspan_core::shared::Shared;
use fairspan_core::units::Time;

/// The endpoint of a flow with this traffic; `None` where a [`Source`](crate::traffic::Source) sends and nothing answers.
///
/// `start` and `stop` are the world's to call. `wanted` is what is measured of transfers besides.
pub fn endpoint(
    traffic: &Config,
    transport: &Transport,
    wanted: Wanted,
    mut rng: Rng,
) -> Result<Option<Box<dyn Endpoint>>, ConfigError> {
    traffic.check()?;
    let draws = Rng::new(rng.next_u64());
    let settings = match transport {
        Transport::Tcp(settings) => settings,
        Transport::Datagram { header } => {
            return match traffic {
                Config::RequestResponse { request, response, think, timeout } => {
                    let datagrams = Datagrams::new(request, response, *think, *timeout, *header, draws)?;
                    Ok(Some(Box::new(datagrams)))
                }
                Config::Call(call) => Ok(Some(Box::new(Call::new(*call)))),
                Config::Game(game) => Ok(Some(Box::new(Game::new(game, *header, draws)?))),
                Config::Ftp { .. } | Config::Http { .. } | Config::Transfers(_) | Config::Web(_) | Config::Video(_) => {
                    Err(ConfigError::Transport { needed: "TCP" })
                }
                _ => Ok(None),
            };
        }
    };
    let mut settings = settings.clone();
    // A transfer is compared with an empty path; what a server or a browser takes its time for is not.
    let records = Wanted { ideal: None, ..wanted.clone() };
    let application: Box<dyn Application> = match traffic {
        Config::Ftp { bytes, writes } => {
            if writes.is_some() {
                settings.segment_per_write = true;
                settings.nagle = Nagle::Off;
            }
            Box::new(Ftp::new(*bytes, writes.as_ref(), Transfers::with(wanted), draws)?)
        }
        Config::Http { parallel, files, fetches, request, think } => {
            Box::new(Http::new(*parallel, files, *fetches, *request, *think, Transfers::with(records), draws))
        }
        Config::Transfers(config) => {
            let wanted = Wanted { classes: config.classes.clone(), ..wanted };
            Box::new(OpenLoop::new(config, Transfers::with(wanted), draws)?)
        }
        Config::Web(config) => Box::new(Web::new(config, Transfers::with(records), draws)?),
        Config::Video(config) => Box::new(Video::new(config, Transfers::with(records))),
        Config::RequestResponse { request, response, think, .. } => {
            Box::new(Exchange::new(request, response, *think, Transfers::with(records), draws)?)
        }
        _ => return Err(ConfigError::Transport { needed: "datagrams" }),
    };
    Ok(Some(Box::new(TcpEndpoint::new(settings, application, rng))))
}

/// An application over TCP.
#[derive(Debug)]
pub struct TcpEndpoint {
    application: Box<dyn Application>,
    pairs: Pairs,
    delivered: u64,
}

impl TcpEndpoint {
    /// `application` over connections with these settings at both ends.
    pub fn new(settings: Shared<tcp::Config>, application: Box<dyn Application>, rng: Rng) -> TcpEndpoint {
        TcpEndpoint { application, pairs: Pairs::new(settings, rng), delivered: 0 }
    }

    fn sender(&self) -> Option<&Connection> {
        self.pairs.open_pairs().last().map(|pair| pair.end(End::Sender))
    }
}

impl Endpoint for TcpEndpoint {
    fn start(&mut self, now: Time) {
        self.application.start(now, &mut self.pairs);
    }

    fn stop(&mut self, now: Time) {
        self.application.stop(now, &mut self.pairs);
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, packet: &Packet) -> Handled {
        let (Body::Segment(segment), Some(pair)) = (&packet.body, self.pairs.get(packet.connection)) else {
            return Handled::default();
        };
        let end = if packet.reverse { End::Sender } else { End::Receiver };
        let connection = pair.end_mut(end);
        let before = connection.stats().out_of_order;
        connection.handle_segment(now, segment);
        let out_of_order = connection.stats().out_of_order != before;
        let bytes = pair.read(now, end);
        if end == End::Receiver {
            self.delivered += bytes;
        }
        Handled { out_of_order }
    }

    fn handle_timeout(&mut self, now: Time) {
        let mut expired = self.pairs.expired(now);
        for number in expired.drain(..) {
            let ends = self.pairs.ends();
            if let Some(pair) = self.pairs.get(number) {
                ends.iter().for_each(|end| pair.end_mut(*end).handle_timeout(now));
            }
        }
        self.pairs.give_back(expired);
        if self.application.poll_timeout().is_some_and(|due| due <= now) {
            self.application.handle_timeout(now, &mut self.pairs);
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        self.pairs.poll_transmit(now, &mut *self.application)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let due = self.pairs.poll_timeout();
        let due = self.application.poll_timeout().map_or(due, |pause| pause.min(due));
        (due < Time::MAX).then_some(due)
    }

    fn poll_delivered(&mut self) -> u64 {
        std::mem::take(&mut self.delivered)
    }

    fn tcp(&self) -> Option<TcpResult> {
        let (counters, before) = (self.pairs.counters(), self.pairs.before);
        let (window, smoothed_rtt) = match self.sender() {
            Some(sender) => (sender.window(), sender.smoothed_rtt().as_secs_f64()),
            None => self.pairs.last,
        };
        Some(TcpResult {
            retransmitted: counters.retransmitted - before.retransmitted,
            timeouts: counters.timeouts - before.timeouts,
            recoveries: counters.recoveries - before.recoveries,
            window,
            smoothed_rtt,
        })
    }

    fn transfers(&self) -> Option<results::Transfers> {
        self.application.transfers().map(Transfers::result)
    }

    fn video(&self, now: Time) -> Option<VideoResult> {
        self.application.video(now)
    }

    fn window(&self) -> Option<u64> {
        Some(self.sender().map_or(self.pairs.last.0, Connection::window))
    }

    fn silence(&mut self, reverse: bool) {
        self.pairs.silence(if reverse { End::Receiver } else { End::Sender });
    }

    fn begin(&mut self, now: Time) {
        self.pairs.before = self.pairs.counters();
        self.application.begin(now);
    }
}
