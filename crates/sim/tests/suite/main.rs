//! The simulator's tests from outside, one file an idea, in one program: it is linked once.

mod allocations;
mod bond_failure;
mod bond_flow;
mod bond_reliable;
mod bond_world;
mod brr_figures;
mod common;
mod engine_line;
mod engine_links;
mod engine_metrics;
mod regress;
mod reliable_world;
mod ring_figures;
mod ring_random;
mod ring_sweeps;
mod ring_world;
mod scenario_document;
mod scenario_errors;
mod scenario_files;
mod smoke;
mod striping_figures;
mod tcp;
mod tcp_dumbbell;
mod tcp_link;
mod traffic_applications;
mod traffic_sources;
