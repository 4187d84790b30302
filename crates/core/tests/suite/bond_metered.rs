//! Channels that cost money: they carry data only while no other one works, or where a class names them.

use crate::bond_network::{Net, Wire, packet};
use fairspan_core::bond::{ChannelConfig, Config, Link, Mode};
use fairspan_core::path::State;
use fairspan_core::units::{ChannelId, Rate, Span};

const MS: fn(u64) -> Span = Span::from_millis;

/// Two channels of 20 Mbit/s, `dsl` and `lte`; the second one is metered.
fn config(mode: Mode) -> Config {
    let mut config = Config::usual();
    (config.mode, config.metered) = (mode, "lte".parse().unwrap());
    for name in ["dsl", "lte"] {
        let mut channel = ChannelConfig::default();
        (channel.name, channel.rate, channel.overhead) = (name.into(), Some(Rate::from_mbit(20)), 58);
        config.channels.push(channel);
    }
    config
}

/// How many data frames each channel has sent since, while 400 packets of 1,000 bytes come, one a millisecond.
fn sends(net: &mut Net, first: u32) -> [u64; 2] {
    let sent = |net: &Net| [0, 1].map(|c| net.ends[0].channel_stats(ChannelId(c)).unwrap().sent_packets);
    let before = sent(net);
    for n in first..first + 400 {
        net.host(0, packet(1, n, 1_000));
        net.run(MS(1));
    }
    let after = sent(net);
    [after[0] - before[0], after[1] - before[1]]
}

fn state(net: &Net, channel: u8) -> State {
    net.ends[0].channel_path(net.now, ChannelId(channel)).unwrap().state
}

#[test]
fn a_metered_channel_carries_data_only_while_no_other_works() {
    for mode in [Mode::Reliable, Mode::Ordered, Mode::Plain, Mode::Duplicate, Mode::Backup] {
        let mut net = Net::settled(config(mode), vec![Wire::new(20), Wire::new(5)], 4);
        let [dsl, lte] = sends(&mut net, 0);
        assert!(dsl >= 390 && lte == 0, "{mode}: {dsl} and {lte}");
        assert_eq!((state(&net, 0), state(&net, 1)), (State::Up, State::Metered), "{mode}");
        for end in 0..2 {
            net.set_link(end, 0, Link::Down);
        }
        let [dsl, lte] = sends(&mut net, 400);
        assert!(dsl == 0 && lte >= 390, "{mode}: {dsl} and {lte}");
        assert_eq!(state(&net, 1), State::Up, "{mode}");
        for end in 0..2 {
            net.set_link(end, 0, Link::Up);
        }
        net.run(MS(2_000));
        let [dsl, lte] = sends(&mut net, 800);
        assert!(dsl >= 390 && lte == 0, "{mode}: {dsl} and {lte} once it is back");
        net.run(MS(500));
        // What was under way on the link that failed is lost, but in mode `reliable`.
        let least = if mode == Mode::Reliable { 1_200 } else { 1_150 };
        assert!((least..=1_200).contains(&net.delivered[1].len()), "{mode}: {}", net.delivered[1].len());
    }
}

#[test]
fn what_is_metered_may_change_while_the_bond_runs() {
    let mut net = Net::settled(config(Mode::Reliable), vec![Wire::new(20), Wire::new(20)], 4);
    let mut other = net.ends[0].config().clone();
    other.metered = "".parse().unwrap();
    assert_eq!(net.ends[0].config().differences(&other).collect::<Vec<_>>(), [("metered", true)]);
    assert_eq!(sends(&mut net, 0)[1], 0);
    let (now, before) = (net.now, net.ends[0].config().clone());
    net.ends[0].reconfigure(now, &other).unwrap();
    let [dsl, lte] = sends(&mut net, 400);
    assert!(dsl > 100 && lte > 100, "{dsl} and {lte}: it carries its share");
    let now = net.now;
    net.ends[0].reconfigure(now, &before).unwrap();
    net.run(MS(20));
    assert_eq!(sends(&mut net, 800)[1], 0);
    net.run(MS(500));
    assert_eq!(net.delivered[1].len(), 1_200);
}

#[test]
fn a_class_that_names_a_metered_channel_has_it_and_lost_frames_of_others_do_not_go_there() {
    let mut config = config(Mode::Reliable);
    config.classes = "name=work\tprotocol=udp\tchannels=lte".parse().unwrap();
    let mut net = Net::settled(config, vec![Wire::new(20), Wire::new(5)], 4);
    let [dsl, lte] = sends(&mut net, 0);
    assert!(dsl == 0 && lte >= 390, "{dsl} and {lte}");
    let told = net.ends[0].explain(net.now);
    let rest = told.iter().find(|class| class.name == "all else").unwrap();
    assert!(rest.because.iter().any(|why| why.starts_with("lte is metered")), "{rest:?}");

    let lossy = Wire { loss: 0.1, ..Wire::new(20) };
    let mut net = Net::settled(self::config(Mode::Reliable), vec![lossy, Wire::new(5)], 4);
    let [dsl, lte] = sends(&mut net, 0);
    assert!(dsl > 420 && lte == 0, "{dsl} and {lte}: neither repairs nor spare copies");
}

#[test]
fn where_all_channels_are_metered_all_carry_data() {
    let mut config = config(Mode::Reliable);
    config.metered = "dsl,lte".parse().unwrap();
    let mut net = Net::settled(config, vec![Wire::new(20), Wire::new(20)], 4);
    let [dsl, lte] = sends(&mut net, 0);
    assert!(dsl > 100 && lte > 100, "{dsl} and {lte}");
}
