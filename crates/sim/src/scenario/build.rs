//! Tables to the model.

use super::error::Problem;
use super::form::Errors;
use super::model::Scenario;
use super::store::Store;
use super::value::Table;

pub(super) fn scenario(
    root: &Table,
    _store: &Store,
    _title: &str,
    _seed: u64,
    errors: &mut Errors<'_>,
) -> Option<Scenario> {
    errors.add(root.at, "", Problem::Conflict("scenario files cannot be run yet".into()));
    None
}
