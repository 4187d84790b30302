//! By which devices a site reaches its hub, and how well: what `fairspan join` proposes.
//!
//! | file | idea |
//! |---|---|
//! | `uplink` | devices with a route that leads there, in whatever table |
//! | `line` | a way to one place: a question out, the answer in, over UDP or TCP |
//! | `survey` | what the hub answers over each of them, how fast, and how long a packet may be |

mod line;
mod survey;
mod uplink;

pub use survey::{Failure, Hub, Reached, join, survey};
pub use uplink::{Kind, Uplink, find};
