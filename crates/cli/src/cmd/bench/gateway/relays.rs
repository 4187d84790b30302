//! What stands in the gateways: Fairspan, haproxy, or nothing but the kernel that forwards.

use super::bed::{Bed, LAN, LONG, behind, long_address};
use crate::measure::memory;
use crate::testbed::tunnel::{KeyPair, PORT, channels_up, daemon};
use crate::testbed::{Interrupt, Namespace, Process, command};
use anyhow::{Context, Result, bail};
use fairspan_live::control;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long one may take until it works.
const READY: Duration = Duration::from_secs(15);
/// The name of the gateway's interface, which is also in its table's.
const NAME: &str = "gw0";

/// One gateway of Fairspan; dropped, it ends.
#[derive(Debug)]
pub(super) struct Gateway {
    process: Process,
    socket: PathBuf,
}

impl Gateway {
    /// Starts `fairspan up` with these lines in `[gateway]`, and waits until it answers.
    pub(super) fn start(
        interrupt: &Interrupt,
        namespace: &Namespace,
        settings: &[String],
        directory: &Path,
    ) -> Result<Gateway> {
        let base = directory.join(namespace.name());
        let socket = base.with_extension("sock");
        let mut text = format!(
            "[interface]\nname = \"{NAME}\"\ncontrol_socket = \"{}\"\nstate_dir = \"{}\"\n\n[gateway]\nlong = \"{LONG}\"\n\
             inside = [\"{LAN}\"]\n",
            socket.display(),
            base.with_extension("state").display()
        );
        for line in settings {
            let _ = writeln!(text, "{line}");
        }
        let process = daemon(namespace, "the gateway", &text, &base)?;
        let mut gateway = Gateway { process, socket };
        gateway.wait(interrupt, "answer", |socket| control::ask(socket, &control::Request::Status).is_ok())?;
        Ok(gateway)
    }

    /// Starts both gateways as ends of one `reliable` bond over the long link, with these lines in `[peer.split]`, and waits until
    /// its channel is up.
    pub(super) fn start_bond(
        interrupt: &Interrupt,
        bed: &Bed,
        settings: &[String],
        directory: &Path,
    ) -> Result<Vec<Gateway>> {
        let keys = [KeyPair::new()?, KeyPair::new()?];
        let mut gateways = Vec::new();
        for (index, namespace) in bed.gateways.iter().enumerate() {
            let other = 1 - index;
            let base = directory.join(namespace.name());
            let socket = base.with_extension("sock");
            let mut text = format!(
                "[interface]\nname = \"{NAME}\"\naddress = [\"10.77.0.{}/24\"]\nprivate_key = \"{}\"\nlisten_port = {PORT}\n\
                 control_socket = \"{}\"\nstate_dir = \"{}\"\n\n[[peer]]\nname = \"other\"\npublic_key = \"{}\"\nmode = \"reliable\"\n\
                 allowed_ips = [\"10.77.0.{}/32\", {}]\n\n[peer.split]\ninside = [\"{LAN}\"]\n",
                index + 1,
                keys[index].private,
                socket.display(),
                base.with_extension("state").display(),
                keys[other].public,
                other + 1,
                behind(other).map(|net| format!("\"{net}\"")).join(", "),
            );
            for line in settings {
                let _ = writeln!(text, "{line}");
            }
            if index == 0 {
                let _ = write!(
                    text,
                    "\n[[peer.channel]]\nname = \"long\"\nkind = \"udp\"\ndevice = \"{LONG}\"\nendpoint = \"{}:{PORT}\"\n",
                    long_address(other)
                );
            }
            let process = daemon(namespace, "an end of the bond", &text, &base)?;
            gateways.push(Gateway { process, socket });
        }
        for gateway in &mut gateways {
            gateway.wait(interrupt, "have its channel", |socket| channels_up(socket) == Some(1))?;
        }
        Ok(gateways)
    }

    fn wait(&mut self, interrupt: &Interrupt, what: &str, is_ready: impl Fn(&Path) -> bool) -> Result<()> {
        let end = Instant::now() + READY;
        while !is_ready(&self.socket) {
            interrupt.check()?;
            self.process.check()?;
            if Instant::now() > end {
                bail!("the gateway does not {what} within {} s: {}", READY.as_secs(), self.process.log().trim());
            }
            interrupt.sleep(Duration::from_millis(20))?;
        }
        Ok(())
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// An error if it is no longer there.
    pub(super) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Ends it; an error unless it ends in order.
    pub(super) fn stop(mut self) -> Result<()> {
        self.process.check()?;
        match self.process.stop() {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("the gateway ended with {status} when asked to stop: {}", self.process.log()),
            None => bail!("the gateway did not end when asked to and was killed: {}", self.process.log()),
        }
    }
}

/// haproxy in the first gateway: one thread, TCP, the kernel's splice where it may help.
pub(super) fn haproxy(bed: &Bed, connections: usize, directory: &Path) -> Result<Process> {
    let path = directory.join("haproxy.cfg");
    let text = format!(
        "global\n    nbthread 1\n    maxconn {}\ndefaults\n    mode tcp\n    option splice-auto\n    timeout connect 20s\n    \
         timeout client 60s\n    timeout server 60s\nlisten relay\n    bind {}\n    server far {}\n",
        2 * connections + 100,
        bed.gateway_address()?,
        bed.server_address()?
    );
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let mut program = command("haproxy");
    program.arg("-db").arg("-f").arg(&path);
    let namespace = bed.gateways.first().context("no gateway")?;
    Process::start(namespace, "haproxy", program, &directory.join("haproxy.log"))
}

/// Waits until haproxy takes connections.
pub(super) fn wait_for_listener(interrupt: &Interrupt, bed: &Bed, process: &mut Process) -> Result<()> {
    let namespace = bed.gateways.first().context("no gateway")?;
    let end = Instant::now() + READY;
    let port = bed.gateway_address()?.port();
    while !memory::listens(namespace, port)? {
        process.check()?;
        if Instant::now() > end {
            bail!("haproxy does not listen within {} s: {}", READY.as_secs(), process.log().trim());
        }
        interrupt.sleep(Duration::from_millis(20))?;
    }
    Ok(())
}
