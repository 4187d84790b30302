//! Rings find out who is there, and what failed, whatever happens to their control frames.

mod ring_control;

use fairspan_core::units::Span;
use ring_control::Net;

#[test]
fn a_ring_is_known_everywhere_within_a_ring_time_of_its_start() {
    for nodes in [2, 3, 8, 64, 255] {
        let mut net = Net::new(nodes, Span::from_micros(100), 1);
        let took = net.settle(Span::from_millis(100));
        println!("{nodes} nodes: {took:?}, {} frames", net.frames);
        assert_eq!(net.refused, []);
    }
}
