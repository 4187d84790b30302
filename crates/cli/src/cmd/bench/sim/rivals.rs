//! The simulators that stand beside ours, with the same scenarios written for them (`benches/rivals`).
//!
//! ns-2 interprets its scenarios; ns-3's are built once, with the machine's compiler, and kept.

use crate::testbed::{command, installed, rivals_folder};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DUMBBELL: &str = include_str!("../../../../../../benches/rivals/ns2/dumbbell.tcl");
const LINE: &str = include_str!("../../../../../../benches/rivals/ns2/cbr-line.tcl");
const MULTIPATH: &str = include_str!("../../../../../../benches/rivals/ns2/multipath-40g.tcl");
const NS3: &str = include_str!("../../../../../../benches/rivals/ns3/cross-check.cc");
/// What ns-3's scenarios are linked with.
const LIBRARIES: [&str; 6] = ["applications", "internet", "traffic-control", "point-to-point", "network", "core"];

/// A simulator of another project, ready to run.
#[derive(Clone, Debug)]
pub(crate) enum Rival {
    /// The folder of its scenarios. With `lean`, packets carry only the headers that the scenario needs.
    Ns2 { scenarios: PathBuf, lean: bool },
    /// The program that has them all.
    Ns3 { program: PathBuf },
}

impl Rival {
    /// The JSON key.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Rival::Ns2 { lean: false, .. } => "ns2",
            Rival::Ns2 { lean: true, .. } => "ns2, needed headers only",
            Rival::Ns3 { .. } => "ns3",
        }
    }

    /// Whether it stands in the JSON document: what apt installs, as it comes.
    pub(crate) fn is_reported(&self) -> bool {
        !matches!(self, Rival::Ns2 { lean: true, .. })
    }

    /// Those that this machine has; says which it lacks, and why.
    pub(crate) fn find(directory: &Path) -> Result<Vec<Rival>> {
        let mut found = Vec::new();
        if installed("ns") {
            let scenarios = directory.join("ns2");
            std::fs::create_dir(&scenarios)?;
            for (name, text) in [("dumbbell", DUMBBELL), ("cbr-line", LINE), ("multipath-40g", MULTIPATH)] {
                std::fs::write(scenarios.join(format!("{name}.tcl")), text)?;
            }
            for lean in [false, true] {
                found.push(Rival::Ns2 { scenarios: scenarios.clone(), lean });
            }
        } else {
            eprintln!("ns2: not installed, left out (`make rivals` installs it, or `apt-get install ns2`)");
        }
        match build_ns3(directory) {
            Ok(program) => found.push(Rival::Ns3 { program }),
            Err(error) => eprintln!("ns3: left out: {error:#}"),
        }
        Ok(found)
    }

    /// The command that runs a scenario.
    pub(crate) fn command(&self, scenario: &str) -> Command {
        match self {
            Rival::Ns2 { scenarios, lean } => {
                let mut command = command("ns");
                command.arg(format!("{scenario}.tcl")).current_dir(scenarios).env_remove("LEAN");
                if *lean {
                    command.env("LEAN", "1");
                }
                command
            }
            Rival::Ns3 { program } => {
                let mut command = Command::new(program);
                command.arg(scenario);
                command
            }
        }
    }
}

/// Gives the program with ns-3's scenarios, built if this source was not built before.
fn build_ns3(directory: &Path) -> Result<PathBuf> {
    if !["/usr/include", "/usr/local/include"]
        .iter()
        .any(|include| Path::new(include).join("ns3/core-module.h").exists())
    {
        bail!("not installed (`make rivals` installs it, or `apt-get install libns3-dev g++`)");
    }
    if !installed("g++") {
        bail!("there is no compiler to build its scenarios with (`apt-get install g++`)");
    }
    let name = format!("ns3-cross-check-{:016x}", fingerprint(NS3));
    let folder =
        rivals_folder().filter(|folder| std::fs::create_dir_all(folder).is_ok()).unwrap_or_else(|| directory.into());
    let program = folder.join(&name);
    if program.exists() {
        return Ok(program);
    }
    eprintln!("ns3: building its scenarios, once");
    let source = directory.join("cross-check.cc");
    std::fs::write(&source, NS3)?;
    let built = folder.join(format!("{name}.{}", std::process::id()));
    let mut command = Command::new("g++");
    command.args(["-std=c++17", "-O2", "-o"]).arg(&built).arg(&source);
    command.args(LIBRARIES.iter().map(|library| format!("-lns3-{library}")));
    let output = command.stdin(Stdio::null()).output().context("cannot run g++")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("its scenarios cannot be built: {}", said.lines().find(|line| line.contains("error")).unwrap_or(&said));
    }
    std::fs::rename(&built, &program)?;
    Ok(program)
}

/// FNV-1a: tells one source from another.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
