//! What a bond of Ethernet links counts.

macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// Every counter with its name, in a fixed order.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Counters of the bond, from the start.
    Stats {
        /// Frames of the host.
        host_packets,
        /// Bytes of them.
        host_bytes,
        /// From the host: shorter than an Ethernet header.
        host_malformed,
        /// From the host: no link could carry it.
        host_no_link,
        /// From the host: its flow moves behind a marker, and there was no room to hold it.
        host_not_held,
        /// Frames given to the host.
        delivered_packets,
        /// Bytes of them.
        delivered_bytes,
        /// Times that another link became the current one.
        fail_overs,
        /// Gratuitous ARP packets and unsolicited neighbour advertisements.
        announcements,
        /// Learning packets.
        learning_packets,
        /// Clients told another address for ours (`balance-alb`).
        client_updates,
        /// ARP probes.
        arp_probes,
        /// Answers to them.
        arp_answers,
    }
}

counters! {
    /// Counters of one link, from the start.
    LinkStats {
        /// Frames of the host sent, copies included.
        sent_packets,
        /// Bytes of them.
        sent_bytes,
        /// Frames of the bond's own sent.
        sent_control,
        /// Frames received, of whatever kind.
        received_packets,
        /// Bytes of them.
        received_bytes,
        /// Received: shorter than an Ethernet header.
        received_malformed,
        /// Received on a link that the policy does not listen to.
        received_inactive,
        /// Received: for one station that is not this host.
        received_other_station,
        /// Received: for the link's own ends only (addresses 01-80-C2-00-00-0x); the device's own listeners get them.
        received_link_local,
        /// Received: a frame that this bond sent.
        received_own,
        /// Received: LACPDUs, markers and their answers, malformed ones included.
        received_lacp,
        /// Received: of those, the malformed ones.
        received_lacp_malformed,
        /// Times it became usable.
        ups,
        /// Times it became unusable.
        downs,
    }
}
