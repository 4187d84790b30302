//! The path of a flow as its transfers would find it empty.

use crate::model::{Flow, Hop, Link, Scenario, Transport};
use crate::traffic::application::ideal::Ideal;
use fairspan_core::link::Capacity;
use fairspan_core::units::Span;

/// What slowdowns of this flow's transfers are measured against; `None` where its path has something whose rate is not constant, or a
/// ring. A bond counts as one link with the sum of its channels' rates and the least of their delays; its headers do not count. Nor is there one where connections have paths that differ in that.
pub(super) fn ideal(scenario: &Scenario, flow: &Flow) -> Option<Ideal> {
    let first = along(scenario, flow, &flow.path)?;
    let same = |ideal: &Ideal| ideal.delay == first.delay && ideal.links == first.links;
    let all = flow.others.iter().all(|[path, _]| along(scenario, flow, path).is_some_and(|ideal| same(&ideal)));
    all.then_some(first)
}

/// The same of one path.
fn along(scenario: &Scenario, flow: &Flow, path: &[Hop]) -> Option<Ideal> {
    let Transport::Tcp(tcp) = &flow.transport else { return None };
    // Without options.
    let header = tcp.network_header.saturating_add(20);
    let sizes = [header, header.saturating_add(tcp.mss)];
    let mut ideal = Ideal { delay: 0.0, links: Vec::with_capacity(path.len()), payload: u64::from(tcp.mss) };
    for hop in path {
        match *hop {
            Hop::Link(link) => {
                let link = scenario.links.get(link as usize).filter(|link| link.medium.is_none())?;
                ideal.delay += link.profile.delay.as_nanos() as f64;
                ideal.links.push([time(link, sizes[0])?, time(link, sizes[1])?]);
            }
            Hop::Bond(bond, end) => {
                let mut least = Span::MAX;
                let mut frequencies = [0.0; 2];
                for ways in &scenario.bonds.get(bond as usize)?.channels {
                    let links = ways.get(usize::from(end))?.iter().map(|&link| scenario.links.get(link as usize));
                    let links: Vec<&Link> = links.collect::<Option<_>>()?;
                    least = least.min(links.iter().fold(Span::ZERO, |sum, link| sum + link.profile.delay));
                    for (size, frequency) in sizes.iter().zip(&mut frequencies) {
                        let slowest = links.iter().try_fold(0.0_f64, |most, link| Some(most.max(time(link, *size)?)));
                        *frequency += 1.0 / slowest?;
                    }
                }
                ideal.delay += least.as_nanos() as f64;
                ideal.links.push(frequencies.map(|frequency| 1.0 / frequency));
            }
            Hop::Ring(..) => return None,
        }
    }
    Some(ideal)
}

/// Nanoseconds for a packet on a link, where that is always the same.
fn time(link: &Link, size: u32) -> Option<f64> {
    match &link.profile.capacity {
        Capacity::Unlimited => Some(0.0),
        Capacity::Constant(rate) => Some(f64::from(link.framing.length(size)) * 8e9 / rate.as_bits_per_sec() as f64),
        Capacity::Series(_) | Capacity::Trace(_) => None,
    }
}
