//! Whether the kernel drops what comes by a device, since the way back leads elsewhere (the strict filter of RFC 3704).

use crate::finding::setting;
use crate::netlink::Netlink;
use std::net::IpAddr;

/// Why what `from` sends to `to`, or to this host at all, is dropped where it comes by `device`; `None` where it is let in, or nothing can be told.
pub(crate) fn obstacle(netlink: &mut Netlink, device: &str, from: IpAddr, to: Option<IpAddr>) -> Option<String> {
    let of = |scope: &str| setting(&format!("net/ipv4/conf/{scope}/rp_filter")).unwrap_or(0);
    if from.is_ipv6() || of("all").max(of(device)) != 1 {
        return None;
    }
    let back = match netlink.device_to(from, to) {
        Ok(back) if back == device => return None,
        Ok(back) => format!("leads by {back}"),
        Err(_) => "is nowhere".to_owned(),
    };
    Some(format!("the kernel drops what comes from {from} by {device}, as the way back {back} (rp_filter 1)"))
}
