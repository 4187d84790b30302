//! The screens, drawn from kept status documents, and what keys do.

use super::screen::Tab;
use super::*;
use fairspan_live::status::Status;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// A status as a daemon of this version tells it: a peer with two channels.
const PEERS: &str = r#"{"version":"0.1.0","interface":"fs0","uptime_s":10.0,"mtu":1400,"listen_port":null,"counters":{},"peers":[{"name":"hub","mode":"reliable","policy":null,"scheduler":"srr","peer_mode":null,"peer_scheduler":null,"up":true,"mtu":1400,"counters":{},"channels":[{"number":0,"name":"dsl","kind":"udp","state":"up","remote":"203.0.113.1:51900","rate_mbit":50.0,"rtt_ms":21.5,"taken_out":false,"queued_packets":null,"queued_bytes":null,"path":{"state":"up","delivery_mbit":9.5,"measured_mbit":null,"extra_delay_ms":0.0,"queue_ms":3.5,"loss_ppm":1500,"delivered":7,"lost":1,"in_flight_bytes":1400},"counters":{"sent_bytes":1000000,"received_bytes":0}},{"number":1,"name":"lte","kind":"udp","state":"down","reason":"nobody answers","remote":null,"rate_mbit":20.0,"rtt_ms":null,"taken_out":false,"queued_packets":null,"queued_bytes":null,"counters":{"sent_bytes":0,"received_bytes":0}}],"explained":[{"name":"urgent","mode":"prompt","channels":["dsl"],"because":["dsl brings a packet in 10.2 ms."],"would_change_if":["lte were up."]}]}],"events":[{"number":1,"at":45296.0,"level":"warn","text":"channel down peer=hub channel=lte reason=silence"}]}"#;

fn status(text: &str, uptime: f64, sent: u64) -> Box<Status> {
    let text = text.replace("\"uptime_s\":10.0", &format!("\"uptime_s\":{uptime}"));
    let text = text.replace("\"sent_bytes\":1000000", &format!("\"sent_bytes\":{sent}"));
    Box::new(serde_json::from_str(&text).expect("a status"))
}

/// A model that has seen the daemon for three seconds, at 8 Mbit/s.
fn model(text: &str) -> Model {
    let mut model = Model::default();
    for second in 0..3 {
        model.take(vec![(
            "/run/fairspan/fs0.sock".into(),
            Ok(status(text, 10.0 + f64::from(second as u32), second * 1_000_000)),
        )]);
    }
    model
}

fn screen(model: &Model, choice: &Choice, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
    terminal.draw(|frame| screen::draw(frame, model, choice, "12:34:56 UTC")).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

fn marked(link: &str) -> model::Key {
    ("fs0".to_owned(), "hub".to_owned(), link.to_owned())
}

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

#[test]
fn at_80_by_24_links_rates_plots_and_reasons_are_on_the_screen() {
    let shown = screen(&model(PEERS), &Choice::default(), (80, 24));
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("fairspan top  fs0  12:34:56 UTC"), "{shown}");
    for wanted in ["link", "state", "sends", "receives", "carries", "rtt ms", "loss %", "queue", "share"] {
        assert!(lines[1].contains(wanted), "{wanted} is not in the head:\n{shown}");
    }
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(words, ["hub", "dsl", "up", "8.00", "0.00", "50.0", "21.5", "0.15", "3.5", "100", "%"], "{shown}");
    assert!(lines[3].contains("hub lte") && lines[3].contains("down"), "{shown}");
    for wanted in [
        "sends    to     8.0 Mbit/s",
        "urgent (prompt): by dsl",
        "dsl brings a packet in 10.2 ms.",
        "would change: lte were up.",
        "q quit",
    ] {
        assert!(shown.contains(wanted), "{wanted} is not in\n{shown}");
    }
    let plot = lines.iter().find(|line| line.starts_with("sends ")).expect("a plot");
    assert!(plot.ends_with("██"), "two seconds at the same rate: {plot}");
}

#[test]
fn every_size_of_a_terminal_is_drawn_and_the_marked_link_is_always_there() {
    let model = model(PEERS);
    for (width, height) in [(1, 1), (5, 3), (20, 6), (40, 10), (80, 24), (132, 43), (300, 100)] {
        for tab in [Tab::Why, Tab::Flows, Tab::Events] {
            for help in [false, true] {
                let choice = Choice { tab, help, scrolled: 400, ..Choice::default() };
                screen(&model, &choice, (width, height));
            }
        }
    }
    let shown = screen(&model, &Choice { marked: Some(marked("lte")), ..Choice::default() }, (80, 6));
    assert!(shown.contains("hub lte"), "{shown}");
}

#[test]
fn names_that_would_command_a_terminal_are_shown_without_what_commands() {
    let hostile = PEERS.replace("\"name\":\"dsl\"", "\"name\":\"d\\u001b[2J\\u0007s\\nl\"");
    let shown = screen(&model(&hostile), &Choice::default(), (80, 24));
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
    assert!(shown.contains("hub d[2Js"), "{shown}");
}

#[test]
fn events_and_flows_have_their_places_and_nothing_is_said_to_be_nothing() {
    let model = model(PEERS);
    let events = screen(&model, &Choice { tab: Tab::Events, ..Choice::default() }, (80, 24));
    assert!(events.contains("12:34:56 warn  channel down peer=hub channel=lte reason=silence"), "{events}");
    let flows = screen(&model, &Choice { tab: Tab::Flows, ..Choice::default() }, (80, 24));
    assert!(flows.contains("No flow sent anything"), "{flows}");
}

#[test]
fn flows_that_a_gateway_before_a_bond_splits_are_shown_beside_those_of_the_bond() {
    let sharing = |flow: &str, mbit: f64| {
        format!(
            r#""delay":{{"packets":0,"median_ms":null,"p99_ms":null}},"sparse_delay":{{"packets":0,"median_ms":null,"p99_ms":null}},"active_flows":1,"jain":null,"backlogged_flows":0,"backlogged_jain":null,"flows":[{{"flow":"{flow}","mbit":{mbit},"packets":1,"bytes":1000,"dropped":0,"marked":0,"waiting":0}}]"#
        )
    };
    let queue = |flow: &str, mbit: f64| {
        format!(
            r#"{{"discipline":"drr","buffer":"fq_codel","waiting_packets":0,"waiting_bytes":0,{}}}"#,
            sharing(flow, mbit)
        )
    };
    let split = format!(
        r#""split":{{"up":true,"rules":"r","long":"fs0","state":"up","problem":null,"open":1,"most_open":10,"opened":1,"refused":0,"bypassed":{{}},"near_networks":0,"one_way_networks":0,"half_open":0,"most_half_open":10,"memory_bytes":0,"most_memory_bytes":10,"caller_mbit":0.0,"called_mbit":7.5,"rate_mbit":null,"queue":{},"counters":{{}},"connections":[]}},"queue":{},"explained""#,
        queue("tcp split > there", 7.5),
        queue("udp bond > there", 2.25)
    );
    let text = PEERS.replace("\"explained\"", &split);
    let shown = screen(&model(&text), &Choice { tab: Tab::Flows, ..Choice::default() }, (80, 24));
    let at = |wanted: &str| shown.find(wanted).unwrap_or_else(|| panic!("{wanted} is not in\n{shown}"));
    assert!(
        at("7.50        0        0  tcp split > there") < at("2.25        0        0  udp bond > there"),
        "{shown}"
    );
}

#[test]
fn each_flow_is_shown_with_its_channels_and_its_class_at_80_by_24_and_hostile_names_command_nothing() {
    let flow = |flow: &str, mbit: f64, rest: &str| {
        format!(
            r#"{{"flow":"{flow}","mbit":{mbit},"packets":1,"bytes":1000,"dropped":0,"marked":0,"waiting":0{rest}}}"#
        )
    };
    let ways = r#","class":"all else","because":"most of it is of no class and not urgent","ways":[{"channel":"dsl","mbit":7.2,"bytes":900,"share":0.72},{"channel":"l\u001b[2Jte","mbit":2.8,"bytes":350,"share":0.28}]"#;
    let none = r#","class":"calls","because":"most of it matches this class""#;
    let wait = r#"{"packets":0,"median_ms":null,"p99_ms":null}"#;
    let flows = [flow("tcp 10.0.0.2:22 > 10.0.0.1:5000", 10.0, ways), flow("udp calls", 0.1, none)].join(",");
    let queue = format!(
        r#""queue":{{"discipline":"hosts","buffer":"pfd","waiting_packets":0,"waiting_bytes":0,"delay":{wait},"sparse_delay":{wait},"active_flows":1,"jain":null,"backlogged_flows":0,"backlogged_jain":null,"flows":[{flows}]}},"explained""#
    );
    let text = PEERS.replace("\"explained\"", &queue);
    let shown = screen(&model(&text), &Choice { tab: Tab::Flows, ..Choice::default() }, (80, 24));
    let at = shown.lines().position(|line| line.contains("tcp 10.0.0.2:22")).unwrap_or_else(|| panic!("{shown}"));
    let lines: Vec<&str> = shown.lines().skip(at).take(4).map(str::trim_end).collect();
    assert_eq!(lines[0], "  10.00        0        0  tcp 10.0.0.2:22 > 10.0.0.1:5000");
    assert_eq!(lines[1], "    by dsl 72 %, l[2Jte 28 %; all else (most of it is of no class and not");
    assert_eq!(lines[2], "urgent)");
    assert_eq!(lines[3], "   0.10        0        0  udp calls");
    assert!(shown.contains("    by no channel yet; calls (most of it matches this class)"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn a_daemon_that_hangs_keeps_no_other_from_being_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let (hangs, answers) = (folder.path().join("hangs.sock"), folder.path().join("answers.sock"));
    // The kernel takes the connection, and nobody answers.
    let silent = std::os::unix::net::UnixListener::bind(&hangs).expect("bound");
    let listener = std::os::unix::net::UnixListener::bind(&answers).expect("bound");
    let serving = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("asked");
        let mut question = [0; 64];
        assert!(std::io::Read::read(&mut client, &mut question).expect("a question") > 0);
        std::io::Write::write_all(&mut client, PEERS.as_bytes()).expect("answered");
    });
    let mut asked = Asked::default();
    let begun = Instant::now();
    let end = begun + Duration::from_secs(60);
    // On a busy machine it takes more than one round.
    loop {
        assert!(Instant::now() < end, "nothing was shown");
        let all = asked.round(vec![hangs.clone(), answers.clone()], Instant::now() + Duration::from_millis(50), false);
        assert_eq!(all[0].1.as_ref().expect_err("it says nothing"), HANGS);
        if all[1].1.as_ref().is_ok_and(|status| status.interface == "fs0") {
            break;
        }
    }
    // A question has 5 s.
    silent.set_nonblocking(true).expect("nonblocking");
    let questions = std::iter::from_fn(|| silent.accept().ok()).count() as u64;
    assert!(questions <= begun.elapsed().as_secs() / 5 + 1, "and it is asked once, not each time: {questions}");
    serving.join().expect("served");
    drop(silent);
}

#[test]
fn without_a_daemon_the_page_says_so_and_one_that_ends_is_shown_before_it_goes() {
    let none = Model::default();
    assert!(screen(&none, &Choice::default(), (80, 24)).contains("asking"));
    let mut empty = Model::default();
    empty.take(Vec::new());
    assert!(screen(&empty, &Choice::default(), (80, 24)).contains("no daemon is running"));

    let mut model = model(PEERS);
    model.take(Vec::new());
    let shown = screen(&model, &Choice::default(), (80, 24));
    assert!(shown.contains("hub dsl") && shown.contains("it has ended"), "{shown}");
    assert!(!shown.contains("8.00"), "its rates are not known any more: {shown}");
    model.take(Vec::new());
    assert!(screen(&model, &Choice::default(), (80, 24)).contains("no daemon is running"));
    // It begins anew: nothing is taken from what it counted before.
    for (uptime, sent) in [(1.0, 10), (2.0, 1_000_010)] {
        model.take(vec![("/run/fairspan/fs0.sock".into(), Ok(status(PEERS, uptime, sent)))]);
    }
    assert!(screen(&model, &Choice::default(), (80, 24)).contains("8.00"));
}

#[test]
fn keys_choose_sort_pause_and_ask_for_what_they_say() {
    let (mut model, mut choice) = (model(PEERS), Choice::default());
    assert_eq!(pressed(key(KeyCode::Down), &mut model, &mut choice), Wish::Nothing);
    assert_eq!(choice.marked, Some(marked("lte")));
    pressed(key(KeyCode::Down), &mut model, &mut choice);
    assert_eq!(choice.marked, Some(marked("lte")), "there is no third");
    let wish = pressed(key(KeyCode::Char('o')), &mut model, &mut choice);
    assert_eq!(wish, Wish::Take("/run/fairspan/fs0.sock".into(), "hub".into(), "lte".into(), true));
    // By name the other way round: the mark stays with its link.
    for _ in 0..5 {
        pressed(key(KeyCode::Char('s')), &mut model, &mut choice);
    }
    assert_eq!(model.sort, model::Sort::Name);
    assert_eq!(model.rows()[choice.place(&model.rows())].link.name, "lte");
    pressed(key(KeyCode::Char('p')), &mut model, &mut choice);
    assert!(model.paused && screen(&model, &choice, (80, 24)).contains("PAUSED"));
    pressed(key(KeyCode::Tab), &mut model, &mut choice);
    assert_eq!(choice.tab, Tab::Flows);
    pressed(key(KeyCode::Char('?')), &mut model, &mut choice);
    assert!(screen(&model, &choice, (80, 24)).contains("take the chosen channel out"));
    assert_eq!(pressed(key(KeyCode::Char('q')), &mut model, &mut choice), Wish::Nothing, "it ends the help");
    assert_eq!(pressed(key(KeyCode::Char('q')), &mut model, &mut choice), Wish::End(Outcome::Done));
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(pressed(ctrl_c, &mut model, &mut choice), Wish::End(Outcome::Interrupted));
}

#[test]
fn the_mark_stays_with_its_link_when_links_change_places() {
    let (mut model, mut choice) = (model(PEERS), Choice::default());
    model.sort = model::Sort::Sends;
    pressed(key(KeyCode::Down), &mut model, &mut choice);
    assert_eq!((choice.place(&model.rows()), &choice.marked), (1, &Some(marked("lte"))));
    // The other one stops, and this one sends.
    let text = PEERS.replace("\"counters\":{\"sent_bytes\":0,", "\"counters\":{\"sent_bytes\":9000000,");
    model.take(vec![("/run/fairspan/fs0.sock".into(), Ok(status(&text, 13.0, 2_000_000)))]);
    assert_eq!(choice.place(&model.rows()), 0);
    let wish = pressed(key(KeyCode::Char('o')), &mut model, &mut choice);
    assert_eq!(wish, Wish::Take("/run/fairspan/fs0.sock".into(), "hub".into(), "lte".into(), true));
}

#[test]
fn what_cannot_be_taken_out_is_told_and_not_asked_for() {
    let (mut model, mut choice) = (model(&PEERS.replace("\"taken_out\":false,", "")), Choice::default());
    assert_eq!(pressed(key(KeyCode::Char('o')), &mut model, &mut choice), Wish::Nothing);
    assert!(choice.message.is_some_and(|message| message.contains("only channels of peers")));
}
