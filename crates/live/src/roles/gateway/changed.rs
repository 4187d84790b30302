//! What a reload changed, in words.

use crate::config::Gateway;
use fairspan_core::buffer::Limit;
use fairspan_core::quantity::exact_rate;
use fairspan_core::units::Bytes;

/// What differs, in words.
pub(super) fn changed(before: &Gateway, after: &Gateway) -> Vec<String> {
    let mut changed = Vec::new();
    let mut tell = |differs: bool, setting: &str, value: String| {
        if differs {
            changed.push(format!("gateway.{setting} is now {value}"));
        }
    };
    let (was, is) = (&before.split, &after.split);
    tell(was.discipline != is.discipline, "discipline", is.discipline.to_string());
    tell(was.buffer != is.buffer, "buffer", is.buffer.to_string());
    tell(was.matching != is.matching, "matching", is.matching.to_string());
    tell(
        was.queue != is.queue,
        "queue",
        match is.queue {
            Limit::Packets(packets) => format!("{packets} packets"),
            Limit::Bytes(most) => format!("{most} B"),
        },
    );
    tell(before.rate != after.rate, "rate", after.rate.map_or("none".to_owned(), exact_rate));
    tell(before.proxy_local != after.proxy_local, "proxy_local", after.proxy_local.to_string());
    let bytes = |bytes: Bytes| format!("{} B", bytes.as_u64());
    tell(before.memory != after.memory, "memory", bytes(after.memory));
    tell(before.connection_memory != after.connection_memory, "connection_memory", bytes(after.connection_memory));
    tell(
        before.bypass_below != after.bypass_below,
        "bypass_below",
        format!("{} ms", after.bypass_below.as_secs_f64() * 1e3),
    );
    tell(before.except != after.except, "except", list(&after.except));
    tell(before.except_ports != after.except_ports, "except_ports", list(&after.except_ports));
    tell(before.half_open != after.half_open, "half_open", after.half_open.to_string());
    if before.proxy_login != after.proxy_login {
        changed.push("gateway.proxy_user and gateway.proxy_password are others now".to_owned());
    }
    changed
}

fn list<T: ToString>(all: &[T]) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
