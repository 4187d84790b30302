//! A bond in the scenario of a benchmark: what a daemon has between peers over UDP, where its file says no more than the mode.

use fairspan_core::units::Rate;
use fairspan_live::secure;

/// IPv4 and UDP, below the encryption.
const UDP: usize = 28;
/// What a daemon has and a bond of the simulator has not unless it is said.
const DAEMON: &str = "confirm_mtu = \"100ms\"\ncompress_headers = \"auto\"\nparity = true\n";

/// A channel over a link of the scenario; without a rate it is measured.
pub(super) fn channel(link: &str, rate: Option<Rate>) -> String {
    let overhead = UDP + secure::overhead(false);
    let rate = rate.map_or_else(|| "unlimited".to_owned(), |rate| format!("{}bit", rate.as_bits_per_sec()));
    format!("{{ path = [\"{link}\"], overhead = \"{overhead}B\", rate = \"{rate}\" }}")
}

/// The bond `bond` between the nodes `near` and `far`.
pub(super) fn bond(mode: &str, channels: &[String]) -> String {
    let channels = channels.join(", ");
    format!(
        "\n[[bond]]\nname = \"bond\"\nends = [\"near\", \"far\"]\nmode = \"{mode}\"\n{DAEMON}channels = [{channels}]\n"
    )
}

/// What the simulator calls the congestion control that the kernel calls `cc`: Linux's BBR is version 1.
pub(super) fn law(cc: &str) -> &str {
    if cc == "bbr" { "bbr1" } else { cc }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::bond::{Config, Mode};
    use fairspan_core::options::Words;
    use fairspan_core::queue::{DisciplineConfig, End};
    use fairspan_sim::scenario::File;
    use std::path::Path;

    /// What the simulator makes of the scenario's bond.
    fn simulated(mode: Mode) -> Config {
        let text = format!(
            "duration = \"1s\"\n[[node]]\nname = [\"near\", \"far\"]\n\
             [[link]]\nname = \"path\"\nfrom = \"near\"\nto = \"far\"\nrate = \"1Mbit\"\nframing = \"14B\"\n{}\
             [[flow]]\nname = \"flow\"\nfrom = \"near\"\nto = \"far\"\nkind = \"ftp\"\nvia = \"bond\"\n",
            bond(mode.word(), &[channel("path", None)])
        );
        let file = File::parse_with("x", &text, &[], &mut |_: &str| Err(String::new())).unwrap();
        file.run(0).unwrap().unwrap().scenario.bonds[0].config.clone()
    }

    /// What a daemon makes of a file that says no more than the mode.
    fn real(mode: Mode) -> Config {
        let key = "CHAkNDLJ03Nr1zEkAmUA9xkD2AyDbZ4mtTYvRKfVoEg=";
        let text = format!(
            "[interface]\nname = \"fs0\"\naddress = [\"10.77.0.1/24\"]\nprivate_key = \"{key}\"\n\
             [[peer]]\npublic_key = \"HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=\"\nmode = \"{mode}\"\nallowed_ips = [\"10.77.0.2/32\"]\n\
             [[peer.channel]]\nkind = \"udp\"\nendpoint = \"192.0.2.1:51900\"\n"
        );
        fairspan_live::config::Config::parse(Path::new("x"), &text).unwrap().peers[0].bond.clone()
    }

    #[test]
    fn a_simulated_bond_has_all_that_a_daemons_has_in_each_mode() {
        for word in Mode::WORDS {
            let mode = Mode::from_word(word).unwrap();
            let (mut simulated, mut real) = (simulated(mode), real(mode));
            simulated.channels.clear();
            real.channels.clear();
            // Who shares the bond are the hosts at one of its ends; a scenario has hosts at both, and they share where they send.
            for config in [&mut simulated, &mut real] {
                if let DisciplineConfig::Hosts { by, .. } = &mut config.discipline {
                    *by = End::Source;
                }
            }
            assert_eq!(simulated, real, "mode {word}");
        }
    }
}
