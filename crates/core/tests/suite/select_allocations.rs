//! Selectors that remember flows allocate nothing after they were made: not for new flows, not when their table is full, not
//! for a new burst.

use fairspan_core::select::{Frame, Layer, LinkState, Links, Select, Selector, Settings};
use fairspan_core::units::{ChannelId, Rate, Span, Time};

/// The first bytes of a UDP packet of `flow` over IPv4; every seventh is a fragment.
fn packet(flow: u32) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[0] = 0x45;
    bytes[9] = 17;
    bytes[7] = u8::from(flow.is_multiple_of(7));
    bytes[12..16].copy_from_slice(&(flow >> 8).to_be_bytes());
    bytes[20..22].copy_from_slice(&(flow as u16).to_be_bytes());
    bytes
}

#[test]
fn selectors_that_remember_flows_allocate_nothing_for_a_packet() {
    for policy in
        ["brr", "brr:adaptive", "brr:1ms,weighted=off", "flowlet", "flowlet:adaptive", "potent", "potent:adaptive"]
    {
        let settings: Settings = policy.parse().unwrap();
        let state =
            |mbit| LinkState { rate: Some(Rate::from_mbit(mbit)), delay: Some(Span::ZERO), ..LinkState::default() };
        let mut links = Links::new([state(10), state(100), state(100)]);
        let mut selector = Selector::new(&settings, &links, 1).unwrap();
        let mut now = Time::ZERO;
        let counted = allocation_counter::measure(|| {
            for n in 0..300_000u32 {
                now += Span::from_micros(3);
                // Some flows often, most once.
                let bytes = packet(if n % 3 == 0 { n % 100 } else { n });
                let frame = Frame { bytes: &bytes, len: 1000, layer: Layer::Ip };
                let (set, _) = selector.select_held(now, &frame, &links);
                assert_eq!(set.len(), 1);
                if n % 1000 == 0 {
                    let link = ChannelId((n / 1000 % 3) as u8);
                    let usable = links.get(link).is_some_and(|state| !state.usable) || links.usable().len() < 2;
                    links.set(link, LinkState { usable, ..state(50) });
                    selector.on_links(now, &links);
                }
            }
        });
        assert_eq!(counted.count_total, 0, "{policy}");
    }
}
