//! What runs give, for people and programs: tables, plots, files.

#[cfg(feature = "arrow")]
mod arrow;
mod axis;
mod cdf;
mod chart;
mod document;
mod estimate;
mod folder;
pub mod html;
mod lines;
pub mod pcapng;
pub mod plot;
mod series;
mod sheet;
pub mod summary;
pub mod text;
mod timeline;
mod transfers;
mod warnings;
mod words;

pub use chart::asked as plots;
pub use document::Document;
pub use estimate::{Estimate, Sample, estimates};
pub use folder::{make as folder, write};
pub use words::{nearest, short};
