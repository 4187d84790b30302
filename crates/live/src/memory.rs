//! What a daemon keeps between its runs: the timestamps of handshakes, in a small file for each private key.
//!
//! A thread of its own writes them (`state_file`), since a slow disk must not hold up packets.
//!
//! | line | meaning |
//! |---|---|
//! | `fairspan memory 1` | what the file is |
//! | `used STAMP` | no handshake was begun with a greater timestamp |
//! | `heard KEY STAMP` | the greatest timestamp of the peer with this public key |

use crate::folders;
use crate::secure::{Memory, Past, PublicKey};
use crate::state_file;
use crate::system::system;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

const TITLE: &str = "fairspan memory 1";

/// Says why nothing can be kept in `directory`, or not safely, and what to do, without touching anything.
pub(crate) fn problem(directory: &Path) -> Option<String> {
    // What is not there yet is made in what is.
    let full = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let there = full.ancestors().find(|path| path.exists()).unwrap_or(&full);
    let error = match access(there, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !there.is_dir() => Errno::NOTDIR,
        Ok(()) => return exposed(directory),
        // Another user than root checks for a daemon that runs as another.
        Err(Errno::ACCESS) if !geteuid().is_root() => return exposed(directory),
        Err(error) => error,
    };
    Some(refused(directory, &error.into()))
}

/// Why what is kept in `directory` may not be what this daemon wrote.
fn exposed(directory: &Path) -> Option<String> {
    let problem = folders::exposure(directory)?;
    Some(format!(
        "{problem}; they could take away what is kept in `{}` between runs, so that recorded handshakes seem new",
        directory.display()
    ))
}

fn refused(directory: &Path, error: &io::Error) -> String {
    format!(
        "`{}` cannot be written: {error}; nothing is kept there between runs, so handshakes that were recorded before a \
         start are known as old only once their peer has called: make it writable, or name another directory",
        directory.display()
    )
}

/// Nanoseconds since 1970, by the wall clock.
fn wall() -> u64 {
    u64::try_from(system().wall().as_nanos()).unwrap_or(u64::MAX)
}

/// Keeps the memory of one daemon.
pub(crate) struct Keeper {
    file: PathBuf,
    /// To the thread that writes, and what it has written.
    writer: Option<SyncSender<Memory>>,
    tell: Sender<Memory>,
    done: Receiver<Memory>,
}

impl Keeper {
    /// Finds what former processes with this key have kept, and notes what this one may use. What cannot be kept is told in
    /// the log.
    pub(crate) fn open(directory: &Path, key: &PublicKey) -> (Option<Keeper>, Past) {
        let name: String = key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let file = directory.join(name);
        let found = read(&file).unwrap_or_else(|error| {
            tracing::warn!(file = %file.display(), %error, "what was kept of former runs is lost");
            Memory::default()
        });
        if let Some(problem) = exposed(directory) {
            tracing::warn!("interface.state_dir: {problem}");
        }
        let past = Past::remembered(wall(), found);
        match folders::make(directory, 0o700)
            .and_then(|_| write(&file, &past.to_keep()))
            .and_then(|()| Keeper::start(file))
        {
            Ok(keeper) => (Some(keeper), past),
            Err(error) => {
                tracing::warn!("interface.state_dir: {}", refused(directory, &error));
                (None, past.unkept())
            }
        }
    }

    fn start(file: PathBuf) -> io::Result<Keeper> {
        let (tell, done) = channel();
        let writer = if system().has_threads() {
            let (todo, work) = sync_channel::<Memory>(1);
            let (path, tell) = (file.clone(), tell.clone());
            let write_all = move || work.iter().for_each(|memory| write_and_tell(&path, memory, &tell));
            thread::Builder::new().name("memory".into()).spawn(write_all)?;
            Some(todo)
        } else {
            None
        };
        Ok(Keeper { file, writer, tell, done })
    }

    /// Begins to keep `memory`; while another is still being written it is left out, and its time comes again.
    pub(crate) fn keep(&self, memory: Memory) {
        match &self.writer {
            Some(writer) => drop(writer.try_send(memory)),
            None => write_and_tell(&self.file, memory, &self.tell),
        }
    }

    /// What has been kept since the last call, the newest.
    pub(crate) fn poll_kept(&self) -> Option<Memory> {
        self.done.try_iter().last()
    }

    /// Keeps the last memory of a process that ends.
    pub(crate) fn close(self, memory: &Memory) {
        drop((self.writer, self.tell));
        // The thread is done with what it had when it tells no more.
        while self.done.recv().is_ok() {}
        if let Err(error) = write(&self.file, memory) {
            tracing::warn!(file = %self.file.display(), %error, "cannot be written");
        }
    }
}

fn write_and_tell(file: &Path, memory: Memory, tell: &Sender<Memory>) {
    match write(file, &memory) {
        // Nobody listens to what is written while the daemon ends.
        Ok(()) => drop(tell.send(memory)),
        Err(error) => tracing::warn!(file = %file.display(), %error, "cannot be written; tried again in a minute"),
    }
}

/// The memory in `file`; an empty one where there is no file.
fn read(file: &Path) -> io::Result<Memory> {
    let Some(text) = state_file::read(file)? else { return Ok(Memory::default()) };
    parse(&text).ok_or_else(|| state_file::foreign("this is no memory"))
}

fn parse(text: &str) -> Option<Memory> {
    let mut memory = Memory::default();
    let mut lines = text.strip_suffix('\n')?.lines();
    if lines.next()? != TITLE {
        return None;
    }
    memory.used = lines.next()?.strip_prefix("used ")?.parse().ok()?;
    for line in lines {
        let (key, stamp) = line.strip_prefix("heard ")?.split_once(' ')?;
        memory.heard.insert(key.parse().ok()?, stamp.parse().ok()?);
    }
    Some(memory)
}

fn write(file: &Path, memory: &Memory) -> io::Result<()> {
    let mut text = format!("{TITLE}\nused {}\n", memory.used);
    // Another daemon with this key may have heard other peers, or the same ones later.
    let mut heard = read(file).unwrap_or_default().heard;
    for (key, stamp) in &memory.heard {
        let kept = heard.entry(*key).or_default();
        *kept = (*kept).max(*stamp);
    }
    for (key, stamp) in &heard {
        text.push_str(&format!("heard {key} {stamp}\n"));
    }
    state_file::replace(file, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::PrivateKey;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn key(byte: u8) -> PublicKey {
        PrivateKey::from_bytes([byte; 32]).public_key()
    }

    #[test]
    fn what_is_kept_is_found_by_the_next_process_and_by_no_other_key() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("state");
        let (keeper, past) = Keeper::open(&directory, &key(1));
        let mut memory = past.to_keep();
        assert!(memory.used > wall() && memory.heard.is_empty());
        // Killed at once: what was reserved is never used again.
        drop(keeper);
        let (keeper, next) = Keeper::open(&directory, &key(1));
        let keeper = keeper.expect("a directory that can be written");
        assert!(next.to_keep().used > memory.used);
        // Kept in between, and at the end.
        memory.used += 1 << 40;
        memory.heard.insert(key(2), 77);
        keeper.keep(memory.clone());
        let kept = std::iter::repeat_with(|| keeper.done.recv_timeout(std::time::Duration::from_secs(60))).next();
        assert_eq!(kept, Some(Ok(memory.clone())));
        memory.heard.insert(key(3), u64::MAX);
        keeper.close(&memory);
        assert_eq!(read(&keeper_file(&directory, 1)).unwrap(), memory);
        assert_eq!(fs::metadata(keeper_file(&directory, 1)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        let (_, again) = Keeper::open(&directory, &key(1));
        assert_eq!(again.to_keep().heard, memory.heard);
        assert!(again.to_keep().used > memory.used, "further on than the clock alone would be");
        let (_, other) = Keeper::open(&directory, &key(9));
        assert!(other.to_keep().heard.is_empty() && other.to_keep().used < memory.used);
        let names = fs::read_dir(&directory).unwrap().count();
        assert_eq!(names, 2, "nothing else is left in the directory");
    }

    fn keeper_file(directory: &Path, byte: u8) -> PathBuf {
        directory.join(key(byte).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    #[test]
    fn a_file_that_is_cut_short_or_foreign_is_no_memory_and_is_written_anew() {
        let directory = tempfile::tempdir().unwrap();
        let file = keeper_file(directory.path(), 1);
        let memory = Memory { used: 5, heard: [(key(2), 7)].into() };
        write(&file, &memory).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(parse(&text), Some(memory.clone()));
        for end in 0..text.len() {
            let cut = parse(&text[..end]);
            assert!(cut.is_none_or(|cut| cut.heard.is_empty() && cut.used == memory.used), "cut at {end}");
        }
        for foreign in ["", "hello\n", "fairspan memory 2\nused 5\n", "fairspan memory 1\nused -5\n"] {
            fs::write(&file, foreign).unwrap();
            assert!(read(&file).is_err());
            let (keeper, past) = Keeper::open(directory.path(), &key(1));
            assert!(keeper.is_some());
            assert_eq!(read(&file).unwrap(), past.to_keep());
        }
    }

    #[test]
    fn two_daemons_with_one_key_forget_nothing_that_either_of_them_heard() {
        let directory = tempfile::tempdir().unwrap();
        let [(first, _), (second, _)] = [(); 2].map(|()| Keeper::open(directory.path(), &key(1)));
        let heard = |peers: &[(u8, u64)]| Memory {
            used: 9,
            heard: peers.iter().map(|(peer, stamp)| (key(*peer), *stamp)).collect(),
        };
        first.unwrap().close(&heard(&[(2, 70), (3, 50)]));
        second.unwrap().close(&heard(&[(3, 40), (4, 60)]));
        assert_eq!(read(&keeper_file(directory.path(), 1)).unwrap(), heard(&[(2, 70), (3, 50), (4, 60)]));
    }

    #[test]
    fn a_link_in_place_of_the_new_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (file, victim) = (directory.path().join("kept"), directory.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, file.with_extension("new")).unwrap();
        write(&file, &Memory::default()).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(read(&file).unwrap(), Memory::default());
    }

    #[test]
    fn what_others_put_in_the_place_of_a_file_is_not_read() {
        use rustix::fs::{CWD, FileType, Mode, chown, mknodat};
        let directory = tempfile::tempdir().unwrap();
        let file = keeper_file(directory.path(), 1);
        let elsewhere = directory.path().join("elsewhere");
        let memory = Memory { used: u64::MAX - 1, heard: [(key(2), 7)].into() };
        write(&elsewhere, &memory).unwrap();
        // A link, and a pipe at whose other end nobody is.
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert!(read(&file).is_err());
        fs::remove_file(&file).unwrap();
        mknodat(CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        assert!(read(&file).is_err());
        let (keeper, past) = Keeper::open(directory.path(), &key(1));
        assert!(keeper.is_some() && past.to_keep().used < memory.used, "it is written anew");
        assert_eq!(read(&elsewhere).unwrap(), memory);
        if geteuid().is_root() {
            chown(&elsewhere, Some(rustix::fs::Uid::from_raw(65534)), None).unwrap();
            assert!(read(&elsewhere).is_err(), "another user's");
        }
    }

    #[test]
    fn a_folder_that_others_may_write_or_replace_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let (around, folder) = (directory.path().join("around"), directory.path().join("around/state"));
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir(&around).unwrap();
        // Of the folder around it, before there is one; of both, once there is.
        for (mode, is_told) in [(0o755, false), (0o775, true), (0o777, true), (0o1777, true)] {
            set(&around, mode);
            assert_eq!(problem(&folder).is_some(), is_told, "{mode:o}");
        }
        fs::create_dir(&folder).unwrap();
        for (outer, inner, told) in [
            (0o755, 0o700, None),
            (0o1777, 0o755, None),
            (0o777, 0o700, Some(&around)),
            (0o755, 0o770, Some(&folder)),
            (0o755, 0o1777, Some(&folder)),
        ] {
            set(&around, outer);
            set(&folder, inner);
            let said = problem(&folder);
            assert_eq!(said.is_some(), told.is_some(), "{outer:o} {inner:o}: {said:?}");
            let named = told.map(|path| format!("others may write in `{}`", path.display()));
            assert!(said.is_none_or(|said| said.contains(&named.unwrap()) && said.contains("chmod go-w")));
        }
    }

    #[test]
    fn where_nothing_can_be_kept_the_daemon_goes_on_and_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let occupied = directory.path().join("file");
        fs::write(&occupied, "").unwrap();
        let (keeper, past) = Keeper::open(&occupied.join("state"), &key(1));
        assert!(keeper.is_none());
        assert_eq!(past.to_keep().used, u64::MAX, "nothing is held back where nothing is kept");
        let said = problem(&occupied.join("state")).expect("a problem");
        assert!(said.contains("Not a directory") && said.contains("name another directory"), "{said}");
        assert_eq!(problem(&directory.path().join("a/b")), None, "what is not there yet is made");
        assert_eq!(problem(Path::new("not-there-yet")), None, "a path may be relative");
    }
}
