use super::*;
use alloc::vec;

const MBIT: fn(u64) -> Rate = Rate::from_mbit;

fn node(n: u8) -> NodeId {
    NodeId::new(n).unwrap()
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

/// What node `n` of a ring of `nodes` tells, whose links are up.
fn report(n: u8, nodes: u8, instance: u32, sequence: u64) -> Report {
    Report {
        node: node(n),
        nodes,
        ttl: nodes,
        instance,
        sequence,
        links: [Link { up: true, heard: None, capacity: MBIT(100) }; 2],
        weight: UNIT_WEIGHT,
        reservations: vec![],
        announcement: vec![],
    }
}

/// Which nodes' reports are to be sent over the link.
fn sent(reports: &mut Reports, side: Side) -> Vec<u8> {
    core::iter::from_fn(|| reports.poll(side).map(|report| report.node.number())).collect()
}

#[test]
fn what_is_older_than_what_is_known_is_answered_and_what_came_by_the_short_way_is_not() {
    let known = |sequence| Report { weight: 2000, ..report(3, 5, 1, sequence) };
    let first = 1000;
    let cases = [
        (known(first), Ok(Taken::Known), false),
        (Report { weight: 2001, ..known(first) }, Ok(Taken::Changed), false),
        (Report { weight: 1999, ..known(first) }, Err(Refused::Stale), true),
        (known(first + 1), Ok(Taken::Renewed), false),
        (Report { weight: 1999, ..known(first + 1) }, Ok(Taken::Changed), false),
        (known(first - 1), Ok(Taken::Known), false),
        (known(first - LATE + 1), Ok(Taken::Known), false),
        (known(first - LATE), Err(Refused::Stale), true),
        (known(first + AHEAD - 1), Ok(Taken::Renewed), false),
        (known(first + AHEAD), Err(Refused::Stale), false),
        (known(MOST), Err(Refused::Stale), false),
    ];
    for (told, result, answered) in cases {
        let mut reports = Reports::new(5);
        assert_eq!(reports.take(ms(0), Side::East, known(first)), Ok(Taken::Changed));
        assert_eq!(sent(&mut reports, Side::West), [3]);
        assert_eq!(reports.take(ms(1), Side::East, told.clone()), result, "{told:?}");
        assert_eq!(sent(&mut reports, Side::East), if answered { vec![3] } else { vec![] }, "{told:?}");
        let goes_on = matches!(result, Ok(Taken::Changed | Taken::Renewed));
        assert_eq!(sent(&mut reports, Side::West), if goes_on { vec![3] } else { vec![] }, "{told:?}");
    }
    let mut reports = Reports::new(5);
    assert_eq!(reports.take(ms(0), Side::East, known(MOST - 1)), Ok(Taken::Changed));
}

#[test]
fn another_instance_is_taken_unless_the_known_one_alone_is_heard_by_a_neighbour() {
    for n in [1, 3, 5] {
        let (before, behind) = (if n == 1 { 5 } else { n - 1 }, n % 5 + 1);
        // Whom the neighbours before and behind it hear.
        for (hears, taken) in [
            ([None, None], true),
            ([Some(1), None], false),
            ([None, Some(1)], false),
            ([Some(1), Some(1)], false),
            ([Some(1), Some(2)], true),
            ([Some(2), Some(1)], true),
            ([Some(2), None], true),
        ] {
            let mut reports = Reports::new(5);
            reports.take(ms(0), Side::East, report(n, 5, 1, 7)).unwrap();
            let mut neighbours = [report(before, 5, 8, 1), report(behind, 5, 9, 1)];
            neighbours[0].links[Side::East.index()].heard = hears[0];
            neighbours[1].links[Side::West.index()].heard = hears[1];
            for neighbour in neighbours {
                reports.take(ms(0), Side::East, neighbour).unwrap();
            }
            let result = reports.take(ms(1), Side::East, report(n, 5, 2, 1));
            let expected = if taken { Ok(Taken::Changed) } else { Err(Refused::Taken { node: node(n) }) };
            assert_eq!(result, expected, "node {n}, {hears:?}");
            assert_eq!(sent(&mut reports, Side::East), if taken { vec![] } else { vec![n] }, "who is wrong is told");
        }
    }
}

#[test]
fn a_report_goes_on_as_it_travels_over_as_many_links_as_the_ring_has() {
    for (ttl, goes_on) in [(255, Some(99)), (100, Some(99)), (2, Some(1)), (1, None)] {
        let mut reports = Reports::new(100);
        let told = Report { ttl, ..report(71, 100, 1, 1) };
        assert_eq!(reports.take(ms(0), Side::East, told), Ok(Taken::Changed));
        assert_eq!(reports.poll(Side::West).map(|report| report.ttl), goes_on);
        assert_eq!(Side::BOTH.map(|side| sent(&mut reports, side)), [vec![], vec![]]);
    }
}

#[test]
fn a_newer_report_takes_the_place_of_the_one_that_waits_to_be_sent() {
    let mut reports = Reports::new(100);
    for (sequence, side) in [(1, Side::East), (2, Side::West)] {
        reports.take(ms(0), side, report(71, 100, 1, sequence)).unwrap();
        reports.take(ms(0), side, report(7, 100, 1, sequence)).unwrap();
    }
    assert_eq!(sent(&mut reports, Side::West), []);
    assert_eq!(sent(&mut reports, Side::East), [7, 71]);
}

#[test]
fn a_new_neighbour_is_told_everything_but_what_it_says_itself() {
    let mut reports = Reports::new(100);
    for n in [1, 70, 99] {
        reports.take(ms(0), Side::East, report(n, 100, 1, 1)).unwrap();
    }
    assert_eq!(sent(&mut reports, Side::West), [1, 70, 99]);
    reports.tell_all(Side::East, node(70));
    let of: Vec<(u8, u8)> =
        core::iter::from_fn(|| reports.poll(Side::East).map(|report| (report.node.number(), report.ttl))).collect();
    assert_eq!(of, [(1, 100), (99, 100)], "they may go all round");
    assert_eq!(sent(&mut reports, Side::West), []);
}

#[test]
fn what_was_not_told_again_for_longer_than_its_age_is_forgotten_but_for_the_nodes_own() {
    let mut reports = Reports::new(5);
    reports.set_own(ms(0), report(1, 5, 1, 1));
    reports.take(ms(0), Side::East, report(2, 5, 1, 1)).unwrap();
    let age = Span::from_millis(100);
    assert!(!reports.forget(ms(100), age, node(1)) && reports.of(node(2)).is_some());
    assert!(reports.forget(ms(101), age, node(1)) && reports.of(node(2)).is_none());
    assert!(reports.of(node(1)).is_some());
    assert_eq!(sent(&mut reports, Side::West), [], "nor is it sent on");
}

#[test]
fn reservations_alone_change_what_is_reserved_and_the_same_again_changes_nothing() {
    let one = |to: Option<u8>| Reservation { to: to.map(node), class: Class::A, rate: MBIT(10) };
    for own in [true, false] {
        let mut reports = Reports::new(4);
        let (mut topology, mut reserved) =
            (Topology::ring(4, MBIT(100)), [vec![Reserved::default(); 4], vec![Reserved::default(); 4]]);
        let sum = |reserved: &[Vec<Reserved>; 2]| -> Vec<u64> {
            reserved[0].iter().map(|one| one.a.as_bits_per_sec() / 1_000_000).collect()
        };
        let cases = [(1, vec![one(Some(3))], [10, 10, 0, 0]), (2, vec![one(None)], [10; 4]), (3, vec![], [0; 4])];
        for (sequence, reservations, expected) in cases {
            let told = Report { reservations, ..report(1, 4, 1, sequence) };
            if own {
                reports.set_own(ms(0), told);
            } else {
                reports.take(ms(0), Side::East, told).unwrap();
            }
            let mut compute = || reports.compute(Some(node(1)), MBIT(100), true, &mut topology, &mut reserved);
            assert!(compute(), "another reservation");
            assert!(!compute(), "the same");
            assert_eq!(sum(&reserved), expected);
        }
    }
}
