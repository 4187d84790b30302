//! What all transfers have in common, emulated or simulated.

use super::pairs::Pair;
use super::report::Run;
use std::time::Duration;

/// What does not count at the start of every transfer.
pub(super) const WARM_UP: Duration = Duration::from_secs(5);
/// What a download takes: 20 MiB.
pub(super) const DOWNLOAD: u64 = 20 << 20;
/// Most bytes of a TCP socket's buffers, for everything compared.
pub(super) const SOCKET_BUFFER: u64 = 32 << 20;

/// Which of how many runs.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) run: usize,
    pub(super) runs: usize,
}

/// Says what came out of one run, as soon as it is known.
pub(super) fn tell(pair: &Pair, told: Told, run: &Run) {
    eprintln!(
        "{:<16} run {}/{}  a {:7.2}  b {:7.2}  bond {:7.2} Mbit/s",
        pair.name, told.run, told.runs, run.alone[0].mbit, run.alone[1].mbit, run.bond.mbit
    );
}
