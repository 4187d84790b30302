//! Selectors under what nobody should give them: any frames, any links, any times.

use fairspan_core::options::Kind;
use fairspan_core::rng::Rng;
use fairspan_core::select::{Frame, Layer, LinkState, Links, POLICIES, Select, Selector, Settings};
use fairspan_core::units::{Bytes, ChannelId, Rate, Span, Time};

/// One of these, which lie at the ends of what there is and within.
fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

fn number(rng: &mut Rng) -> u64 {
    let any = rng.below(u64::MAX) >> rng.below(64);
    pick(rng, &[0, 1, 1_500, 1_000_000, 1_000_000_000, u64::MAX / 2, u64::MAX - 1, u64::MAX, any])
}

fn state(rng: &mut Rng) -> LinkState {
    let known = |rng: &mut Rng| rng.below(3) > 0;
    LinkState {
        member: rng.below(8) > 0,
        usable: rng.below(3) > 0,
        rate: known(rng).then(|| Rate::from_bits_per_sec(number(rng))),
        full_duplex: rng.below(2) > 0,
        weight: pick(rng, &[0, 1, 1, 3, 1000, u32::MAX]),
        priority: pick(rng, &[0, 1, u32::MAX]),
        backlog: Bytes::new(number(rng)),
        free: Time::from_nanos(number(rng)),
        delay: known(rng).then(|| Span::from_nanos(number(rng))),
        jitter: Span::from_nanos(number(rng)),
    }
}

/// Each policy with its defaults, and with each option at the ends of what it takes.
fn all_settings() -> Vec<Settings> {
    let mut all: Vec<Settings> = Vec::new();
    for spec in POLICIES {
        let mut texts = vec![spec.name.to_owned()];
        for (option, _) in spec.options() {
            let values: Vec<String> = match option.kind {
                Kind::Span(least, most, word) => [least, most]
                    .iter()
                    .map(|span| format!("{}ns", span.as_nanos()))
                    .chain(word.map(str::to_owned))
                    .collect(),
                // As many flows as there may be take gigabytes.
                Kind::Count(least, most, word) => {
                    [least, most.min(65_536)].iter().map(u64::to_string).chain(word.map(str::to_owned)).collect()
                }
                Kind::Bytes(least, most, _) => vec![least.to_string(), most.to_string()],
                Kind::Flag => vec!["on".into(), "off".into()],
                Kind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
                Kind::Link => vec!["0".into(), "63".into()],
                Kind::Mac => vec!["02:00:5e:10:00:01".into()],
                other => panic!("no policy has an option of this kind: {other:?}"),
            };
            texts.extend(values.iter().map(|value| format!("{}:{}={value}", spec.name, option.name)));
        }
        all.extend(texts.iter().filter_map(|text| text.parse::<Settings>().ok()));
    }
    all
}

/// A frame that may pass for IPv4 or IPv6 in part.
fn frame(rng: &mut Rng, bytes: &mut [u8]) -> Layer {
    bytes.iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
    let layer = pick(rng, &[Layer::Ethernet, Layer::Ip]);
    let start = if layer == Layer::Ethernet { 14 } else { 0 };
    let (kind, version) = pick(rng, &[([0x08, 0x00], 0x45), ([0x86, 0xdd], 0x60), ([0x81, 0x00], 0x4f)]);
    if let (true, Some(place)) = (start > 0, bytes.get_mut(12..14)) {
        place.copy_from_slice(&kind);
    }
    if let Some(first) = bytes.get_mut(start) {
        *first = version;
    }
    layer
}

#[test]
fn any_frames_links_and_times_are_borne_and_only_usable_links_chosen() {
    let settings = all_settings();
    assert!(settings.len() > 300, "{} settings", settings.len());
    for (seed, settings) in settings.iter().enumerate() {
        let rng = &mut Rng::new(seed as u64);
        let count = pick(rng, &[0usize, 1, 2, 4, 64]);
        let mut links = Links::new((0..count).map(|_| state(rng)));
        let mut selector = Selector::new(settings, &links, rng.below(u64::MAX)).expect("a selector");
        let mut buffer = [0; 200];
        for _ in 0..300 {
            let now = Time::from_nanos(number(rng));
            match rng.below(12) {
                0 => {
                    for _ in 0..rng.below(4) {
                        links.set(ChannelId(rng.below(64) as u8), state(rng));
                    }
                    // Before the next packet, or late.
                    if rng.below(4) > 0 {
                        selector.on_links(now, &links);
                    }
                }
                1 => selector.handle_timeout(now, &links),
                2 => links.set_backlog(ChannelId(rng.below(64) as u8), Bytes::new(number(rng)), now),
                _ => {}
            }
            let bytes = &mut buffer[..rng.below(201) as usize];
            let layer = frame(rng, bytes);
            let len = pick(rng, &[bytes.len(), 1500, 65_535, usize::MAX]).max(bytes.len());
            let (chosen, _) = selector.select_held(now, &Frame { bytes, len, layer }, &links);
            let astray = chosen.bits() & !links.usable().bits();
            assert_eq!(astray, 0, "{settings}: links that are not usable, seed {seed}");
            let _ = (selector.poll_timeout(), selector.current());
        }
    }
}
