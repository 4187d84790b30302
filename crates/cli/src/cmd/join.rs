//! `fairspan join`: a site that was invited becomes a peer of the hub.

use super::invite::failed;
use crate::exit::{BadInput, Outcome};
use anyhow::{Context as _, anyhow, bail};
use comfy_table::{Table, presets};
use fairspan_core::wire::invitation::{Host, Invitation, Place};
use fairspan_live::day::utc;
use fairspan_live::secure::PublicKey;
use fairspan_live::secure::joining::Verdict;
use fairspan_live::setup::{self, Channel, Site};
use fairspan_live::uplinks::{self, Failure, Hub, Kind, Reached, Uplink};
use ipnet::IpNet;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Clocks that are further apart than this are told of.
const CLOCKS_APART: u64 = 300;

/// Join a hub by its invitation: finds the uplinks of this host, asks the hub over each, proposes them, writes the configuration, and
/// starts the daemon in the foreground
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The line that `fairspan invite` printed, or `-` to read it from standard input
    invitation: String,
    /// The configuration to write; the interface is called as it is
    #[arg(long, default_value = "/etc/fairspan/fs0.toml")]
    file: PathBuf,
    /// Use this device, and no others; several times for several [default: all by which the hub answers]
    #[arg(long, value_name = "DEVICE")]
    uplink: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Write the configuration, and do not start the daemon
    #[arg(long)]
    no_start: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let invitation = read(args)?;
    println!(
        "An invitation to join the hub at {} as {}, with {}, until {}.",
        list(invitation.places.iter().map(ToString::to_string)),
        invitation.name,
        invitation.site,
        utc(invitation.expires.into())
    );
    println!(
        "Through the hub this host will reach {}.",
        list(setup::networks(&invitation).iter().map(ToString::to_string))
    );
    // Before all else: a host that has joined has these networks.
    let site = Site::begin(&args.file).map_err(failed)?;
    networks_are_free(&invitation)?;
    let places = places(&invitation)?;
    let hub = Hub {
        key: PublicKey::from_bytes(invitation.hub_key),
        secret: invitation.secret,
        places: places.iter().map(|(address, _)| *address).collect(),
        tcp_port: invitation.tcp_port,
    };
    let found = candidates(args, &hub)?;
    println!("Asking the hub over {} …", list(found.iter().map(|uplink| uplink.device.clone())));
    let surveyed = uplinks::survey(&hub, site.key(), &found);
    show(&found, &surveyed);
    let reached = chosen(&invitation, &found, &surveyed)?;
    if reached.iter().any(|(_, reached)| reached.tcp.is_some()) {
        println!(
            "Where no UDP gets through, the channel goes over TCP, which costs speed; it goes back by itself once UDP passes."
        );
    }
    if !args.yes && !confirm(reached.len())? {
        println!("Nothing was changed.");
        return Ok(Outcome::Negative);
    }
    // From here on the hub may know the key, and another one would be refused.
    let key = site.keep_key().map_err(failed)?.display();
    let answer = uplinks::join(&hub, site.key(), &reached).map_err(|failure| {
        anyhow!("the hub did not answer ({failure}): do the same again; the key stays in {key}, as the hub may have it already")
    })?;
    if answer.verdict != Verdict::Joined {
        // A hub that says that it could not keep the key may have kept it all the same.
        if answer.verdict != Verdict::NotKept {
            site.forget_key();
        }
        return Err(refusal(answer.verdict, &invitation));
    }
    let channels: Vec<Channel> =
        reached.iter().map(|(uplink, reached)| channel(&invitation, &places, uplink, reached)).collect();
    let (text, notices) = site.write(&invitation, &channels).map_err(failed)?;
    println!("\nJoined. Wrote {}, and keys beside it:\n", args.file.display());
    text.lines().for_each(|line| println!("{}", format!("  {line}").trim_end()));
    println!();
    notices.iter().for_each(|notice| eprintln!("warning: {notice}"));
    start(args)
}

/// What is written of an uplink.
fn channel(invitation: &Invitation, places: &[(SocketAddr, Place)], uplink: &Uplink, reached: &Reached) -> Channel {
    let place = places.iter().find(|(address, _)| *address == reached.place).map(|(_, place)| place);
    // A name is followed when its address changes. A channel that may go over TCP has none.
    let name = place.filter(|place| matches!(place.host, Host::Name(_)));
    let (endpoint, tcp) = match (name, reached.tcp) {
        (Some(name), None) => (name.to_string(), None),
        (Some(name), tcp) => {
            eprintln!(
                "warning: {}: only TCP gets through to {name}, whose address is written, as no name is followed then",
                uplink.device
            );
            (reached.place.to_string(), tcp)
        }
        (None, tcp) => {
            let spare = invitation.tcp_port.map(|port| SocketAddr::new(reached.place.ip(), port.get()));
            (reached.place.to_string(), tcp.or(spare))
        }
    };
    Channel { device: uplink.device.clone(), endpoint, tcp_endpoint: tcp, source: reached.source }
}

/// Nothing that is to be reached through the hub is here already.
fn networks_are_free(invitation: &Invitation) -> anyhow::Result<()> {
    for (place, net) in setup::networks(invitation).iter().enumerate().filter(|(_, net)| net.prefix_len() > 0) {
        let Some(used) = setup::overlap(*net, "").context("the routes of this host")? else { continue };
        let remedy = match place {
            0 => "have the hub choose another network, as with `fairspan invite --network 10.133.7.1/24`",
            _ => "have the hub invite without that `--route`",
        };
        return Err(BadInput(format!("{net} would lie behind the hub, and this host has {used}: {remedy}")).into());
    }
    Ok(())
}

/// The invitation, or what is wrong with it. None of it is shown.
fn read(args: &Args) -> anyhow::Result<Invitation> {
    let mut text = args.invitation.clone();
    if text == "-" {
        text.clear();
        std::io::stdin().lock().take(65_536).read_to_string(&mut text).context("standard input")?;
    }
    let invitation = Invitation::decode(&text).map_err(|error| BadInput(error.to_string()))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // A key that is there may be one that the hub let join in time, and whose answer was lost.
    if now >= invitation.expires.into() && !setup::key_file_of(&args.file).exists() {
        let problem = format!(
            "the invitation expired on {} (by the clock of this host it is {}): have the hub invite again",
            utc(invitation.expires.into()),
            utc(now)
        );
        return Err(BadInput(problem).into());
    }
    Ok(invitation)
}

/// Where the hub is called, its names looked up, each address with the place that has it.
fn places(invitation: &Invitation) -> anyhow::Result<Vec<(SocketAddr, Place)>> {
    let (mut places, mut unknown) = (Vec::<(SocketAddr, Place)>::new(), Vec::new());
    for place in &invitation.places {
        let found: Vec<SocketAddr> = match &place.host {
            Host::Address(address) => vec![SocketAddr::new(*address, place.port)],
            Host::Name(name) => match (name.as_str(), place.port).to_socket_addrs() {
                Ok(found) => found.collect(),
                Err(error) => {
                    unknown.push(format!("{name}: {error}"));
                    continue;
                }
            },
        };
        for address in found {
            if !places.iter().any(|(known, _)| *known == address) {
                places.push((address, place.clone()));
            }
        }
    }
    unknown.iter().for_each(|problem| eprintln!("warning: the hub's name has no address: {problem}"));
    if places.is_empty() {
        bail!("the hub cannot be called: its name has no address here; does this host have a resolver?");
    }
    places.truncate(8);
    Ok(places)
}

/// The devices to ask over.
fn candidates(args: &Args, hub: &Hub) -> anyhow::Result<Vec<Uplink>> {
    let places: Vec<IpAddr> = hub.places.iter().map(SocketAddr::ip).collect();
    let mut found = uplinks::find(&places).context("the routes of this host")?;
    if !args.uplink.is_empty() {
        if let Some(missing) = args.uplink.iter().find(|name| !found.iter().any(|uplink| uplink.device == **name)) {
            let problem = format!(
                "--uplink {missing}: no route by that device leads to the hub: give it one, such as a default route"
            );
            return Err(BadInput(problem).into());
        }
        found.retain(|uplink| args.uplink.contains(&uplink.device));
        return Ok(found);
    }
    for tunnel in found.iter().filter(|uplink| uplink.kind == Kind::Tunnel) {
        println!("{} is a tunnel, and left out (`--uplink {0}` takes it).", tunnel.device);
    }
    found.retain(|uplink| uplink.kind != Kind::Tunnel);
    if found.is_empty() {
        bail!(
            "no device of this host has a route that leads to the hub: connect an uplink, with a default route (`ip route`)"
        );
    }
    Ok(found)
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// What was measured.
fn show(found: &[Uplink], surveyed: &[Result<Reached, Failure>]) {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["uplink", "is", "address", "by", "hub at", "round trip", "longest packet", "translated"]);
    for (uplink, outcome) in found.iter().zip(surveyed) {
        let place = outcome.as_ref().ok().map(|reached| reached.place);
        let of_place = |address: &IpAddr| place.is_none_or(|place| place.is_ipv4() == address.is_ipv4());
        let address = uplink.addresses.iter().map(IpNet::addr).find(|address| of_place(address));
        let gateway = uplink.routes.iter().filter_map(|route| route.gateway).find(|gateway| of_place(gateway));
        let or_dash = |address: Option<IpAddr>| address.map_or_else(|| "-".to_owned(), |address| address.to_string());
        let mut row = vec![uplink.device.clone(), uplink.kind.to_string(), or_dash(address), or_dash(gateway)];
        match outcome {
            Ok(reached) => row.extend([
                reached.tcp.map_or_else(|| reached.place.to_string(), |place| format!("{place} (TCP)")),
                format!("{:.1} ms", reached.rtt.as_secs_f64() * 1e3),
                if reached.path_mtu == 0 { "-".to_owned() } else { format!("{} B", reached.path_mtu) },
                translated(reached),
            ]),
            Err(failure) => row.push(failure.to_string()),
        }
        table.add_row(row);
    }
    println!("{table}");
}

/// What somebody on the way makes of our address and port. By one hub one cannot tell more: whether another place would see the same.
fn translated(reached: &Reached) -> String {
    let seen = reached.answer.seen;
    match reached.own {
        Some(own) if own != seen => {
            let port = if own.port() == seen.port() { "kept" } else { "changed" };
            format!("to {}, port {port}", seen.ip())
        }
        _ => "no".to_owned(),
    }
}

/// The uplinks to use, the fastest first.
fn chosen<'a>(
    invitation: &Invitation,
    found: &'a [Uplink],
    surveyed: &[Result<Reached, Failure>],
) -> anyhow::Result<Vec<(&'a Uplink, Reached)>> {
    let mut reached: Vec<(&Uplink, Reached)> =
        found.iter().zip(surveyed).filter_map(|(uplink, outcome)| Some((uplink, *outcome.as_ref().ok()?))).collect();
    reached.sort_by_key(|(_, reached)| reached.rtt);
    let Some((_, first)) = reached.first() else {
        let others = surveyed.iter().filter_map(|outcome| outcome.as_ref().err());
        if let Some(version) = others.clone().find(|failure| matches!(failure, Failure::OtherVersion(..))) {
            bail!("{version}");
        }
        bail!(
            "the hub answers over none of them. Does `fairspan up` run there, with this invitation in its configuration? Does its firewall \
             let the UDP port of {} in{}? {}",
            list(invitation.places.iter().map(ToString::to_string)),
            invitation.tcp_port.map(|port| format!(", and TCP port {port}")).unwrap_or_default(),
            match invitation.tcp_port {
                Some(_) => "Does a network on the way let either through?",
                None => {
                    "Does a network on the way let UDP through? Where none does, the hub needs a `listen_tcp_port`, and has to invite again."
                }
            }
        );
    };
    match first.answer.verdict {
        Verdict::Open | Verdict::Joined => {}
        verdict => return Err(refusal(verdict, invitation)),
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if now.abs_diff(first.answer.clock) > CLOCKS_APART {
        eprintln!(
            "warning: by the clock of this host it is {}, by the hub's {}: set the one that is wrong",
            utc(now),
            utc(first.answer.clock)
        );
    }
    Ok(reached)
}

/// Why the hub does not let this site join.
fn refusal(verdict: Verdict, invitation: &Invitation) -> anyhow::Error {
    let problem = match verdict {
        Verdict::Used => {
            "the invitation was used already, by another site or another key: have the hub invite again".to_owned()
        }
        Verdict::Expired => format!(
            "the invitation has expired, by the hub's clock (it was good until {}): have the hub invite again",
            utc(invitation.expires.into())
        ),
        Verdict::KeyTaken => {
            "the key of this site is that of another peer of the hub: remove the key file, and do the same again"
                .to_owned()
        }
        Verdict::NotKept => {
            "the hub cannot keep who has joined: at the hub, look into its log, and whether `state_dir` can be written"
                .to_owned()
        }
        Verdict::Open | Verdict::Joined => "the hub's answer makes no sense".to_owned(),
    };
    BadInput(problem).into()
}

/// Whether a person agrees.
fn confirm(count: usize) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let problem = "there is nobody to ask, as standard input is no terminal: give `--yes` to use what answers";
        return Err(BadInput(problem.into()).into());
    }
    print!("Join over {}? [Y/n] ", if count == 1 { "this one".to_owned() } else { format!("these {count}") });
    std::io::stdout().flush()?;
    let mut answer = String::new();
    if std::io::stdin().read_line(&mut answer)? == 0 {
        return Ok(false);
    }
    Ok(matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes"))
}

/// Becomes the daemon.
fn start(args: &Args) -> anyhow::Result<Outcome> {
    let file = args.file.display();
    if args.no_start {
        println!("Start it with `fairspan up {file}`.");
        return Ok(Outcome::Done);
    }
    println!("Starting it, as `fairspan up {file}` does; Ctrl-C ends it.");
    std::io::stdout().flush()?;
    let program = std::env::current_exe().context("this program's file")?;
    // Another program in this process: no secret of the invitation is left in the daemon's memory.
    Err(Command::new(program).arg("up").arg(&args.file).exec()).context("`fairspan up`")
}
