//! The history across restarts, and with a disk that does not do what it should.

use super::*;
use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};

const BEGIN: u64 = 1_700_000_000;

fn link(name: &str, sent: f64, up: bool) -> LinkReading {
    LinkReading { of: "hub".into(), name: name.into(), up, sent_mbit: Some(sent), ..LinkReading::default() }
}

/// What a document has in a column.
fn column(history: &History, place: usize, span: &str, name: &str, now: u64) -> Vec<Option<f64>> {
    let text = history.document(place, span, 200_000, now).expect("a document");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let column = document[name].as_array().unwrap_or_else(|| panic!("{name} in {text}"));
    column.iter().map(serde_json::Value::as_f64).collect()
}

#[test]
fn a_history_goes_on_where_another_daemon_left_it_and_shows_the_gap_between() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state/fs0.history");
    let mut history = History::open(&path, BEGIN);
    for second in 0..30 {
        history.add(BEGIN + second, &[link("dsl", 5.0, true), link("lte", 1.0, second < 20)]);
    }
    history.store(BEGIN + 30);
    drop(history);
    assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o600);

    let mut history = History::open(&path, BEGIN + 100);
    let places = history.add(BEGIN + 100, &[link("lte", 3.0, true), link("dsl", 7.0, true)]);
    assert_eq!(places, [Some(1), Some(0)], "by name, not by place");
    let sent = column(&history, 0, "hour", "sent", BEGIN + 100);
    assert_eq!(sent.len(), 3600);
    let known: Vec<f64> = sent.iter().flatten().copied().collect();
    assert_eq!(known, [[5.0; 30].as_slice(), &[7.0]].concat());
    let tail = &sent[sent.len() - 101..];
    assert!(tail[..30].iter().all(Option::is_some) && tail[30..100].iter().all(Option::is_none), "{tail:?}");
    let up = column(&history, 1, "hour", "up", BEGIN + 29);
    assert_eq!(up[up.len() - 10..], [Some(0.0); 10], "it was down");
    let days = column(&history, 0, "day", "sent", BEGIN + 100);
    assert_eq!(days.iter().flatten().count(), 4, "30 s and one second, in steps of 10 s");
    assert_eq!(column(&history, 0, "year", "sent", BEGIN + 100).iter().flatten().count(), 2, "two slots of 5 min");
}

#[test]
fn without_a_place_on_the_disk_it_goes_on_in_memory_says_so_and_is_stored_once_there_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fs0.history");
    fs::create_dir(&path).expect("something else in its place");
    let mut history = History::open(&path, BEGIN);
    assert!(history.kept().problem.is_some() && history.kept().since == Some(BEGIN));
    for second in 0..70 {
        history.add(BEGIN + second, &[link("dsl", 2.0, true)]);
    }
    assert!(history.kept().problem.is_some());
    assert_eq!(column(&history, 0, "hour", "sent", BEGIN + 69).iter().flatten().count(), 70);
    fs::remove_dir(&path).expect("gone");
    history.store(BEGIN + 70);
    assert_eq!(history.kept().problem, None);
    drop(history);
    let history = History::open(&path, BEGIN + 71);
    assert_eq!(column(&history, 0, "hour", "sent", BEGIN + 71).iter().flatten().count(), 70, "none is lost");
}

#[test]
fn what_was_seen_while_the_file_could_not_be_opened_joins_what_is_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fs0.history");
    let mut first = History::open(&path, BEGIN);
    first.add(BEGIN, &[link("dsl", 1.0, true)]);
    first.store(BEGIN);
    // Another process has the file.
    let mut second = History::open(&path, BEGIN + 1);
    assert!(second.kept().problem.is_some_and(|problem| problem.contains("another process")));
    second.add(BEGIN + 10, &[link("dsl", 4.0, true)]);
    drop(first);
    second.store(BEGIN + 11);
    assert_eq!(second.kept().problem, None);
    let known: Vec<f64> = column(&second, 0, "hour", "sent", BEGIN + 11).into_iter().flatten().collect();
    assert_eq!(known, [1.0, 4.0]);
}

#[test]
fn a_file_that_is_something_else_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fs0.history");
    for content in [b"precious".repeat(500_000), b"precious".to_vec()] {
        fs::write(&path, &content).expect("written");
        let mut history = History::open(&path, BEGIN);
        history.add(BEGIN, &[link("dsl", 1.0, true)]);
        history.store(BEGIN + 60);
        assert!(history.kept().problem.is_some_and(|problem| problem.contains("move it away")));
        assert_eq!(fs::read(&path).expect("there"), content);
    }
    fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).expect("a link");
    let history = History::open(&path, BEGIN);
    assert!(history.kept().problem.is_some() && !folder.path().join("elsewhere").exists(), "no link is followed");
}

#[test]
fn the_file_never_grows_beyond_its_bound_and_links_that_are_gone_give_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fs0.history");
    let mut history = History::open(&path, BEGIN);
    let old = [link("old", 9.0, true)];
    history.add(BEGIN, &old);
    let now = BEGIN + 200;
    let many: Vec<LinkReading> = (0..REGIONS + 3).map(|n| link(&format!("link{n}"), 1.0, true)).collect();
    let places = history.add(now, &many);
    assert_eq!(places.iter().flatten().count(), REGIONS, "as many as there are places");
    assert_eq!(history.kept().without, 3);
    history.store(now);
    assert_eq!(history.kept().problem, None);
    assert_eq!(fs::metadata(&path).expect("a file").len(), REGIONS as u64 * file::region_bytes());
    // What was of the old link is not shown as another's.
    let taken = places.iter().position(|place| *place == Some(0)).expect("its place");
    let known: Vec<f64> =
        column(&history, places[taken].expect("a place"), "hour", "sent", now).into_iter().flatten().collect();
    assert_eq!(known, [1.0]);
}

#[test]
fn a_link_that_takes_a_place_in_the_file_finds_nothing_of_who_had_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fs0.history");
    let mut history = History::open(&path, BEGIN);
    let many: Vec<LinkReading> = (0..REGIONS).map(|n| link(&format!("link{n}"), 9.0, true)).collect();
    for second in 0..5 {
        history.add(BEGIN + second, &many);
    }
    history.store(BEGIN + 5);
    let new = [link("new", 1.0, true)];
    let place = history.add(BEGIN + 200, &new)[0].expect("a place");
    history.store(BEGIN + 200);
    drop(history);
    let history = History::open(&path, BEGIN + 201);
    let known: Vec<f64> = column(&history, place, "hour", "sent", BEGIN + 201).into_iter().flatten().collect();
    assert_eq!(known, [1.0]);
}

#[test]
fn a_page_that_was_damaged_costs_what_was_in_it_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fs0.history");
    let mut history = History::open(&path, BEGIN);
    for second in 0..600 {
        history.add(BEGIN + second, &[link("dsl", 5.0, true)]);
    }
    history.store(BEGIN + 600);
    drop(history);
    let out = fs::OpenOptions::new().write(true).open(&path).expect("the file");
    // The pages of the finest ring.
    for page in 1..=LEVELS[0].pages() {
        out.write_all_at(&[0xa5; 2048], page * ring::PAGE as u64 + 1024).expect("damaged");
    }
    let history = History::open(&path, BEGIN + 600);
    let known: Vec<f64> = column(&history, 0, "hour", "sent", BEGIN + 600).into_iter().flatten().collect();
    assert!(!known.is_empty() && known.len() < 600 && known.iter().all(|sent| *sent == 5.0), "{} seconds", known.len());
    assert_eq!(column(&history, 0, "day", "sent", BEGIN + 600).iter().flatten().count(), 60);
}

#[test]
fn a_region_whose_first_page_is_damaged_costs_its_link_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fs0.history");
    let mut history = History::open(&path, BEGIN);
    for second in 0..5 {
        history.add(BEGIN + second, &[link("dsl", 5.0, true), link("lte", 2.0, true)]);
    }
    history.store(BEGIN + 5);
    drop(history);
    let out = fs::OpenOptions::new().write(true).open(&path).expect("the file");
    out.write_all_at(&[0xa5; 64], 0).expect("damaged");
    let mut history = History::open(&path, BEGIN + 6);
    assert_eq!(history.kept().problem, None);
    let places = history.add(BEGIN + 200, &[link("lte", 2.0, true), link("dsl", 1.0, true)]);
    assert_eq!(places, [Some(1), Some(0)], "what is left of the one is not the other's");
    assert_eq!(column(&history, 1, "hour", "sent", BEGIN + 200).iter().flatten().count(), 6);
    assert_eq!(column(&history, 0, "hour", "sent", BEGIN + 200).iter().flatten().count(), 1);
}

#[test]
fn a_rate_that_is_not_known_yet_is_kept_as_a_gap_and_not_as_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut history = History::open(&folder.path().join("fs0.history"), BEGIN);
    let unknown = LinkReading { sent_mbit: None, ..link("dsl", 0.0, true) };
    history.add(BEGIN, &[unknown]);
    history.add(BEGIN + 1, &[link("dsl", 5.0, true)]);
    let known: Vec<f64> = column(&history, 0, "day", "sent", BEGIN + 1).into_iter().flatten().collect();
    assert_eq!(known, [5.0]);
}

#[test]
fn a_history_is_given_in_as_few_steps_as_are_asked_for_which_stay_the_same_while_time_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut history = History::open(&folder.path().join("fs0.history"), BEGIN);
    for second in 0..100 {
        history.add(BEGIN + second, &[link("dsl", f64::from(second as u32), true)]);
    }
    let steps = |now: u64| {
        let text = history.document(0, "hour", 360, now).expect("a document");
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let (from, step) = (document["from"].as_u64().expect("from"), document["step"].as_u64().expect("step"));
        assert_eq!((step, from % 10), (10, 0));
        let sent = document["sent"].as_array().expect("a column").clone();
        assert!(sent.len() <= 361);
        let known = sent.into_iter().enumerate().filter(|(_, sent)| !sent.is_null());
        known.map(|(n, sent)| (from + 10 * n as u64, sent.as_f64())).collect::<Vec<_>>()
    };
    let first = steps(BEGIN + 99);
    assert_eq!(first[0], (BEGIN, Some(4.5)));
    assert_eq!(first, steps(BEGIN + 106));
    assert_eq!(history.document(0, "century", 10, BEGIN), None);
    assert_eq!(history.document(1, "hour", 10, BEGIN), None);
}

#[test]
fn one_peer_with_many_links_does_not_take_the_places_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut history = History::open(&folder.path().join("fs0.history"), BEGIN);
    let of = |peer: &str, name: &str| LinkReading { of: peer.into(), ..link(name, 1.0, true) };
    let greedy: Vec<LinkReading> = (0..40).map(|n| of("greedy", &format!("link{n}"))).collect();
    let places = history.add(BEGIN, &greedy);
    assert_eq!((places.iter().flatten().count(), history.kept().without), (REGIONS, 8), "there is nobody else");
    let others = [of("site", "dsl"), of("site", "lte"), of("branch", "dsl")];
    let all = [greedy.as_slice(), &others].concat();
    for second in 1..5 {
        let places = history.add(BEGIN + second, &all);
        assert!(places[40..].iter().all(Option::is_some), "{places:?}");
        assert_eq!(places[..40].iter().flatten().count(), REGIONS - 3);
        assert_eq!(
            places[..REGIONS - 3],
            (0..REGIONS - 3).map(Some).collect::<Vec<_>>(),
            "the others stay where they are"
        );
    }
    // Another greedy one gets as many as the first, and no more.
    let second: Vec<LinkReading> = (0..40).map(|n| of("greedy too", &format!("link{n}"))).collect();
    for later in 5..10 {
        let places = history.add(BEGIN + later, &[all.as_slice(), &second].concat());
        let of = |range: std::ops::Range<usize>| places[range].iter().flatten().count();
        assert_eq!((of(0..40), of(40..43), of(43..83)), (15, 3, 14), "{later}");
    }
}

#[test]
fn a_clock_that_is_set_back_leaves_the_history_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fs0.history");
    let mut history = History::open(&path, BEGIN);
    for second in 0..100 {
        history.add(BEGIN + second, &[link("dsl", 5.0, true)]);
    }
    // Back by fifty seconds, in the middle of a slot of ten.
    for second in 45..130 {
        history.add(BEGIN + second, &[link("dsl", 9.0, true)]);
        let sent = column(&history, 0, "hour", "sent", BEGIN + second);
        assert_eq!(sent.last(), Some(&Some(9.0)), "{second}: now is what is seen now");
        assert_eq!(sent.iter().flatten().count(), 1 + second as usize, "{second}: nothing of what is to come is shown");
    }
    let hour: Vec<f64> = column(&history, 0, "hour", "sent", BEGIN + 129).into_iter().flatten().collect();
    assert_eq!(hour, [[5.0; 45].as_slice(), &[9.0; 85]].concat());
    let day: Vec<f64> = column(&history, 0, "day", "sent", BEGIN + 129).into_iter().flatten().collect();
    assert_eq!(day, [[5.0; 4].as_slice(), &[9.0; 9]].concat());
    history.store(BEGIN + 130);
    drop(history);
    // A daemon that begins before what is in the file, and a link that takes the place of one that is not there any more.
    let mut history = History::open(&path, BEGIN + 10);
    let many: Vec<LinkReading> = (0..REGIONS).map(|n| link(&format!("link{n}"), 1.0, true)).collect();
    assert_eq!(history.add(BEGIN + 10, &many).iter().flatten().count(), REGIONS);
}
