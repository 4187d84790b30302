//! What a reader has to know before the numbers.

use super::estimate::alike;
use crate::simulation::Finished;

/// All warnings about these runs, each without a full stop.
pub(super) fn warnings(finished: &[Finished]) -> impl Iterator<Item = String> {
    [alike(finished).warning(), fewer_parts(finished)].into_iter().flatten()
}

/// A world could not be divided into as many parts as its scenario asks for.
fn fewer_parts(finished: &[Finished]) -> Option<String> {
    let divided = finished.iter().filter_map(|run| run.results.partitions);
    let fewest = divided.filter(|told| told.parts < told.asked).min_by_key(|told| told.parts)?;
    let have = if fewest.parts == 1 { "it stays one world".to_owned() } else { format!("it has {}", fewest.parts) };
    Some(format!(
        "the file asks for {} partitions, and {have}: the ends of links without delay or with jitter stay together, and so do those of \
         bonds, reliable flows and rings, links that share a medium, and flows other than `ftp` and sources of datagrams. Links may also be \
         so short that more parts would wait for one another for longer than they gain",
        fewest.asked
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_sim::results::{Partitions, Results};

    #[test]
    fn a_world_in_fewer_parts_than_asked_for_is_told_and_others_are_not() {
        let run = |point, partitions| {
            let results = Results { partitions, ..Results::default() };
            Finished { number: point, point, parameters: vec![], results }
        };
        let parts = |point, asked, parts| run(point, Some(Partitions { asked, parts, lookahead_s: 1e-3 }));
        assert_eq!(warnings(&[run(0, None), parts(1, 4, 4)]).count(), 0);
        let told: Vec<String> = warnings(&[parts(0, 4, 4), parts(1, 4, 3), parts(2, 4, 1)]).collect();
        assert!(told.len() == 1 && told[0].contains("asks for 4 partitions, and it stays one world"), "{told:?}");
        assert!(warnings(&[parts(0, 8, 3)]).eq(fewer_parts(&[parts(0, 8, 3)])));
        assert!(fewer_parts(&[parts(0, 8, 3)]).is_some_and(|told| told.contains("8 partitions, and it has 3")));
    }
}
