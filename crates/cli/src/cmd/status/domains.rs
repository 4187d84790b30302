//! Names whose addresses are reached through the bond, or past it.

use super::table::table;
use fairspan_live::status::DomainStatus;

/// Addresses of a name that a table has; JSON has all.
const SHOWN: usize = 6;

/// By which side a name's addresses are reached.
fn side(domain: &DomainStatus) -> String {
    match &domain.peer {
        Some(peer) => format!("{} {peer}", domain.way),
        None => domain.way.clone(),
    }
}

/// A table of names, if there are some.
pub(super) fn show(domains: &[DomainStatus]) {
    if domains.is_empty() {
        return;
    }
    let mut table = table(["name", "way", "addresses", "asked for", "forgotten in s"]);
    for domain in domains {
        let column = |of: fn(&fairspan_live::status::DomainAddressStatus) -> String| {
            let mut lines: Vec<String> = domain.addresses.iter().take(SHOWN).map(of).collect();
            if lines.is_empty() {
                lines.push("-".to_owned());
            }
            lines
        };
        let mut addresses = column(|known| known.address.clone());
        if let Some(more) = domain.addresses.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            addresses.push(format!("and {more} more"));
        }
        let asked = column(|known| known.asked.clone());
        let expires = column(|known| format!("{:.0}", known.expires_s));
        let lists = [addresses, asked, expires].map(|lines| lines.join("\n"));
        let [addresses, asked, expires] = lists;
        table.add_row([domain.name.clone(), side(domain), addresses, asked, expires]);
    }
    println!("\n  names\n{table}");
}
