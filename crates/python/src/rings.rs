//! Fair rates of rings.

use crate::document::Node;
use crate::failure::{guarded, input, study};
use crate::table::{Rows, Table};
use fairspan_core::ring::{max_min, proportional, rias as fair};
use fairspan_study::ring::Document;
use pyo3::prelude::*;
use std::path::PathBuf;

/// RIAS fair rates of the flows of a ring, which is JSON and called `name` in errors.
#[pyfunction]
pub(crate) fn rias(py: Python<'_>, text: &str, name: PathBuf, compare: bool) -> PyResult<Table> {
    let computed = guarded(|| {
        py.detach(|| {
            let document = Document::parse(&name, text)?;
            let problem = document.problem(&name)?;
            let rates = fair::allocate(&problem)
                .map_err(|error| fairspan_study::Error::Input(format!("{}: {error}", name.display())))?;
            let others = compare.then(|| (max_min::allocate(&problem), proportional::allocate(&problem)));
            Ok((problem, rates, others))
        })
    })?;
    let (problem, rates, others) = computed.map_err(|error: fairspan_study::Error| study(&error))?;
    let whole = |number: usize| Node::Whole(number as i128);
    let mut rows = Rows::default();
    for (index, flow) in problem.flows().iter().enumerate() {
        let node = |text: String| text.parse().map_or(Node::Null, Node::Whole);
        let bottleneck = rates.bottlenecks[index].map(|node| problem.link(node, flow.route.ringlet));
        let mut cells = vec![
            ("flow".to_owned(), whole(index)),
            ("from".to_owned(), node(flow.from.to_string())),
            ("to".to_owned(), node(flow.to.to_string())),
            ("demand".to_owned(), flow.demand.map_or(Node::Null, Node::Real)),
            ("rate".to_owned(), Node::Real(rates.rates[index])),
            ("bottleneck".to_owned(), bottleneck.map_or(Node::Null, whole)),
        ];
        if let Some((max_min, proportional)) = &others {
            cells.push(("max_min".to_owned(), Node::Real(max_min[index])));
            cells.push(("proportional".to_owned(), Node::Real(proportional[index])));
        }
        rows.add(cells);
    }
    if problem.flows().is_empty() {
        return Err(input(format!("{}: there are no flows", name.display())));
    }
    rows.finish()
}
