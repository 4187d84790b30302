//! `fairspan invite`: a hub invites a site.

use crate::exit::{BadInput, NoPrivilege, Outcome};
use anyhow::{Context as _, anyhow};
use fairspan_core::wire::invitation::{Host, Place};
use fairspan_live::control::{self, Request};
use fairspan_live::day::utc;
use fairspan_live::quantity::parse_span;
use fairspan_live::reloaded::Reloaded;
use fairspan_live::setup::{self, Invited, SetupError, Wish};
use ipnet::IpNet;
use qrcode::{EcLevel, QrCode, render::unicode::Dense1x2};
use serde_json::json;
use std::io::{ErrorKind, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

/// Longest that an invitation is good.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Invite a site to this hub: prints one line, and as a QR code, with which `fairspan join` makes a site a peer, once. Writes an entry for the
/// site into the hub's configuration, which is made where there is none, and has a running daemon take it over.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The hub's configuration
    #[arg(default_value = "/etc/fairspan/fs0.toml")]
    config: PathBuf,
    /// What the site is called [default: site1, site2 and so on]
    #[arg(long)]
    name: Option<String>,
    /// Where sites call this hub: an address or a name, perhaps with a port; several times for several [default: this host's addresses]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = endpoint)]
    endpoint: Vec<(Host, Option<u16>)>,
    /// What the site is to reach through the hub beside the inner network, such as 192.168.7.0/24, or 0.0.0.0/0 for all of IPv4
    #[arg(long, value_name = "NETWORK")]
    route: Vec<IpNet>,
    /// How long the invitation is good, such as 30min or 48h
    #[arg(long, default_value = "24h", value_parser = lifetime)]
    expires: Duration,
    /// Of a configuration that is made: the hub's address inside, with the network's prefix length [default: 10.77.0.1/24]
    #[arg(long, value_name = "ADDRESS")]
    network: Option<IpNet>,
    /// Of a configuration that is made: the UDP port at which the hub listens [default: 51900]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Of a configuration that is made: the TCP port at which the hub listens too, such as 443, for sites whose network lets no UDP through
    #[arg(long, value_name = "PORT")]
    tcp_port: Option<NonZeroU16>,
    /// Leave the QR code out
    #[arg(long)]
    no_qr: bool,
    /// Print one JSON document: {"invitation", "name", "address", "hub", "expires", "endpoints", "tcp_port", "file", "written", "running"}
    #[arg(long)]
    json: bool,
}

/// An address or a name, perhaps with a port.
fn endpoint(text: &str) -> Result<(Host, Option<u16>), String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok((Host::Address(address.ip()), Some(address.port())));
    }
    if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok((Host::Address(address), None));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().map_err(|_| format!("`{port}` is no port"))?)),
        None => (text, None),
    };
    let is_name = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
    };
    match host.trim_end_matches('.').split('.').all(is_name) {
        true => Ok((Host::Name(host.to_owned()), port)),
        false => Err("write an address or a name, such as 203.0.113.1 or hub.example.net:51900".into()),
    }
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let span = parse_span(text).map_err(|error| error.to_string())?;
    let lifetime = Duration::from_nanos(span.as_nanos());
    match (Duration::from_secs(60)..=LONGEST).contains(&lifetime) {
        true => Ok(lifetime),
        false => Err("an invitation is good for 1min to 8784h (366 days)".into()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let wish = Wish {
        file: args.config.clone(),
        name: args.name.clone(),
        places: args.endpoint.clone(),
        network: args.network,
        port: args.port,
        tcp_port: args.tcp_port,
        networks: args.route.clone(),
        lifetime: args.expires,
    };
    let invited = setup::invite(&wish).map_err(failed)?;
    let daemon = take_over(&invited);
    for notice in &invited.notices {
        // What a daemon that runs has done already is no news.
        if daemon.is_none() || !notice.problem.contains("a daemon answers there") {
            eprintln!("warning: {notice}");
        }
    }
    let running = match &daemon {
        Some(Ok(())) => true,
        Some(Err(_)) | None => false,
    };
    if args.json {
        println!("{}", document(args, &invited, running));
    } else {
        show(args, &invited, running)?;
    }
    match daemon {
        Some(Err(error)) => {
            Err(error.context("the daemon that runs does not take the new peer over, and nobody can join yet"))
        }
        _ => Ok(Outcome::Done),
    }
}

/// With the exit status of what is wrong.
pub(super) fn failed(error: SetupError) -> anyhow::Error {
    match &error {
        SetupError::Wrong(problem) => BadInput(problem.clone()).into(),
        _ if error.is_permission() => NoPrivilege(format!("{error}: run this as root")).into(),
        _ => error.into(),
    }
}

/// Has a daemon of this configuration take it over, if one runs.
fn take_over(invited: &Invited) -> Option<anyhow::Result<()>> {
    let answer = match control::ask(&invited.control_socket, &Request::Reload) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => return None,
        Err(error) => return Some(Err(error).context(invited.control_socket.display().to_string())),
        Ok(answer) => answer,
    };
    let reloaded: Result<Reloaded, _> = serde_json::from_str(&answer);
    Some(match reloaded {
        Ok(reloaded) if reloaded.ok => Ok(()),
        Ok(reloaded) => Err(anyhow!(reloaded.lines().join("\n"))),
        Err(error) => Err(error).context("the daemon's answer is of another version"),
    })
}

fn document(args: &Args, invited: &Invited, running: bool) -> serde_json::Value {
    json!({
        "invitation": invited.word,
        "name": invited.name,
        "address": invited.site.to_string(),
        "hub": invited.hub.to_string(),
        "expires": invited.expires,
        "endpoints": invited.places.iter().map(Place::to_string).collect::<Vec<_>>(),
        "tcp_port": invited.tcp_port,
        "file": args.config,
        "written": invited.written,
        "running": running,
    })
}

fn show(args: &Args, invited: &Invited, running: bool) -> anyhow::Result<()> {
    let file = args.config.display();
    match invited.is_new {
        true => println!("Wrote {file}, and keys beside it:\n"),
        false => println!("Added to {file}:\n"),
    }
    invited.written.lines().for_each(|line| println!("{}", format!("  {line}").trim_end()));
    let places: Vec<String> = invited.places.iter().map(Place::to_string).collect();
    let ports = match invited.tcp_port {
        Some(port) => format!("that UDP port and TCP port {port}"),
        None => "that UDP port".to_owned(),
    };
    println!("\nSites call this hub at {}. Let {ports} in at its firewall.", places.join(", "));
    if invited.is_private {
        println!(
            "None of these is an address of the internet: for sites elsewhere name the one by which this host is reached, as with\n\
             `--endpoint hub.example.net`, and have the router pass the port on."
        );
    }
    let is_six = |place: &Place| matches!(place.host, Host::Address(IpAddr::V6(_)));
    if args.endpoint.is_empty() && invited.places.iter().all(is_six) {
        println!(
            "These are addresses of IPv6 alone, and sites without it cannot call: where a router translates IPv4, name its address with\n\
             `--endpoint`, and have it pass the port on."
        );
    }
    if invited.lacks_masquerade {
        println!(
            "Write `masquerade = true` into its [interface], unless what lies behind the hub has a route to the site."
        );
    }
    match running {
        true => println!("The daemon that runs has taken it over."),
        false => println!("Start the hub with\n\n  fairspan up {file}"),
    }
    println!(
        "\nWhoever has this line may join once, as {} with {}, until {}. At the site, as root:\n\n  fairspan join {}\n",
        invited.name,
        invited.site.addr(),
        utc(invited.expires),
        invited.word,
    );
    if !args.no_qr {
        println!("{}", qr(&invited.word, std::io::stdout().is_terminal())?);
    }
    Ok(())
}

/// The word as a QR code of characters, two rows in one line. A terminal is asked for black on white, whatever its colours are.
fn qr(word: &str, is_terminal: bool) -> anyhow::Result<String> {
    let code = QrCode::with_error_correction_level(word, EcLevel::L).context("a QR code")?;
    let text =
        code.render::<Dense1x2>().dark_color(Dense1x2::Dark).light_color(Dense1x2::Light).quiet_zone(true).build();
    Ok(match is_terminal {
        true => text.lines().map(|line| format!("\x1b[30;107m{line}\x1b[0m\n")).collect(),
        false => text + "\n",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_or_a_name_with_a_port_or_without() {
        let address = |text: &str| Host::Address(text.parse().unwrap());
        assert_eq!(endpoint("203.0.113.1"), Ok((address("203.0.113.1"), None)));
        assert_eq!(endpoint("203.0.113.1:443"), Ok((address("203.0.113.1"), Some(443))));
        assert_eq!(endpoint("2001:db8::1"), Ok((address("2001:db8::1"), None)));
        assert_eq!(endpoint("[2001:db8::1]:443"), Ok((address("2001:db8::1"), Some(443))));
        assert_eq!(endpoint("hub.example.net"), Ok((Host::Name("hub.example.net".into()), None)));
        assert_eq!(endpoint("hub:443"), Ok((Host::Name("hub".into()), Some(443))));
        for wrong in ["", "a b", "hub:port", "http://hub", "hub..net", "hub:70000"] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_invitation_is_good_for_a_minute_to_a_year() {
        assert_eq!(lifetime("48h"), Ok(Duration::from_secs(172_800)));
        for wrong in ["", "30s", "0h", "9000h", "soon"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_qr_code_has_the_word_and_room_around_it() {
        let word = "fairspan1".to_owned() + &"A".repeat(120);
        let text = qr(&word, false).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let width = lines[0].chars().count();
        assert!(lines.iter().all(|line| line.chars().count() == width));
        assert!(width <= 70 && lines.len() <= 35, "{width} x {}", lines.len());
        assert!(text.chars().all(|c| " \u{2580}\u{2584}\u{2588}\n".contains(c)), "{text}");
    }
}
