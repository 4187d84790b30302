//! By which devices a site reaches its hub, and how well: what `fairspan join` proposes.
//!
//! | file | idea |
//! |---|---|
//! | `uplink` | devices with a route that leads there, in whatever table |
//! | `failure` | why one does not do |
//! | `line` | a way to one place: a question out, the answer in, over UDP or TCP |
//! | `survey` | what the hub answers over each of them, how fast, and how long a packet may be |

mod failure;
mod line;
mod survey;
mod uplink;

pub use failure::Failure;
pub use survey::{Hub, Reached, join, survey};
pub use uplink::{Kind, Uplink, find};
