//! What the kernel refuses of another configuration: the next one has it, and nothing is left in the end.

use super::host::Host;
use crate::config::Config;
use crate::netlink::Guard;
use crate::roles::network::{self, Reached};
use crate::system::enter;
use fairspan_core::rng::Rng;
use std::path::Path;
use std::rc::Rc;

const DEVICE: &str = "fs0";

/// An interface with these addresses, by which these networks are reached.
fn config(addresses: &str, nets: &str) -> Config {
    let text = format!(
        "[interface]\nname = \"{DEVICE}\"\naddress = [{addresses}]\n[[peer]]\nallowed_ips = [{nets}]\n[[peer.channel]]\n\
         kind = \"ethernet\"\ndevice = \"link0\"\n"
    );
    Config::parse(Path::new("fs0.toml"), &text).expect("a configuration")
}

/// A host with an interface, as `config` wants it.
fn configured(seed: u64, config: &Config) -> (Rc<Host>, Guard) {
    let host = Host::new(seed, vec!["192.0.2.1".parse().expect("an address")]);
    host.state().dead = false;
    host.state().routing.add_tun(DEVICE.into()).expect("an interface");
    enter(host.clone());
    let Reached { interface, nets, links } = Reached::of(config);
    let guard = network::configure(interface, nets.iter(), links.into_iter(), DEVICE, 1400).expect("configured");
    (host, guard)
}

/// All that a host has of addresses, routes and rules.
fn network_of(host: &Host) -> Vec<String> {
    let state = host.state();
    let routing = &state.routing;
    let addresses = routing.addresses.iter().map(|address| format!("{address:?}"));
    let routes = routing.routes.iter().map(|route| format!("{route:?}"));
    let rules = routing.rules.iter().map(|rule| format!("{rule:?}"));
    let mut all: Vec<String> = addresses.chain(routes).chain(rules).collect();
    all.sort();
    all
}

#[test]
fn what_the_kernel_refuses_of_a_change_is_done_by_the_next_one_and_nothing_is_left_in_the_end() {
    let configs = [
        config("\"10.77.0.1/24\"", "\"10.77.0.2/32\""),
        config("\"10.77.0.1/24\", \"fd77::1/64\"", "\"10.77.0.2/32\", \"10.99.0.0/16\", \"fd99::/64\""),
        config("\"10.66.0.1/24\", \"fd77::1/64\"", "\"0.0.0.0/0\", \"10.99.0.0/16\""),
        config("\"10.66.0.1/24\"", "\"0.0.0.0/0\", \"::/0\""),
    ];
    let kernel = crate::system::system();
    let mut refused = 0;
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let mut before = &configs[rng.below(4) as usize];
        let (host, mut guard) = configured(seed, before);
        // Those who come again and again with the same file count too.
        for failing in [300_000, 300_000, 300_000, 0] {
            host.state().failing_ppm = failing;
            let after = &configs[rng.below(4) as usize];
            let (_, errors) = network::change(&mut guard, DEVICE, &Reached::of(after));
            refused += errors.len();
            before = after;
            assert!(failing > 0 || errors.is_empty(), "seed {seed}: {errors:?}");
        }
        let (fresh, other) = configured(seed, before);
        assert_eq!(network_of(&host), network_of(&fresh), "seed {seed}");
        drop(other);
        enter(host.clone());
        drop(guard);
        assert_eq!(network_of(&host), Vec::<String>::new(), "seed {seed}");
        assert_eq!(host.state().settings, fresh.state().settings, "seed {seed}");
    }
    enter(kernel);
    assert!(refused > 500, "{refused} refused");
}
