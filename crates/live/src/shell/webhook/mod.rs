//! Alarms to a webhook: `interface.webhook`, off by default.
//!
//! The daemon's loop looks once a second at what `fairspan status` would show, and puts what happened into a channel, without waiting. A
//! thread of its own, at the lowest priority, calls the receiver. So a receiver that dawdles or is gone costs packets nothing.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | the daemon's end |
//! | `watch` | what happened, from one status to the next |
//! | `sender` | the thread: what waits, and when it is tried again |
//! | `call` | one request, bounded in time |

mod call;
mod sender;
mod watch;

use super::looks;
use crate::config;
use crate::events;
use crate::status::{Status, WebhookStatus};
use fairspan_core::units::Time;
use rustix::process::setpriority_process;
use sender::{Known, Message, Sender};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use watch::{Alarm, Watch};

/// Alarms on their way to the thread, which may be calling; further ones are lost, and counted.
const ON_THE_WAY: usize = 256;
/// The nice value of the thread.
const NICE: i32 = 19;
/// Bytes of its stack.
const STACK: usize = 256 << 10;
/// How long the daemon's end waits for the thread's, which may be calling.
const END: Duration = Duration::from_millis(500);

/// The daemon's end.
#[derive(Debug)]
pub(super) struct Webhook {
    watch: Watch,
    messages: Option<SyncSender<Message>>,
    known: Known,
    thread: Option<JoinHandle<()>>,
    number: u64,
    due: Time,
}

impl Webhook {
    /// Begins to look. Where the system has no thread for it, the status says so.
    pub(super) fn begin(now: Time, hook: config::Webhook) -> Webhook {
        let known = Known::of(&hook);
        let (messages, taken) = sync_channel(ON_THE_WAY);
        let sender = Sender::new(hook, known.clone());
        let send = move || {
            let _ = setpriority_process(None, NICE);
            sender.run(&taken);
        };
        let thread = thread::Builder::new().name("webhook".into()).stack_size(STACK).spawn(send);
        let thread = thread.inspect_err(|error| {
            tracing::warn!(%error, "the webhook gets no alarms");
            known.lock().problem = Some(format!("its thread cannot be begun: {error}"));
        });
        let (messages, thread) = (Some(messages), thread.ok());
        Webhook { watch: Watch::default(), messages, known, thread, number: 0, due: now }
    }

    /// When it looks next.
    pub(super) fn poll_timeout(&self) -> Time {
        self.due
    }

    /// Looks, if that is due.
    pub(super) fn handle_timeout<'a>(&mut self, now: Time, status: impl FnOnce() -> &'a Status) {
        if now < self.due {
            return;
        }
        self.due = looks::next(now);
        let status = status();
        if self.number == 0 {
            let text = format!("{}: the daemon has begun", status.interface);
            self.send(status, Alarm { event: "started", of: None, link: None, text });
        }
        for alarm in self.watch.look(now.as_secs_f64(), status) {
            self.send(status, alarm);
        }
    }

    fn send(&mut self, status: &Status, alarm: Alarm) {
        self.number += 1;
        let (number, time, interface) = (self.number, events::wall_clock(), status.interface.clone());
        let Some(messages) = &self.messages else { return };
        match messages.try_send(Message { number, time, interface, alarm }) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.known.lock().lost += 1,
        }
    }

    /// What there is to tell of it.
    pub(super) fn status(&self) -> WebhookStatus {
        self.known.lock().clone()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.messages = None;
        let Some(thread) = self.thread.take() else { return };
        looks::join_within(END, thread);
    }
}

#[cfg(test)]
mod tests {
    use super::sender::Message;
    use super::watch::Alarm;
    use super::*;
    use zeroize::Zeroizing;

    pub(super) fn hook(address: &str) -> config::Webhook {
        let address = address.parse().expect("an address");
        config::Webhook { address, path: Zeroizing::new("/".into()), password: None }
    }

    pub(super) fn message(number: u64) -> Message {
        let alarm = Alarm { event: "link_down", of: Some("hub".into()), link: Some("lte".into()), text: "a\"b".into() };
        Message { number, time: 1.5, interface: "fs0".into(), alarm }
    }

    #[test]
    fn the_loop_looks_once_a_second_and_never_waits_for_a_receiver_that_takes_nothing() {
        // It accepts nobody, and the kernel holds the calls.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut webhook = Webhook::begin(Time::ZERO, hook(&listener.local_addr().expect("bound").to_string()));
        let (mut looks, status) = (0, Status::new("fs0", 1.0, 1400));
        for ms in (0..3000).step_by(100) {
            webhook.handle_timeout(Time::from_millis(ms), || {
                looks += 1;
                &status
            });
        }
        assert_eq!(looks, 3);
        let many = 3 * (ON_THE_WAY + sender::WAITING);
        for _ in 0..many {
            webhook.send(&status, message(1).alarm);
        }
        let known = webhook.status();
        assert_eq!((known.delivered, known.refused), (0, 0));
        assert!(known.lost >= (many - ON_THE_WAY - sender::WAITING - 2) as u64, "{known:?}");
    }
}
