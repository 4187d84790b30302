//! The parts of a handshake that cost because someone sent something: answering it takes four products on the curve and a new
//! key, in two steps, and reading an answer takes two products. The state machine hands a step out as [`Work`] and takes what
//! came of it as [`Done`], so that another thread may compute it.
//!
//! Between the steps of answering the state machine looks whether the initiation is new: the second is computed for no replay.

use super::Endpoint;
use super::aead::Cipher;
use super::cookie::Mac;
use super::entropy::Entropy;
use super::keys::{PresharedKey, PrivateKey};
use super::noise::{Initiator, Responder, Split};
use super::wire::{InitiationPayload, RESPONSE, handshake_header};
use std::net::IpAddr;
use std::sync::Arc;

/// An initiation.
pub(super) struct Arrived {
    pub(super) from: Endpoint,
    /// Our address that was asked, where the driver knows it.
    pub(super) local: Option<IpAddr>,
    pub(super) sender: u32,
    pub(super) mac1: Mac,
    pub(super) noise: Vec<u8>,
}

/// An answer to an initiation of ours, or what claims to be one.
pub(super) struct Answer {
    pub(super) from: Endpoint,
    /// The index under which we began.
    pub(super) receiver: u32,
    /// The handshake as it stood: a forged answer leaves it so.
    pub(super) initiator: Arc<Initiator>,
    pub(super) noise: Vec<u8>,
}

/// What arrived and passed all that is cheap to check.
pub(super) enum Message {
    Initiation(Arrived),
    Answer(Answer),
}

/// An initiation that is to be answered.
pub(super) struct Answering {
    pub(super) arrived: Arrived,
    /// Whose it is, and its path's number.
    pub(super) peer: u32,
    pub(super) path: u32,
    /// Our index, in a slot that is held for it.
    pub(super) index: u32,
    pub(super) cipher: Cipher,
    pub(super) said: InitiationPayload,
}

/// What the second step needs beside what it gives back.
struct AnswerStep {
    answering: Answering,
    responder: Box<Responder>,
    psk: Option<PresharedKey>,
    payload: Vec<u8>,
}

/// A step to compute.
pub struct Work(Inner);

enum Inner {
    Read(Box<PrivateKey>, Arrived),
    Answer(Box<AnswerStep>),
    Finish(Answer),
}

/// What came of it.
pub struct Done(pub(super) Outcome);

pub(super) enum Outcome {
    /// The initiation was read; `None`: it does not authenticate.
    Read(Arrived, Option<Box<Responder>>),
    /// The answer is made, without its macs; `None`: a key is no point of the curve.
    Answered(Box<Answering>, Option<(Vec<u8>, Box<Split>)>),
    /// The answer was read: what it says, and the keys; `None`: it does not authenticate.
    Finished(Answer, Option<(Vec<u8>, Box<Split>)>),
}

impl Work {
    /// The first step for what arrived.
    pub(super) fn begin(local: &PrivateKey, message: Message) -> Work {
        Work(match message {
            Message::Initiation(arrived) => Inner::Read(Box::new(local.clone()), arrived),
            Message::Answer(answer) => Inner::Finish(answer),
        })
    }

    pub(super) fn answer(
        answering: Answering,
        responder: Box<Responder>,
        psk: Option<PresharedKey>,
        payload: Vec<u8>,
    ) -> Work {
        Work(Inner::Answer(Box::new(AnswerStep { answering, responder, psk, payload })))
    }

    /// Computes it. `entropy` gives the key that this end makes for the handshake.
    pub fn run(self, entropy: &mut dyn Entropy) -> Done {
        match self.0 {
            Inner::Read(local, arrived) => {
                let read = Responder::read(entropy, &local, arrived.sender, &arrived.noise).ok();
                Done(Outcome::Read(arrived, read))
            }
            Inner::Answer(mut step) => {
                let mut message = handshake_header(RESPONSE, step.answering.arrived.sender).to_vec();
                let answered = step.responder.answer(step.psk.as_ref(), &step.payload, &mut message).ok();
                Done(Outcome::Answered(Box::new(step.answering), answered.map(|split| (message, split))))
            }
            Inner::Finish(answer) => {
                let finished = answer.initiator.finish(&answer.noise).ok();
                Done(Outcome::Finished(answer, finished))
            }
        }
    }
}
