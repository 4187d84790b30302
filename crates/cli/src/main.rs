//! The `fairspan` program.

fn main() {}
