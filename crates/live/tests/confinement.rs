//! What a process may still do once it is confined as a daemon. One test, as that holds for the whole process.

use fairspan_live::config::Config;
use fairspan_live::confinement::{self, Holds};
use fairspan_live::secure::{OsEntropy, PrivateKey};
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::process::Command;

fn key() -> PrivateKey {
    PrivateKey::generate(&mut OsEntropy::new())
}

#[test]
fn what_no_daemon_does_fails_in_every_thread_and_what_one_does_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("state");
    let other = folder.path().join("other");
    fs::write(&other, "precious").expect("written");
    let text = format!(
        "[interface]\nname = \"fs0\"\ncontrol_socket = \"{0}/fs0.sock\"\nstate_dir = \"{0}\"\nlisten_port = 51900\n\
         private_key = \"{1}\"\n[[peer]]\npublic_key = \"{2}\"\nallowed_ips = [\"10.77.0.1/32\"]\n",
        own.display(),
        key().to_base64().as_str(),
        key().public_key()
    );
    let config = Config::parse(&folder.path().join("fs0.toml"), &text).expect("a configuration");
    let before = Command::new("true").status();
    assert!(before.is_ok(), "{before:?}");
    // Begun before, and bound as much.
    let (ask, asked) = std::sync::mpsc::channel::<()>();
    let waits = std::thread::spawn(move || {
        asked.recv().expect("asked");
        rustix::process::getpgid(None).map_err(|errno| errno.kind())
    });
    let held = confinement::enter(&config).expect("confined");
    assert_eq!(held.seccomp.holds, Holds::On, "{held:?}");

    let forbidden = |what: &str, kind: ErrorKind| assert_eq!(kind, ErrorKind::PermissionDenied, "{what}");
    forbidden("a program", Command::new("true").status().expect_err("no program").kind());
    let group = || rustix::process::getpgid(None).map_err(|errno| errno.kind());
    forbidden("a system call", group().expect_err("not listed"));
    forbidden("in a later thread", std::thread::spawn(group).join().expect("a thread").expect_err("not listed"));
    ask.send(()).expect("it waits");
    forbidden("in an earlier thread", waits.join().expect("a thread").expect_err("not listed"));
    let bluetooth = socket2::Socket::new(socket2::Domain::from(libc::AF_BLUETOOTH), socket2::Type::RAW, None);
    forbidden("another family", bluetooth.expect_err("not listed").kind());

    UdpSocket::bind("127.0.0.1:0").expect("a socket");
    fs::write(own.join("memory"), "kept").expect("a file of its own");
    fs::rename(own.join("memory"), own.join("renamed")).expect("renamed");
    assert_eq!(fs::read_to_string(own.join("renamed")).expect("read"), "kept");
    match held.landlock.holds {
        Holds::Off => println!("skipped: files, as {}", held.landlock.detail),
        _ => {
            forbidden("a file of others", fs::read_to_string(&other).expect_err("out of reach").kind());
            forbidden("a new file", fs::write(folder.path().join("new"), "").expect_err("out of reach").kind());
            forbidden("users", fs::read_to_string("/etc/passwd").expect_err("out of reach").kind());
        }
    }
    if held.landlock.holds == Holds::On {
        forbidden("a TCP port", TcpListener::bind("127.0.0.1:0").expect_err("out of reach").kind());
    }
}
