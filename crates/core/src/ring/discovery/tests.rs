use super::*;
use crate::ring::control::{Heard, Keepalive};
use alloc::string::ToString;
use alloc::vec;

fn node(n: u8) -> NodeId {
    NodeId::new(n).unwrap()
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

/// Node 2 of four. It listens for nobody, and tells only what changes.
/// Both its links are up; the other is its own report.
fn linked() -> (Discovery, Report) {
    let config = Config { announcement: b"mine".to_vec(), ..Config::still(node(2), 4, Rate::from_mbit(100)) };
    let mut discovery = Discovery::new(config, Time::ZERO, 7).unwrap();
    for side in Side::BOTH {
        discovery.set_link(ms(100), side, true);
    }
    let own = sent(&mut discovery, ms(100), Side::East).pop().expect("links that come up are told");
    (discovery, own)
}

/// All that it sends now; the reports among it that go out by `side`.
fn sent(discovery: &mut Discovery, now: Time, side: Side) -> Vec<Report> {
    let (mut frame, mut reports) = (vec![], vec![]);
    while let Some(by) = discovery.poll_control(now, &mut frame) {
        let message = open(&frame).and_then(|(kind, node, body)| Message::decode(kind, node, body));
        if let Ok(Message::Report(report)) = message
            && by == side
        {
            reports.push(report);
        }
    }
    reports
}

fn take(discovery: &mut Discovery, now: Time, side: Side, report: &Report) -> Result<(), Refused> {
    let mut frame = vec![];
    report.encode(&mut frame);
    discovery.handle_frame(now, side, &frame)
}

/// A report that says so under the name and in the manner of `own`.
fn forged(own: &Report, sequence: u64) -> Report {
    Report { sequence, announcement: b"forged".to_vec(), ..own.clone() }
}

#[test]
fn a_nodes_own_report_that_comes_round_is_nothing_new_nor_is_what_it_said_before() {
    let (mut discovery, own) = linked();
    for report in [own.clone(), forged(&own, own.sequence - 1)] {
        assert_eq!(take(&mut discovery, ms(200), Side::West, &report), Ok(()));
    }
    assert_eq!(sent(&mut discovery, ms(300), Side::East), []);
}

#[test]
fn what_was_said_in_a_nodes_name_is_outdone_unless_nobody_can_have_taken_it() {
    for (ahead, outdone) in [(0, true), (1, true), (AHEAD - 1, true), (AHEAD, false)] {
        let (mut discovery, own) = linked();
        let report = forged(&own, own.sequence + ahead);
        assert_eq!(take(&mut discovery, ms(200), Side::West, &report), Err(Refused::Forged));
        let answer = sent(&mut discovery, ms(200), Side::East);
        let expected = Report { sequence: report.sequence + 1, ..own };
        assert_eq!(answer, if outdone { vec![expected] } else { vec![] }, "{ahead} ahead");
    }
}

#[test]
fn a_node_whose_numbers_others_have_used_up_begins_anew_as_another_instance() {
    let (mut discovery, own) = linked();
    let mut sequence = own.sequence;
    while sequence + AHEAD < MOST - 1 {
        sequence += AHEAD;
        assert_eq!(take(&mut discovery, ms(200), Side::West, &forged(&own, sequence - 1)), Err(Refused::Forged));
    }
    let mut now = ms(1000);
    for (sequence, next) in [(MOST - 2, Some(MOST - 1)), (MOST - 1, None)] {
        now += Span::from_millis(100);
        assert_eq!(take(&mut discovery, now, Side::West, &forged(&own, sequence)), Err(Refused::Forged));
        let answer = sent(&mut discovery, now, Side::East).pop().expect("it is outdone");
        assert_eq!(answer.instance == own.instance, next.is_some());
        assert_eq!(answer.sequence, next.unwrap_or(1));
    }
}

#[test]
fn a_report_of_another_instance_lets_a_node_tell_the_ring_again_who_is_there() {
    let (mut discovery, own) = linked();
    let other = Report { instance: own.instance ^ 1, sequence: own.sequence + 5, ..own.clone() };
    assert_eq!(take(&mut discovery, ms(200), Side::West, &other), Err(Refused::Taken { node: node(2) }));
    let again = Report { sequence: own.sequence + 1, ..own };
    assert_eq!(sent(&mut discovery, ms(200), Side::East), [again]);
}

#[test]
fn capacities_and_weights_are_told_when_they_change_and_not_when_they_are_set_to_what_they_are() {
    let (mut discovery, own) = linked();
    discovery.set_capacity(ms(200), Side::East, Rate::from_mbit(10));
    let told = sent(&mut discovery, ms(200), Side::East).pop().expect("another capacity");
    assert_eq!(told.links, [Link { capacity: Rate::from_mbit(10), ..own.links[0] }, own.links[1]]);
    discovery.set_weight(ms(300), 3000);
    assert_eq!(sent(&mut discovery, ms(300), Side::East).pop().map(|report| report.weight), Some(3000));
    discovery.set_capacity(ms(400), Side::East, Rate::from_mbit(10));
    discovery.set_weight(ms(400), 3000);
    assert_eq!(sent(&mut discovery, ms(400), Side::East), []);
}

#[test]
fn who_is_reached_by_a_link_that_comes_up_is_told_everything_that_is_known() {
    let (mut discovery, own) = linked();
    let of = |discovery: &mut Discovery, now: Time| {
        sent(discovery, now, Side::East).iter().map(|report| report.node).collect::<Vec<NodeId>>()
    };
    let first = Report { node: node(1), instance: 9, ..own };
    assert_eq!(take(&mut discovery, ms(200), Side::West, &first), Ok(()));
    assert_eq!(of(&mut discovery, ms(200)), [node(1)]);
    discovery.set_link(ms(300), Side::East, false);
    assert_eq!(of(&mut discovery, ms(300)), []);
    discovery.set_link(ms(400), Side::East, true);
    assert_eq!(of(&mut discovery, ms(400)), [node(1), node(2)]);
}

#[test]
fn frames_are_counted_by_what_became_of_them() {
    let (mut discovery, own) = linked();
    let first = Report { node: node(1), instance: 9, ..own };
    let before = *discovery.stats();
    for _ in 0..3 {
        assert_eq!(take(&mut discovery, ms(200), Side::West, &first), Ok(()));
    }
    assert_eq!(sent(&mut discovery, ms(200), Side::East).len(), 1, "it goes on once");
    discovery.set_link(ms(300), Side::East, false);
    assert!(take(&mut discovery, ms(300), Side::East, &first).is_err());
    assert_eq!(sent(&mut discovery, ms(300), Side::West).len(), 1, "that the link is down");
    let expected =
        [("sent", before.sent + 2), ("taken", before.taken + 3), ("known", before.known + 2), ("failures", 1)];
    assert_eq!(discovery.stats().each().collect::<Vec<_>>(), expected);
    assert_eq!(discovery.stats().refused[Refused::Down.index()], 1);
}

#[test]
fn after_a_change_a_report_is_told_five_times_more_by_a_tenth_of_the_usual_time() {
    let config = Config { refresh: Some(Span::from_secs(1)), ..Config::still(node(2), 4, Rate::from_mbit(100)) };
    let mut discovery = Discovery::new(config, Time::ZERO, 7).unwrap();
    discovery.set_link(ms(100), Side::East, true);
    assert_eq!(sent(&mut discovery, ms(100), Side::East).len(), 1);
    discovery.set_weight(ms(200), 3000);
    assert_eq!(sent(&mut discovery, ms(200), Side::East).len(), 1);
    let mut told = vec![];
    while told.len() < 7 {
        let due = discovery.poll_timeout().expect("there is more to tell");
        discovery.handle_timeout(due);
        told.extend(sent(&mut discovery, due, Side::East).iter().map(|_| due));
    }
    assert_eq!(told, [300, 400, 500, 600, 700, 1700, 2700].map(ms));
}

#[test]
fn eight_changes_in_a_row_are_told_at_once_and_what_follows_as_one_when_the_pace_allows_it() {
    let (mut discovery, _) = linked();
    let mut told = vec![];
    for weight in 1..=12 {
        discovery.set_weight(ms(1000), weight);
        told.extend(sent(&mut discovery, ms(1000), Side::East).iter().map(|report| report.weight));
    }
    assert_eq!(told, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(discovery.poll_timeout(), Some(ms(1004)));
    discovery.handle_timeout(ms(1004));
    let rest: Vec<u32> = sent(&mut discovery, ms(1004), Side::East).iter().map(|report| report.weight).collect();
    assert_eq!((rest, discovery.poll_timeout()), (vec![12], None));
}

#[test]
fn settings_that_cannot_be_are_refused_with_what_would_be_right() {
    let one = Reservation { to: Some(node(4)), class: Class::A, rate: Rate::from_mbit(1) };
    type Spoil = fn(&mut Config, Reservation);
    let cases: [(Spoil, &str); 12] = [
        (|c, _| c.nodes = 1, "a ring has 2 to 255 nodes, not 1"),
        (|c, _| c.nodes = 256, "a ring has 2 to 255 nodes, not 256"),
        (|c, _| c.node = node(5), "node 5 in a ring of 4 nodes"),
        (|c, _| c.nominal = Rate::default(), "nominal: more than 0 bit/s"),
        (|c, _| c.weight = 0, "weight: one thousandth at least"),
        (|c, _| c.announcement = vec![0; 513], "announcement: 512 bytes at most"),
        (|c, _| c.keepalive = Some(Span::ZERO), "keepalive: more than 0 s"),
        (|c, _| c.silence = Span::from_micros(5_999), "silence: twice the time between keepalives at least"),
        (|c, _| c.refresh = Some(Span::from_micros(999)), "refresh: 1 ms at least"),
        (|c, one| c.reservations = vec![one; 65], RESERVATIONS),
        (|c, one| c.reservations = vec![Reservation { class: Class::C, ..one }], RESERVATIONS),
        (|c, one| c.reservations = vec![Reservation { to: NodeId::new(5), ..one }], RESERVATIONS),
    ];
    const RESERVATIONS: &str = "reservations: 64 at most, of class A or B, to other nodes of the ring";
    let mut right = Config::new(node(2), 4, Rate::from_bits_per_sec(1));
    (right.weight, right.announcement, right.reservations) = (1, vec![0; 512], vec![one; 64]);
    (right.silence, right.refresh) = (Span::from_millis(6), Some(Span::from_millis(1)));
    assert!(Discovery::new(right.clone(), Time::ZERO, 7).is_ok(), "each at its bound");
    for (spoil, message) in cases {
        let mut config = right.clone();
        spoil(&mut config, one);
        let error = Discovery::new(config, Time::ZERO, 7).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(message));
    }
}

#[test]
fn who_listens_for_nobody_and_tells_only_changes_has_nothing_to_wait_for() {
    assert_eq!(linked().0.poll_timeout(), None);
}

#[test]
fn keepalives_name_the_process_that_sends_them() {
    let named = |seed: u64| {
        let config = Config::new(node(2), 4, Rate::from_mbit(100));
        let mut discovery = Discovery::new(config, Time::ZERO, seed).unwrap();
        discovery.set_link(ms(1), Side::East, true);
        let mut frame = vec![];
        assert_eq!(discovery.poll_control(ms(1), &mut frame), Some(Side::East));
        let (kind, node, body) = open(&frame).unwrap();
        let Ok(Message::Keepalive(keepalive)) = Message::decode(kind, node, body) else { panic!("no keepalive") };
        assert_eq!((keepalive.instance, discovery.stats().sent), (discovery.instance(), 1));
        keepalive.instance
    };
    assert_ne!(named(7), named(8));
}

/// Node 2 of four with keepalives every 2 ms, which has heard node 3 in the east at 100 ms.
fn listening() -> Discovery {
    let config = Config { keepalive: Some(Span::from_millis(2)), ..Config::new(node(2), 4, Rate::from_mbit(100)) };
    let mut discovery = Discovery::new(config, Time::ZERO, 7).unwrap();
    discovery.set_link(ms(100), Side::East, true);
    sent(&mut discovery, ms(100), Side::East);
    let heard = Some(Heard { node: node(2), instance: discovery.instance(), number: 1 });
    let mut frame = vec![];
    let (nodes, east, settings, nominal) = (4, false, 0, Rate::from_mbit(100));
    Keepalive { node: node(3), nodes, east, instance: 9, number: 1, heard, settings, nominal }.encode(&mut frame);
    assert_eq!(discovery.handle_frame(ms(100), Side::East, &frame), Ok(()));
    discovery
}

#[test]
fn what_a_node_hears_of_its_neighbours_is_in_its_report() {
    let mut discovery = listening();
    let report = sent(&mut discovery, ms(100), Side::East).pop().expect("there is somebody to tell");
    assert_eq!(report.links.map(|link| (link.up, link.heard)), [(true, Some(9)), (false, None)]);
}

#[test]
fn only_who_was_asked_for_nothing_for_more_than_one_and_a_half_intervals_has_slept() {
    for (asked, deadline) in [(ms(103), ms(112)), (ms(103) + Span::from_nanos(1), ms(113) + Span::from_nanos(1))] {
        let mut discovery = listening();
        let mut now = asked;
        while discovery.is_up(Side::East) {
            discovery.handle_timeout(now);
            sent(&mut discovery, now, Side::East);
            now = discovery.poll_timeout().expect("a neighbour is waited for");
        }
        assert_eq!(discovery.awake, deadline);
    }
}

#[test]
fn a_report_over_a_link_without_a_neighbour_is_a_strangers_and_one_over_a_link_that_is_down_is_refused() {
    let (_, own) = linked();
    let first = Report { node: node(1), instance: 9, ..own };
    let mut discovery = listening();
    assert_eq!(take(&mut discovery, ms(101), Side::West, &first), Err(Refused::Down));
    discovery.set_link(ms(101), Side::West, true);
    assert_eq!(take(&mut discovery, ms(101), Side::West, &first), Err(Refused::Stranger));
    assert_eq!(take(&mut discovery, ms(101), Side::East, &first), Ok(()));
}
