//! Channels that leave a running bond, and settings that change.

use crate::bond_network::{Net, Wire, check_ordered, config, packet};
use fairspan_core::bond::{Link, Mode};
use fairspan_core::record::replay;
use fairspan_core::units::{ChannelId, Span};

const MS: fn(u64) -> Span = Span::from_millis;

fn sent_by(net: &Net, end: usize, channel: u8) -> u64 {
    net.ends[end].channel_stats(ChannelId(channel)).expect("it joined").sent_packets
}

/// What both ends did is in their recordings.
fn replays(net: &mut Net) {
    for end in &mut net.ends {
        let log = end.finish().expect("a recording");
        assert!(replay(&log, |_| ()).expect("it replays").digests > 0);
    }
}

#[test]
fn a_channel_that_leaves_loses_nothing_and_holds_up_nobody_in_either_direction() {
    for mode in [Mode::Ordered, Mode::Reliable, Mode::Backup] {
        let mut settings = config(2);
        settings.mode = mode;
        let mut net = Net::settled(settings, vec![Wire::new(60), Wire::new(5)], 4);
        let mut sent = [vec![], vec![]];
        let mut at_leaving = [0; 2];
        for n in 0..1500u32 {
            match n {
                // The slower one, of which more is under way.
                300 => net.set_link(0, 0, Link::Leaving),
                // By now the other end has been told.
                500 => at_leaving = [0, 1].map(|end| sent_by(&net, end, 0)),
                1300 => {
                    assert_eq!([0, 1].map(|end| sent_by(&net, end, 0)), at_leaving, "{mode}: nothing new goes there");
                    (0..2).for_each(|end| net.set_link(end, 0, Link::Removed));
                }
                _ => {}
            }
            for (end, sent) in sent.iter_mut().enumerate() {
                sent.push(packet(end as u16, n, 400));
                net.host(end, sent[sent.len() - 1].clone());
            }
            net.run(MS(1));
        }
        net.run(Span::from_secs(1));
        assert!(at_leaving[0] > 100, "{mode}: the channel carried something: {at_leaving:?}");
        for (end, sent) in sent.iter().enumerate() {
            let delivered = &net.delivered[1 - end];
            check_ordered(sent, delivered).unwrap();
            assert_eq!(delivered.len(), sent.len(), "{mode}: {:?}", net.ends[1 - end].stats());
            let gap = delivered.windows(2).map(|two| two[1].0.since(two[0].0)).max().expect("packets");
            assert!(gap < MS(80), "{mode}: {gap:?} without a packet");
        }
        assert!(net.ends[0].channel_stats(ChannelId(0)).is_none(), "it is gone");
        // Its number is free for another one.
        for end in 0..2 {
            net.ends[end].join(net.now, ChannelId(0), config(2).channels[0].clone()).unwrap();
            net.set_link(end, 0, Link::Up);
        }
        for n in 0..400 {
            net.host(0, packet(7, n, 400));
            net.run(MS(1));
        }
        assert!(mode == Mode::Backup || sent_by(&net, 0, 0) > 50, "it carries its share");
        replays(&mut net);
    }
}

#[test]
fn settings_that_a_running_bond_takes_hold_from_then_on_and_the_others_are_named() {
    let mut net = Net::settled(config(2), vec![Wire::new(5), Wire::new(60)], 4);
    let delay = |net: &mut Net, first: u32| {
        net.delivered[1].clear();
        let begin = net.now;
        for n in first..first + 50 {
            net.host(0, packet(1, n, 400));
            net.run(MS(2));
        }
        net.run(MS(300));
        net.delivered[1][0].0.since(begin)
    };
    assert!(delay(&mut net, 0) > MS(50), "all have the slower channel's delay");
    let mut other = net.ends[0].config().clone();
    (other.equalize, other.deadline, other.reserve) = (Span::ZERO, Some(MS(700)), !other.reserve);
    (other.mode, other.scheduler) = (Mode::Reliable, fairspan_core::bond::Scheduler::Rr);
    let names: Vec<_> = net.ends[0].config().differences(&other).collect();
    let (live, fixed): (Vec<_>, Vec<_>) = names.into_iter().partition(|(_, live)| *live);
    assert_eq!(live.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["reorder_deadline", "equalize", "reserve"]);
    assert_eq!(fixed.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["mode", "scheduler"]);
    let now = net.now;
    for end in 0..2 {
        net.ends[end].reconfigure(now, &other).unwrap();
        let config = net.ends[end].config();
        assert_eq!((config.mode, config.equalize, config.deadline), (Mode::Ordered, Span::ZERO, Some(MS(700))));
    }
    assert!(delay(&mut net, 50) < MS(20), "the faster one's packets wait no longer");
    other.deadline = Some(Span::ZERO);
    assert!(net.ends[0].reconfigure(now, &other).is_err());
    assert_eq!(net.ends[0].config().deadline, Some(MS(700)), "nothing is changed");
    replays(&mut net);
}
