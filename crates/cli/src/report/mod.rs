//! What runs give, for people and programs: tables, plots, files.

#[cfg(feature = "arrow")]
mod arrow;
mod axis;
mod cdf;
mod chart;
mod document;
mod estimate;
mod folder;
pub(crate) mod html;
mod lines;
pub(crate) mod pcapng;
pub(crate) mod plot;
mod series;
mod sheet;
pub(crate) mod summary;
pub(crate) mod text;
mod timeline;
mod transfers;
mod words;

pub(crate) use document::Document;
pub(crate) use estimate::Sample;
pub(crate) use folder::{make as folder, write};
pub(crate) use words::{nearest, short};
