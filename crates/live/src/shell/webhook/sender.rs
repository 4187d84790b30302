//! The thread that brings alarms to their receiver, one after the other, and what is known of it.
//!
//! One that fails is tried again after 1 s, then 2, and so on up to a minute; the others wait behind it. More than [`WAITING`] do not: the
//! oldest gives way, and that is counted.

use super::call::{Limits, Outcome, call};
use super::watch::Alarm;
use crate::config::Webhook;
use crate::status::WebhookStatus;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most alarms that wait.
pub(super) const WAITING: usize = 256;
/// How soon a failed call is made again, and how late at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// An alarm as it is sent.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Message {
    /// Counts from 1 since the daemon began.
    pub(super) number: u64,
    /// When, in seconds since 1970.
    pub(super) time: f64,
    pub(super) interface: String,
    #[serde(flatten)]
    pub(super) alarm: Alarm,
}

/// What is known of it, for both threads; nobody holds it while he waits for something else.
#[derive(Clone, Debug)]
pub(super) struct Known(Arc<Mutex<WebhookStatus>>);

impl Known {
    pub(super) fn of(hook: &Webhook) -> Known {
        let address = hook.address.to_string();
        Known(Arc::new(Mutex::new(WebhookStatus {
            address,
            delivered: 0,
            refused: 0,
            lost: 0,
            waiting: 0,
            problem: None,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, WebhookStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread.
pub(super) struct Sender {
    hook: Webhook,
    limits: Limits,
    known: Known,
    queue: VecDeque<Message>,
    pause: Duration,
    /// When the first of the queue is tried again.
    again: Option<Instant>,
    /// What the log was told of last.
    told: Option<String>,
}

impl Sender {
    pub(super) fn new(hook: Webhook, known: Known) -> Sender {
        let (queue, pause) = (VecDeque::new(), Duration::ZERO);
        Sender { hook, limits: Limits::USUAL, known, queue, pause, again: None, told: None }
    }

    /// Sends what comes, until nothing more can come.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let wait = match (self.queue.is_empty(), self.again) {
                (true, _) => None,
                (false, again) => Some(again.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))),
            };
            let taken = match wait {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => messages.recv_timeout(wait),
            };
            match taken {
                Ok(message) => self.put(message),
                Err(RecvTimeoutError::Timeout) => self.send_first(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn put(&mut self, message: Message) {
        self.queue.push_back(message);
        let mut known = self.known.lock();
        if self.queue.len() > WAITING {
            self.queue.pop_front();
            known.lost += 1;
        }
        known.waiting = self.queue.len() as u64;
    }

    /// Calls for the alarm that has waited longest.
    fn send_first(&mut self) {
        let Some(first) = self.queue.front() else { return };
        let body = serde_json::to_vec(first).unwrap_or_default();
        let outcome = call(&self.hook, &body, self.limits);
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: Outcome) {
        let problem = match outcome {
            Outcome::Delivered => None,
            Outcome::Refused(why) => Some((why, "the webhook refuses an alarm, which is not sent again")),
            Outcome::Failed(why) => {
                self.pause = (2 * self.pause).clamp(AGAIN.0, AGAIN.1);
                self.again = Some(Instant::now() + self.pause);
                return self.tell(Some((why, "an alarm does not reach the webhook; it is tried again")));
            }
        };
        self.queue.pop_front();
        (self.pause, self.again) = (Duration::ZERO, None);
        {
            let mut known = self.known.lock();
            known.delivered += u64::from(problem.is_none());
            known.refused += u64::from(problem.is_some());
        }
        self.tell(problem);
    }

    /// Tells the status, and the log once.
    fn tell(&mut self, problem: Option<(String, &'static str)>) {
        let address = self.hook.address;
        match &problem {
            None if self.told.take().is_some() => tracing::info!(%address, "the webhook takes alarms again"),
            Some((why, text)) if self.told.as_ref() != Some(why) => {
                tracing::warn!(%address, why, "{text}");
                self.told = Some(why.clone());
            }
            _ => {}
        }
        let mut known = self.known.lock();
        known.waiting = self.queue.len() as u64;
        known.problem = problem.map(|(why, _)| why);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{hook, message};
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn pauses_grow_until_one_is_taken_and_what_is_refused_is_not_kept() {
        let hook = hook("127.0.0.1:1");
        let known = Known::of(&hook);
        let mut sender = Sender::new(hook, known.clone());
        (1..=3).for_each(|number| sender.put(message(number)));
        let failed = || Outcome::Failed("busy".into());
        let pauses: Vec<u64> = (0..8)
            .map(|_| {
                sender.settle(failed());
                sender.pause.as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(sender.again.is_some());
        let status = known.lock().clone();
        assert_eq!((status.waiting, status.problem.as_deref()), (3, Some("busy")));
        sender.settle(Outcome::Refused("it answers 404".into()));
        assert_eq!((sender.queue.len(), sender.again), (2, None));
        sender.settle(failed());
        assert_eq!(sender.pause.as_secs(), 1, "all is forgotten");
        sender.settle(Outcome::Delivered);
        let status = known.lock().clone();
        assert_eq!((status.delivered, status.refused, status.waiting, status.problem), (1, 1, 1, None));
        assert_eq!(sender.queue[0].number, 3, "in order");
    }

    #[test]
    fn no_more_wait_than_there_is_room_for_and_the_oldest_gives_way() {
        let hook = hook("127.0.0.1:1");
        let known = Known::of(&hook);
        let mut sender = Sender::new(hook, known.clone());
        (1..=WAITING as u64 + 10).for_each(|number| sender.put(message(number)));
        assert_eq!((sender.queue.len(), sender.queue[0].number), (WAITING, 11));
        let status = known.lock().clone();
        assert_eq!((status.lost, status.waiting), (10, WAITING as u64));
    }

    #[test]
    fn alarms_come_in_order_each_once_as_one_document() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let hook = hook(&listener.local_addr().expect("bound").to_string());
        let known = Known::of(&hook);
        let (messages, taken) = sync_channel(8);
        let sender = std::thread::spawn({
            let known = known.clone();
            move || Sender::new(hook, known).run(&taken)
        });
        (1..=3).for_each(|number| messages.send(message(number)).expect("taken"));
        for number in 1..=3 {
            let (mut stream, _) = listener.accept().expect("a call");
            let mut all = Vec::new();
            let body = loop {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("more");
                all.push(byte[0]);
                let text = String::from_utf8_lossy(&all).into_owned();
                let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
                if let Some(document) = body.and_then(|body| serde_json::from_str::<serde_json::Value>(&body).ok()) {
                    break document;
                }
            };
            let wanted = serde_json::json!({ "number": number, "time": 1.5, "interface": "fs0", "event": "link_down",
                "of": "hub", "link": "lte", "text": "a\"b" });
            assert_eq!(body, wanted);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("taken");
        }
        drop(messages);
        sender.join().expect("ended");
        assert_eq!(known.lock().delivered, 3);
    }
}
