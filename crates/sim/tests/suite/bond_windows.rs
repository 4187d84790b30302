//! Senders that wait for round trips and not for the links: a bond gives them at least what its fastest channel alone does.

use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;

/// 50 Mbit/s each, 20 and 120 ms one way.
const NEAR_AND_FAR: [&str; 2] = [r#"rate = "50Mbit", delay = "20ms""#, r#"rate = "50Mbit", delay = "120ms""#];

/// One flow with these settings over a bond of both links, or over the `only` one, from second 10 to 30; the first five do not count.
fn run(links: [&str; 2], only: Option<usize>, flow: &str, seed: u64) -> Results {
    run_between((15, 30), links, only, flow, seed)
}

/// The same, of which these seconds count.
fn run_between((from, to): (u64, u64), links: [&str; 2], only: Option<usize>, flow: &str, seed: u64) -> Results {
    let mut text =
        format!("duration = \"{to}s\"\nwarm_up = \"{from}s\"\nnode = [{{ name = [\"a\", \"b\"] }}]\nlink = [\n");
    for (number, link) in links.iter().enumerate() {
        text += &format!("{{ name = \"path{number}\", from = \"a\", to = \"b\", framing = \"14B\", {link} }},\n");
    }
    let channel = |n| format!("{{ path = [\"path{n}\"], overhead = \"51B\", rate = \"unlimited\" }}");
    text += &format!(
        "]\n[[bond]]\nname = \"bond\"\nends = [\"a\", \"b\"]\nmode = \"reliable\"\ncompress_headers = \"auto\"\nchannels = [{}, {}]\n",
        channel(0),
        channel(1)
    );
    let via = only.map_or("\"bond\"".to_owned(), |n| format!("[\"path{n}\"]"));
    text += &format!(
        "[[flow]]\nname = \"flow\"\nfrom = \"a\"\nto = \"b\"\nvia = {via}\nstart = \"10s\"\n{flow}\n[metrics]\ndelay = true\n"
    );
    let mut files = |name: &str| Err(format!("no file {name}"));
    let mut file = File::parse("windows.toml", &text, &mut files).unwrap_or_else(|errors| panic!("{errors:#?}"));
    file.set_seeds(vec![seed]);
    let run = file.run(0).expect("a run").unwrap_or_else(|errors| panic!("{errors:#?}"));
    World::new(&run.scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_connection_with_a_small_window_has_what_the_fastest_channel_gives_it_and_one_with_a_large_one_has_both() {
    let with_window = |only, kilobytes: u64| {
        let buffer = format!("receive_buffer = \"{kilobytes}kB\", receive_buffer_maximum = \"{kilobytes}kB\"");
        let flow = format!("kind = \"ftp\"\ntcp = {{ preset = \"linux\", {buffer} }}");
        run(NEAR_AND_FAR, only, &flow, 1).goodput / 1e6
    };
    for kilobytes in [64, 128, 256, 500] {
        let (alone, bond) = (with_window(Some(0), kilobytes), with_window(None, kilobytes));
        println!("{kilobytes} kB: {bond:.1} of {alone:.1} Mbit/s");
        assert!(bond > 0.95 * alone, "{kilobytes} kB: {bond:.1} of {alone:.1} Mbit/s");
    }
    let (alone, bond) = (with_window(Some(0), 4000), with_window(None, 4000));
    assert!(bond > 1.8 * alone, "4 MB: {bond:.1} of {alone:.1} Mbit/s");
}

#[test]
fn a_stream_that_fits_the_fastest_channel_has_its_delay_after_three_seconds_and_both_when_it_grows() {
    let stream = |mbit| format!("kind = \"constant\"\nrate = \"{mbit}Mbit\"\nsize = \"1200B\"");
    let results = run(NEAR_AND_FAR, None, &stream(8), 1);
    let delay = &results.flows[0].delay;
    assert!(delay.max > 0.02 && delay.max < 0.025, "{} s", delay.max);
    let full = run(NEAR_AND_FAR, None, &stream(80), 1).goodput / 1e6;
    assert!(full > 78.0, "{full} of 80 Mbit/s");
}

/// The window of BBR is twice what its rate fills in the least round trip, which a bond whose round trip grows with its load takes for granted.
#[test]
fn bbr_over_links_that_jitter_has_at_least_what_the_better_one_gives_it() {
    let links = [
        r#"rate = "11.2Mbit", delay = "6ms", jitter = "1.3ms""#,
        r#"rate = "4.6Mbit", delay = "32ms", jitter = "15.5ms", loss = 0.015"#,
    ];
    let flow = "kind = \"ftp\"\ntcp = { preset = \"linux\", congestion = \"bbr1\" }";
    let alone = run(links, Some(0), flow, 1).goodput / 1e6;
    let mut together = 0.0;
    for seed in 1..=6 {
        let bond = run(links, None, flow, seed).goodput / 1e6;
        println!("seed {seed}: {bond:.1} of {alone:.1} Mbit/s");
        // Where the far one joins a connection that runs already, BBR's window is too small for both and it goes back to the reserve until the ramp has called it: 45 s by reckoning.
        // Near alone: headers are 4 % of a frame, and the law leaves some unused.
        assert!(bond > 0.92 * alone, "seed {seed}: {bond:.1} of {alone:.1} Mbit/s");
        together += bond;
    }
    assert!(together > 6.0 * 1.1 * alone, "on average {:.1} of {alone:.1} Mbit/s", together / 6.0);
}

/// A channel that delays a download by more than it adds is called by what waits, and BBR lets nothing wait.
#[test]
fn bbr_comes_to_a_far_channel_without_a_loss_and_what_does_not_press_stays_near() {
    let links = [r#"rate = "50Mbit", delay = "20ms""#, r#"rate = "50Mbit", delay = "320ms""#];
    let buffers = "send_buffer = \"32MB\", receive_buffer_maximum = \"32MB\"";
    let flow = format!("kind = \"ftp\"\ntcp = {{ preset = \"linux\", congestion = \"bbr1\", {buffers} }}");
    let [alone, before, after] = [(Some(0), 15, 30), (None, 15, 40), (None, 60, 80)]
        .map(|(only, from, to)| run_between((from, to), links, only, &flow, 1).goodput / 1e6);
    println!("alone {alone:.1}, while the wait grows {before:.1}, with both {after:.1} Mbit/s");
    assert!(before > 0.95 * alone && after > 1.7 * alone, "{alone:.1}, {before:.1}, {after:.1} Mbit/s");
    // Nearly all that the near one carries, but evenly.
    let stream = run_between((15, 80), links, None, "kind = \"constant\"\nrate = \"46Mbit\"\nsize = \"1200B\"", 1);
    assert!(stream.flows[0].delay.max < 0.025, "{} s", stream.flows[0].delay.max);
}

/// Trains tell next to nothing of such a link, and packets that follow closely wait on it although it has no queue.
#[test]
fn a_fast_link_that_jitters_for_longer_than_trains_take_is_full_within_seconds() {
    let links = [r#"rate = "166Mbit", delay = "139ms", jitter = "23ms""#, r#"rate = "40Mbit", delay = "100ms""#];
    for law in ["cubic", "bbr1"] {
        let buffers = "send_buffer = \"32MB\", receive_buffer_maximum = \"32MB\"";
        let flow = format!("kind = \"ftp\"\ntcp = {{ preset = \"linux\", congestion = \"{law}\", {buffers} }}");
        for seed in [1, 2] {
            let bond = run(links, None, &flow, seed).goodput / 1e6;
            println!("{law}, seed {seed}: {bond:.1} of 206 Mbit/s");
            assert!(bond > 150.0, "{law}, seed {seed}: {bond:.1} of 206 Mbit/s");
        }
    }
}
