//! TCP held to its RFCs by packet scripts: a test for each numbered rule, named after what the rule claims; and the byte
//! stream under a hostile channel.

mod bbr;
mod close;
mod congestion;
mod delayed_ack;
mod fast_retransmit;
mod flow_control;
mod handshake;
mod keepalive;
mod newreno;
mod pacing;
mod prague;
mod rack;
mod rto;
mod sack_receiver;
mod sack_sender;
mod script;
mod slow_start;
mod spurious;
mod stream;
mod timestamps;
mod urgent;
mod window_scaling;
