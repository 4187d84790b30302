//! Secrets that stand in wrong configurations, and what of them comes out: nothing.

#[path = "common/child.rs"]
mod child;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

/// Keys that nobody uses: secrets of these tests.
const PRIVATE: &str = "yK3nW8vQ1zT5bR7mX2cF9hJ4dL6pS0aGuE1iOkNwZ0c=";
const PSK: &str = "Q9tVb2LrXw7ZcN4kMs1Hj8DfGy6PuAe3Ro5TiWx0BnY=";
/// A public one.
const PUBLIC: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
/// No output holds so many characters of a secret in a row.
const TELLING: usize = 8;

/// Configurations that are right, each with the two secrets, or one.
fn right() -> [String; 3] {
    let peer = format!(
        "[interface]\nname = \"fs0\"\naddress = [\"10.77.0.1/24\"]\nprivate_key = \"{PRIVATE}\"\n\n\
         [[peer]]\nname = \"hub\"\npublic_key = \"{PUBLIC}\"\npreshared_key = \"{PSK}\"\nallowed_ips = [\"10.77.0.2/32\"]\n\n\
         [[peer.channel]]\nkind = \"udp\"\ndevice = \"eth0\"\nendpoint = \"192.0.2.1:51900\"\nrate = \"100Mbit\"\n"
    );
    let listener = format!(
        "[interface]\nname = \"fs1\"\nlisten_port = 51900\nprivate_key = \"{PRIVATE}\"\nmtu = 1400\n\n\
         [[peer]]\npublic_key = \"{PUBLIC}\"\nallowed_ips = [\"10.78.0.2/32\"]\nmode = \"ordered\"\n"
    );
    let ring = format!(
        "[interface]\nname = \"ring0\"\nlisten_port = 51900\nprivate_key = \"{PRIVATE}\"\n\n\
         [ring]\nnode = 1\nnodes = 3\nrate = \"100Mbit\"\n\n\
         [ring.east]\nkind = \"udp\"\npublic_key = \"{PUBLIC}\"\npreshared_key = \"{PSK}\"\n"
    );
    [peer, listener, ring]
}

/// What people do to a line that holds a secret, and to others.
fn mutations(text: &str) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    for secret in [PRIVATE, PSK].into_iter().filter(|secret| text.contains(secret)) {
        let line = text.lines().find(|line| line.contains(secret)).expect("a line with the secret");
        let name = line.split(' ').next().expect("its setting");
        let quoted = format!("\"{secret}\"");
        let mut with = |other: String| wrong.insert(text.replacen(line, &other, 1));
        // Quotes, and what is instead of them.
        for value in [
            secret.to_owned(),
            format!("\"{secret}"),
            format!("{secret}\""),
            format!("'{secret}"),
            format!("“{secret}”"),
            format!("<{secret}>"),
            format!("[\"{secret}\"]"),
            format!("{{ key = \"{secret}\" }}"),
            format!("[\"{}\", \"{}\"]", &secret[..22], &secret[22..]),
            format!("\"{}\" \"{}\"", &secret[..22], &secret[22..]),
            format!("\"{}\n{}\"", &secret[..22], &secret[22..]),
            format!("\"\"\"\n{}\n{}\n\"\"\" x", &secret[..22], &secret[22..]),
            format!("\"{} {}\"", &secret[..20], &secret[20..]),
            format!("\"{secret}{secret}\""),
            format!("\"{secret}\" {secret}"),
            format!("\"{secret}\\q\""),
            format!("\"{}\"", &secret[..43]),
            format!("\"{}\"", &secret[..30]),
            format!("\"{}\"", &secret[..12]),
            format!("\"{}\"", &secret[5..]),
            format!("\"-{secret}\""),
            format!("\"0x{secret}\""),
            format!("\"{}\"", secret.replace('=', "%3D")),
            format!("\"{}!\"", &secret[..43]),
        ] {
            with(format!("{name} = {value}"));
        }
        // Names, and what stands between name and value.
        for other in [
            "privat_key",
            "private_kee",
            "privatekey",
            "PrivateKey",
            "private-key",
            "Private_Key",
            "key",
            "secret",
            "psk",
            "pre_shared_key",
            "preshared",
            "presharedkey",
            "shared_key",
            "private_key_text",
            "password",
            "pivate_kye",
            "private key",
            "private_key_file",
            "preshared_key_file",
            "identity",
            "k",
        ] {
            with(format!("{other} = {quoted}"));
            with(format!("{other} = {secret}"));
        }
        for between in ["", " ", ": ", " == ", " => ", " =\n", "\t"] {
            with(format!("{name}{between}{quoted}"));
            with(format!("{name}{between}{secret}"));
        }
        with(format!("{line}\n{line}"));
        with(secret.to_owned());
        with(quoted.clone());
        with(format!("{secret} = {name}"));
        with(format!("[{secret}]"));
        with(format!("[interface.{name}]\nvalue = {quoted}"));
        with(format!("{name}_file = \"/etc/fairspan/{secret}\""));
        with(format!("{name}_file = \"{secret}.key\""));
        with(format!("{name}_file = {secret}"));
        with(format!("{line} # {secret}\nnonsense {secret}"));
        // Pasted where something else belongs.
        for other in text.lines().filter(|other| other.contains('=') && !other.contains("_key")) {
            let place = other.split(' ').next().expect("a setting");
            for value in
                [quoted.clone(), secret.to_owned(), format!("[\"{secret}\"]"), format!("\"{}\"", &secret[..43])]
            {
                wrong.insert(text.replacen(other, &format!("{place} = {value}"), 1));
            }
        }
        for section in ["[interface]", "[[peer]]", "[[peer.channel]]", "[ring]", "[ring.east]"] {
            if text.contains(section) && !text.contains(&format!("{section}\n{line}")) {
                let moved = text.replacen(line, "", 1).replacen(section, &format!("{section}\n{line}"), 1);
                wrong.insert(moved.clone());
                wrong.insert(moved.replacen(&quoted, secret, 1));
            }
        }
        wrong.insert(text[..text.find(secret).expect("the secret") + 20].to_owned());
        wrong.insert(text.replacen("[interface]", &format!("[{secret}]\n[interface]"), 1));
    }
    wrong.remove(text);
    wrong
}

fn fairspan(args: &[&str], directory: &Path) -> Output {
    child::output(
        Command::new(env!("CARGO_BIN_EXE_fairspan"))
            .args(args)
            .current_dir(directory)
            .env("STATE_DIRECTORY", directory),
    )
}

/// What of the secrets an output tells.
fn told(output: &Output) -> Option<String> {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let secrets = [PRIVATE, PSK].into_iter().flat_map(|secret| secret.as_bytes().windows(TELLING));
    secrets.map(String::from_utf8_lossy).find(|part| text.contains(&**part)).map(|part| format!("`{part}` in: {text}"))
}

#[test]
fn no_command_tells_a_secret_of_a_wrong_configuration() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut wrong, mut good) = (0, 0);
    for (number, text) in right().iter().flat_map(|text| mutations(text)).enumerate() {
        let file = format!("{number}.toml");
        std::fs::write(directory.path().join(&file), &text).expect("written");
        let plain = fairspan(&["check", &file], directory.path());
        assert_eq!(told(&plain), None, "{text}");
        let json = fairspan(&["check", "--json", &file], directory.path());
        assert_eq!(told(&json), None, "{text}");
        assert_eq!(json.status.code(), plain.status.code());
        if plain.status.success() {
            // The secret stands where it may: another key, or a setting twice over.
            good += 1;
            continue;
        }
        wrong += 1;
        assert_eq!(plain.status.code(), Some(2), "{text}");
        let command: &[&str] = if text.contains("[ring]") { &["ring", "up"] } else { &["up"] };
        let up = fairspan(&[command, &[&file]].concat(), directory.path());
        assert_eq!(up.status.code(), Some(2), "{text}\n{up:?}");
        assert_eq!(told(&up), None, "{text}");
    }
    println!("{wrong} wrong configurations, {good} others");
    assert!(wrong >= 200 && good * 10 < wrong, "{wrong} wrong ones and {good} others");
}

#[test]
fn no_command_tells_a_secret_among_its_arguments() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = format!("/run/{PRIVATE}.sock");
    for args in [
        &["check", PRIVATE][..],
        &["check", "--json", PRIVATE],
        &["up", PRIVATE],
        &["ring", "up", PRIVATE],
        &["check", "x.toml", PRIVATE],
        &["pubkey", PRIVATE],
        &["keygen", PRIVATE],
        &["status", "--socket", &socket],
        &["up", "--log", PRIVATE, "x.toml"],
        &[PRIVATE],
    ] {
        let output = fairspan(args, directory.path());
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(told(&output), None, "{args:?}");
    }
}

#[test]
fn keys_that_others_may_read_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let set_mode = |file: &str, mode| {
        let path = if file.is_empty() { directory.path().to_owned() } else { directory.path().join(file) };
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
    };
    let [inside, ..] = right();
    let beside = inside.replacen(&format!("private_key = \"{PRIVATE}\""), "private_key_file = \"site.key\"", 1);
    let beside = beside.replacen(&format!("preshared_key = \"{PSK}\"\n"), "", 1);
    for (file, text) in [("inside.toml", &inside), ("beside.toml", &beside), ("site.key", &PRIVATE.to_owned())] {
        std::fs::write(directory.path().join(file), text).expect("written");
    }
    let warned = |file: &str| {
        let output = fairspan(&["check", file], directory.path());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for file in ["inside.toml", "site.key"] {
        let config = if file == "site.key" { "beside.toml" } else { file };
        for (mode, is_told) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o644, true)] {
            set_mode(file, mode);
            let text = warned(config);
            assert_eq!(
                text.contains(&format!("(mode {mode:04o}): `chmod 600` it")),
                is_told,
                "{file} {mode:o}: {text}"
            );
        }
        set_mode(file, 0o600);
        for (mode, is_told) in [(0o755, false), (0o1777, false), (0o777, true), (0o775, true)] {
            set_mode("", mode);
            let text = warned(config);
            assert_eq!(text.contains("others may replace it in its folder"), is_told, "{file} {mode:o}: {text}");
        }
        set_mode("", 0o700);
    }
    // A file without a key may be read by all.
    set_mode("beside.toml", 0o644);
    assert!(!warned("beside.toml").contains("chmod"));
}
