//! `fairspan completions` and `fairspan man`: what shells and `man` want to know, from the table of commands that `--help` shows too.

use crate::exit::{BadInput, Outcome};
use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The program's name, in both.
const PROGRAM: &str = "fairspan";

/// Print the completions of a shell: commands and options that Tab completes
///
/// In bash, for one user: fairspan completions bash > ~/.local/share/bash-completion/completions/fairspan
#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Print a manual page, or write those of all commands into a folder
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Of which command, such as `trace flows`; default: of the program
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// Write one page for each command, such as fairspan-trace-flows.1, into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints completions.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<Outcome> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, PROGRAM, &mut text);
    io::stdout().write_all(&text)?;
    Ok(Outcome::Done)
}

/// Prints or writes manual pages.
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<Outcome> {
    let pages = pages(command);
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for page in &pages {
            page.write(folder)?;
        }
        return Ok(Outcome::Done);
    }
    let name = [&[PROGRAM.to_owned()], &args.command[..]].concat().join("-");
    let page = pages.iter().find(|page| page.name == name);
    let page = page.ok_or_else(|| BadInput(format!("there is no command `{}`", args.command.join(" "))))?;
    io::stdout().write_all(&page.text)?;
    Ok(Outcome::Done)
}

/// One manual page.
struct Page {
    name: String,
    text: Vec<u8>,
}

impl Page {
    fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(format!("{}.1", self.name));
        std::fs::write(&path, &self.text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Those of the program and all its commands that `--help` shows.
fn pages(command: Command) -> Vec<Page> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, PROGRAM, &mut pages);
    pages
}

fn add(command: &Command, name: &str, pages: &mut Vec<Page>) {
    let mut text = Vec::new();
    // A page is called as its file is.
    let page = clap_mangen::Man::new(command.clone()).title(name).manual("Fairspan");
    // Nothing that is written into memory fails.
    if page.render(&mut text).is_ok() {
        pages.push(Page { name: name.to_owned(), text });
    }
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add(below, &format!("{name}-{}", below.get_name()), pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn sample() -> Command {
        Command::new("fairspan")
            .about("Makes links act as one")
            .subcommand(Command::new("trace").about("Captures").subcommand(
                Command::new("flows").about("How many flows").arg(Arg::new("timeout").long("timeout").help("Seconds")),
            ))
            .subcommand(Command::new("helper").hide(true))
    }

    #[test]
    fn each_command_that_is_shown_has_a_page_with_its_options() {
        let pages = pages(sample());
        let names: Vec<_> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names, ["fairspan", "fairspan-trace", "fairspan-trace-flows"]);
        let text = String::from_utf8_lossy(&pages[2].text);
        assert!(text.contains("timeout") && text.contains("How many flows"), "{text}");
        assert!(text.contains(".TH fairspan\\-trace\\-flows") || text.contains(".TH fairspan-trace-flows"), "{text}");
    }
}
