//! `fairspan ring status`: what the running nodes of rings tell of themselves.

use crate::cmd::status as daemons;
use crate::exit::Outcome;

pub(crate) fn run(args: &daemons::Args) -> anyhow::Result<Outcome> {
    daemons::run_for(args, "fairspan ring up", |status| status.ring.is_some())
}
