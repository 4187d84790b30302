//! A near link that loses packets, beside a far one that does not: what it loses has to come by the far one in time.

use crate::common::{bonded, channel, download};
use fairspan_core::bond::Config;
use fairspan_core::congestion::Algorithm;
use fairspan_core::link::{Limit, Loss, Profile};
use fairspan_core::units::{Rate, Span};
use fairspan_sim::model::Transport;
use fairspan_sim::world::World;

/// Mbit/s of a connection with BBR that begins five seconds after the bond, between the tenth second and the twentieth: over 100 Mbit/s and 40 ms that lose so
/// much beside 100 Mbit/s and 120 ms, of which no rate is configured.
fn run(loss: f64) -> f64 {
    let path = |delay, loss| {
        let mut profile = Profile::new(Rate::from_mbit(100), Span::from_millis(delay));
        profile.queue = Limit::Packets(1000);
        if loss > 0.0 {
            profile.loss = Loss::Independent(loss);
        }
        (channel(62), [profile.clone(), profile])
    };
    let mut scenario = bonded(Config::usual(), [path(40, loss), path(120, 0.0)]);
    (scenario.warm_up, scenario.duration) = (Span::from_secs(10), Span::from_secs(20));
    let mut flow = download([5_000, 20_000]);
    if let Transport::Tcp(tcp) = &mut flow.transport {
        tcp.congestion = Algorithm::Bbr1;
    }
    scenario.flows.push(flow);
    World::new(&scenario).unwrap().finish().unwrap().flows[0].goodput / 1e6
}

#[test]
fn a_near_link_that_loses_two_packets_of_a_hundred_is_not_used_alone_beside_a_far_one() {
    let mbit = run(0.02);
    assert!(mbit >= 100.0, "{mbit} Mbit/s of 200");
}
