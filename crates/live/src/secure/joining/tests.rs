use super::*;
use crate::secure::entropy::SeededEntropy;
use fairspan_core::units::Span;

const SECRET: [u8; 16] = [9; 16];
const EXPIRES: u64 = 1_000_000;

struct Stage {
    hub: PrivateKey,
    desk: Desk,
    entropy: SeededEntropy,
    now: Time,
    clock: u64,
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

impl Stage {
    fn new() -> Stage {
        let mut entropy = SeededEntropy::new(5);
        let hub = PrivateKey::generate(&mut entropy);
        let mut desk = Desk::new(hub.clone(), Box::new(SeededEntropy::new(6)), Time::ZERO);
        let guest = |secret: [u8; 16]| Guest { derived: Derived::of(&secret), expires: EXPIRES, key: None };
        desk.invite(vec![guest([8; 16]), guest(SECRET)]);
        Stage { hub, desk, entropy, now: Time::from_millis(10_000), clock: 1000 }
    }

    fn site(&mut self) -> Caller {
        let key = PrivateKey::generate(&mut self.entropy);
        Caller::new(key, self.hub.public_key(), &SECRET)
    }

    fn ask(&mut self, caller: &Caller, wanted: Wanted) -> Question {
        caller.ask(&mut self.entropy, wanted, 0, None).unwrap()
    }

    /// What the hub says to a datagram, where it keeps what it is asked to keep.
    fn hears(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        // Buckets fill up between questions.
        self.now += Span::from_secs(1);
        match self.desk.handle(self.now, self.clock, address("192.0.2.7:40000"), datagram) {
            Heard::Dropped => None,
            Heard::Reply(reply) => Some(reply),
            Heard::Wish(wish) => self.desk.settle(*wish, Verdict::Joined),
        }
    }

    fn verdict(&mut self, caller: &Caller, wanted: Wanted) -> Option<Verdict> {
        let question = self.ask(caller, wanted);
        let reply = self.hears(&question.datagram)?;
        match question.read(&reply)? {
            Reply::Answer(answer) => Some(answer.verdict),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_site_that_was_invited_looks_joins_and_is_told_so_again() {
    let mut stage = Stage::new();
    let site = stage.site();
    assert_eq!(stage.verdict(&site, Wanted::Look), Some(Verdict::Open));
    assert_eq!(stage.verdict(&site, Wanted::Look), Some(Verdict::Open), "looking changes nothing");
    assert_eq!(stage.verdict(&site, Wanted::Join), Some(Verdict::Joined));
    assert_eq!(stage.verdict(&site, Wanted::Join), Some(Verdict::Joined), "the answer may have been lost");
    assert_eq!(stage.desk.guests()[1].key, Some(site.private.public_key()));
    assert_eq!(stage.desk.guests()[0].key, None);
    assert_eq!(stage.desk.stats().joined, 1);
    // Long after its time.
    stage.clock = EXPIRES * 2;
    assert_eq!(stage.verdict(&site, Wanted::Look), Some(Verdict::Joined));
}

#[test]
fn a_used_invitation_is_refused_to_every_other_key_and_an_expired_one_to_all() {
    let mut stage = Stage::new();
    let (first, second) = (stage.site(), stage.site());
    stage.clock = EXPIRES;
    assert_eq!(stage.verdict(&first, Wanted::Look), Some(Verdict::Expired));
    assert_eq!(stage.verdict(&first, Wanted::Join), Some(Verdict::Expired));
    stage.clock = EXPIRES - 1;
    assert_eq!(stage.verdict(&first, Wanted::Join), Some(Verdict::Joined));
    for wanted in [Wanted::Look, Wanted::Join] {
        assert_eq!(stage.verdict(&second, wanted), Some(Verdict::Used));
    }
    assert_eq!(stage.desk.guests()[1].key, Some(first.private.public_key()));
    assert_eq!(stage.desk.stats().refused, 4);
}

#[test]
fn the_answer_tells_from_where_the_question_came_and_what_time_it_is_and_is_shorter() {
    let mut stage = Stage::new();
    let site = stage.site();
    for (from, len) in [("192.0.2.7:40000", 0), ("[2001:db8::7]:1", 1472), ("192.0.2.7:1", usize::MAX)] {
        let question = site.ask(&mut stage.entropy, Wanted::Look, len, None).unwrap();
        assert_eq!(question.datagram.len(), len.clamp(SHORTEST, LONGEST));
        let Heard::Reply(reply) = stage.desk.handle(stage.now, 77, address(from), &question.datagram) else { panic!() };
        let answer = Answer { verdict: Verdict::Open, seen: address(from), clock: 77 };
        assert_eq!(question.read(&reply), Some(Reply::Answer(answer)));
        assert!(reply.len() < question.datagram.len());
    }
}

#[test]
fn a_recorded_question_changes_nothing_and_its_answer_says_nothing_to_who_replays_it() {
    let mut stage = Stage::new();
    let (site, other) = (stage.site(), stage.site());
    let recorded = stage.ask(&site, Wanted::Join);
    assert!(stage.hears(&recorded.datagram).is_some());
    let before = stage.desk.guests()[1].key;
    let replayed = stage.hears(&recorded.datagram).unwrap();
    assert_eq!(stage.desk.guests()[1].key, before);
    assert_eq!(stage.desk.stats().joined, 1);
    // Nobody but who asked reads it: not another site with the same invitation either.
    let theirs = stage.ask(&other, Wanted::Join);
    assert_eq!(theirs.read(&replayed), None);
}

#[test]
fn a_question_held_back_until_the_invitation_has_expired_or_was_used_comes_too_late() {
    let mut stage = Stage::new();
    let (held, other) = (stage.site(), stage.site());
    let question = stage.ask(&held, Wanted::Join);
    assert_eq!(stage.verdict(&other, Wanted::Join), Some(Verdict::Joined));
    let reply = stage.hears(&question.datagram).unwrap();
    assert!(matches!(question.read(&reply), Some(Reply::Answer(Answer { verdict: Verdict::Used, .. }))));
    let mut stage = Stage::new();
    let late = stage.site();
    let question = stage.ask(&late, Wanted::Join);
    stage.clock = EXPIRES + 1;
    let reply = stage.hears(&question.datagram).unwrap();
    assert!(matches!(question.read(&reply), Some(Reply::Answer(Answer { verdict: Verdict::Expired, .. }))));
    assert_eq!(stage.desk.guests()[1].key, None);
}

#[test]
fn strangers_meet_silence() {
    let mut stage = Stage::new();
    let key = PrivateKey::generate(&mut stage.entropy);
    let other_hub = PrivateKey::generate(&mut stage.entropy).public_key();
    // Without the hub's key; without the secret.
    let mistaken = Caller::new(key.clone(), other_hub, &SECRET);
    assert_eq!(stage.verdict(&mistaken, Wanted::Look), None);
    let guessing = Caller::new(key.clone(), stage.hub.public_key(), &[1; 16]);
    assert_eq!(stage.verdict(&guessing, Wanted::Join), None);
    // Who knows the number alone, as who reads the hub's kept state does.
    let mut informed = Caller::new(key, stage.hub.public_key(), &[1; 16]);
    informed.derived.number = Derived::of(&SECRET).number;
    assert_eq!(stage.verdict(&informed, Wanted::Join), None);
    assert_eq!((stage.desk.stats().malformed, stage.desk.stats().uninvited), (1, 2));
    assert_eq!(stage.desk.stats().answered, 0);
}

#[test]
fn a_look_is_no_wish_to_join_whatever_is_done_to_it() {
    let mut stage = Stage::new();
    let site = stage.site();
    // The proof names what is wanted.
    let derived = Derived::of(&SECRET);
    let (own, hub) = (site.private.public_key(), stage.hub.public_key());
    assert_ne!(derived.prove(&own, &hub, 0), derived.prove(&own, &hub, 1));
    let question = stage.ask(&site, Wanted::Look);
    for place in 0..question.datagram.len() {
        let mut altered = question.datagram.clone();
        altered[place] ^= 1;
        let reply = stage.hears(&altered);
        // The second mac is not looked at before there is a flood.
        let mac2 = place >= altered.len() - MAC_LEN;
        assert!(reply.is_none() || mac2, "{place}");
    }
    assert_eq!(stage.desk.guests()[1].key, None);
}

#[test]
fn a_question_or_an_answer_cut_anywhere_is_none() {
    let mut stage = Stage::new();
    let site = stage.site();
    let question = stage.ask(&site, Wanted::Join);
    for end in 0..question.datagram.len() {
        assert!(stage.hears(&question.datagram[..end]).is_none(), "{end}");
    }
    let reply = stage.hears(&question.datagram).unwrap();
    for end in 0..reply.len() {
        assert_eq!(question.read(&reply[..end]), None, "{end}");
    }
    for place in 0..reply.len() {
        let mut forged = reply.clone();
        forged[place] ^= 1;
        assert_eq!(question.read(&forged), None, "{place}");
    }
    assert!(question.read(&reply).is_some());
}

#[test]
fn a_key_that_cannot_be_kept_joins_nobody_and_one_that_is_taken_neither() {
    let mut stage = Stage::new();
    let site = stage.site();
    let question = stage.ask(&site, Wanted::Join);
    let Heard::Wish(wish) = stage.desk.handle(stage.now, 1, address("192.0.2.7:1"), &question.datagram) else {
        panic!()
    };
    let reply = stage.desk.settle(*wish, Verdict::NotKept).unwrap();
    assert!(matches!(question.read(&reply), Some(Reply::Answer(Answer { verdict: Verdict::NotKept, .. }))));
    assert_eq!(stage.desk.guests()[1].key, None);
    // The hub's own key, and that of another guest.
    let own = Caller::new(stage.hub.clone(), stage.hub.public_key(), &SECRET);
    assert_eq!(stage.verdict(&own, Wanted::Join), Some(Verdict::KeyTaken));
    stage.desk.guests[0].key = Some(site.private.public_key());
    assert_eq!(stage.verdict(&site, Wanted::Join), Some(Verdict::KeyTaken));
}

#[test]
fn in_a_flood_an_address_must_be_proven_and_each_network_has_its_turns() {
    let mut stage = Stage::new();
    let site = stage.site();
    let question = stage.ask(&site, Wanted::Look);
    let (now, from) = (stage.now, address("192.0.2.7:40000"));
    let mut answers = 0;
    let reply = loop {
        let Heard::Reply(reply) = stage.desk.handle(now, 1, from, &question.datagram) else { panic!() };
        match question.read(&reply) {
            Some(Reply::Answer(_)) => answers += 1,
            Some(Reply::Cookie(cookie)) => break cookie,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(answers, PER_SECOND);
    let mut proven = 0;
    for port in 0..1000 {
        let again = site.ask(&mut stage.entropy, Wanted::Look, 0, Some(&reply)).unwrap();
        match stage.desk.handle(now, 1, if port % 2 == 0 { from } else { address("192.0.2.8:1") }, &again.datagram) {
            Heard::Reply(reply) if matches!(again.read(&reply), Some(Reply::Answer(_))) => proven += 1,
            Heard::Reply(_) => {}
            _ => assert_eq!(port % 2, 0),
        }
    }
    assert_eq!(proven, 2 * NETWORK_PER_SECOND, "of one network");
    assert!(stage.desk.stats().challenged >= 500 && stage.desk.stats().limited > 400);
    // However many networks there are, what is kept of them is bounded, and all together have a bound.
    let mut all = 0;
    for net in 0..2000_u32 {
        let from = SocketAddr::new(Ipv4Addr::from(0x0a00_0000 + (net << 8)).into(), 1);
        all += u32::from(stage.desk.has_turn(now, from.ip()));
    }
    assert!(all <= PROVEN_PER_SECOND && stage.desk.networks.len() <= NETWORKS_MAX, "{all}");
    let later = now + Span::from_secs(60);
    assert!(stage.desk.has_turn(later, "203.0.113.9".parse().unwrap()), "the room is there again");
}

#[test]
fn a_site_of_another_version_is_told_so() {
    let mut stage = Stage::new();
    let site = stage.site();
    let mut question = stage.ask(&site, Wanted::Look);
    let end = question.datagram.len() - 2 * MAC_LEN;
    question.datagram[1] = VERSION + 1;
    question.datagram.truncate(end);
    question.mac1 = site.macs.append(&mut question.datagram, None);
    let reply = stage.hears(&question.datagram).unwrap();
    assert_eq!(question.read(&reply), Some(Reply::OtherVersion(VERSION)));
}

#[test]
fn no_bytes_make_either_end_panic() {
    let mut stage = Stage::new();
    let site = stage.site();
    let question = stage.ask(&site, Wanted::Join);
    let mut rng = fairspan_core::rng::Rng::new(11);
    for _ in 0..2000 {
        let mut bytes = vec![0; (rng.next_u64() % 1600) as usize];
        stage.entropy.fill(&mut bytes);
        for kind in [JOIN_QUESTION, JOIN_ANSWER, 3, 4] {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            assert!(stage.hears(&bytes).is_none());
            assert_eq!(question.read(&bytes), None);
        }
        // What is under the right mac, and yet nonsense.
        if bytes.len() > SHORTEST && bytes.len() < LONGEST - 2 * MAC_LEN {
            bytes[..4].copy_from_slice(&[JOIN_QUESTION, VERSION, 0, 0]);
            site.macs.append(&mut bytes, None);
            assert!(stage.hears(&bytes).is_none());
        }
    }
}
