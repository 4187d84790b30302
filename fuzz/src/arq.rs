//! EFL-MP's two ends, with frames from anybody between them.

use fairspan_core::arq::{Config, Content, Header, Kind, Parity, Receiver, Repair, Sender, Seq, Striping, Trigger};
use fairspan_core::options::Words;
use fairspan_core::units::{Bytes, ChannelId, Span, Time};

/// The first byte gives settings and the number of paths, the second how far from its wrap the numbering begins, and parity. Steps of
/// a byte: a path in the two lowest bits, then what: the next 44 bytes as a frame, to both ends, and 6 more if it is parity; a packet for
/// the sender; its next frame, which arrives or is lost; the receiver's next acknowledgment, likewise; time goes by. What is above gets
/// every number once, in order, whatever comes. What a row of anybody's rebuilds is taken for a packet, as what a packet's frame has is.
pub fn arq(data: &[u8]) {
    let [choice, start, rest @ ..] = data else { return };
    let bit = |place: u8| usize::from(choice >> place & 1);
    let mut config = Config::default();
    config.repair = Repair::ALL[bit(0)];
    config.striping = Striping::ALL[bit(1)];
    config.trigger = Trigger::ALL[bit(2) + bit(3)];
    (config.probes, config.failover) = (bit(4) == 1, bit(5) == 1);
    (config.reorder_packets, config.retransmission_packets) = (5, 40);
    (config.segment, config.give_up) = (Bytes::new(100), 40);
    config.parity = Parity::ALL[usize::from(start % 3)];
    (config.parity_packets, config.parity_residual) = (1 + u32::from(start >> 4), 8);
    let paths = 1 + usize::from(choice >> 6);
    let first = u32::MAX - u32::from(*start);
    let mut sender: Sender<u32> = Sender::new(&config, paths, Seq(first));
    let mut receiver: Receiver<u32> = Receiver::new(&config, paths, Seq(first));
    let (mut rest, mut now, mut given, mut expected) = (rest, Time::from_millis(1), first, first);
    let mut forged = false;
    while let [step, after @ ..] = rest {
        rest = after;
        let path = ChannelId(step & 3);
        match step >> 2 {
            0..12 => {
                let Some((bytes, after)) = rest.split_at_checked(Header::REQUEST_LENGTH) else { break };
                rest = after;
                let Ok(header) = Header::decode(bytes) else { continue };
                let mut again = [0; Header::REQUEST_LENGTH];
                let length = header.encode(&mut again);
                assert_eq!(Header::decode(&again[..length]), Ok(header));
                let _ = receiver.handle_packet(now, path, &header, header.seq.0);
                if header.kind == Kind::Parity {
                    let row = rest.split_off(..6.min(rest.len())).unwrap_or_default();
                    forged |= receiver.handle_parity(now, path, &header, row).is_ok();
                }
                let _ = sender.handle_ack(now, &header);
            }
            12..24 => given = given.wrapping_add(u32::from(sender.handle_packet(given, Bytes::new(100)).is_ok())),
            kind @ 24..44 => {
                if let Some(transmit) = sender.poll_transmit(now) {
                    let (header, arrives) = (transmit.header, kind % 5 > 0);
                    assert!(header.path.index() < paths);
                    let _ = match transmit.content {
                        Content::Packet(packet) => {
                            assert!(matches!(header.kind, Kind::Data | Kind::Repeat) && header.seq.0 == *packet);
                            arrives.then(|| receiver.handle_packet(now, header.path, &header, *packet))
                        }
                        Content::Parity(row) => {
                            assert_eq!((header.kind, row.len()), (Kind::Parity, 6));
                            arrives.then(|| receiver.handle_parity(now, header.path, &header, row))
                        }
                    };
                }
            }
            kind @ 44..56 => {
                if let Some(ack) = receiver.poll_ack(now)
                    && kind % 4 > 0
                {
                    let _ = sender.handle_ack(now, &ack);
                }
            }
            kind => {
                now += Span::from_micros(u64::from(kind - 55) * u64::from(*step));
                sender.handle_timeout(now);
            }
        }
        while let Some(packet) = receiver.poll_deliver() {
            assert!(forged || packet == expected, "every number once, in order: {packet} for {expected}");
            expected = expected.wrapping_add(1);
        }
        assert_eq!(receiver.next(), Seq(expected));
        assert!(receiver.held() <= 2 * 5 * paths && sender.held() <= 40);
        assert!(sender.unsent() <= 2 * 40 + 16 && sender.failed().is_none_or(|failed| failed.timeouts == 40));
        let _ = (sender.poll_timeout(), receiver.poll_timeout(), sender.room_at(now, Bytes::new(100)));
    }
}
