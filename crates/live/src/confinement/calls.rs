//! The system calls that stay with a daemon (seccomp): all others fail with EPERM, in all threads, and are told in the log.
//!
//! Source: seccomp(2). What stays follows from what the configuration has the daemon do. No process is ever begun: `clone`
//! makes threads only, and the newer `clone3`, whose arguments no filter can see, seems not to exist, upon which the C library
//! takes `clone`.
//!
//! A refused call is told by a signal ([`crate::sys::refused`]). The C library holds off all signals while it begins a thread
//! or a process, and the kernel ends a process that holds off this one; so calls that begin something fail without it.

use super::held::{ConfinementError, Held, Holds};
use super::needs::Needs;
use crate::config::Config;
use crate::sys::refused;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::env::consts::ARCH;

/// What every daemon does: waiting, its clients, the host's network, memory, time, its end.
const ALL: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_shutdown,
    libc::SYS_fcntl,
    // Files: what is left of them is Landlock's to say.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_fchmodat,
    libc::SYS_getcwd,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    // musl's for the same: a program that gives up (abort) says so by a signal.
    #[cfg(target_env = "musl")]
    libc::SYS_tkill,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_geteuid,
    libc::SYS_capget,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// What the C library uses on older architectures for the same.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_mkdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_chmod,
    libc::SYS_accept,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Files that it reads and keeps: settings of the kernel, timestamps of handshakes, a recording.
const FILES: &[libc::c_long] = &[libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_lseek];

/// A page with a history of links: the file lies where it is needed.
const PAGE: &[libc::c_long] =
    &[libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_flock];

/// Threads.
const THREADS: &[libc::c_long] = &[
    libc::SYS_eventfd2,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_sysinfo,
    libc::SYS_prlimit64,
    libc::SYS_membarrier,
];
/// What a thread says of itself: its name, and those of its memory.
const PRCTL: [libc::c_int; 2] = [libc::PR_SET_NAME, libc::PR_SET_VMA];

/// Datagrams; the kernel's release says what their sockets can do.
const UDP: &[libc::c_long] =
    &[libc::SYS_sendmsg, libc::SYS_sendmmsg, libc::SYS_recvmsg, libc::SYS_recvmmsg, libc::SYS_uname];

/// A gateway that splits connections: pipes between sockets, and packets in batches.
const SPLITS: &[libc::c_long] = &[libc::SYS_pipe2, libc::SYS_splice, libc::SYS_recvmmsg];
/// What it asks of connections: what is in their buffers.
const SPLIT_IOCTLS: &[u64] = &[libc::TIOCOUTQ as _, libc::FIONREAD as _, crate::sys::tcp::SIOCOUTQNSD];

/// Frames.
const FRAMES: &[libc::c_long] = &[libc::SYS_sendmmsg];

/// Calls that begin a process.
#[cfg(target_arch = "x86_64")]
const PROCESSES: &[libc::c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const PROCESSES: &[libc::c_long] = &[];

/// Requests to devices and sockets that every daemon makes: those of its own interface, which device has a name, and not to
/// wait.
const IOCTLS: &[u64] = &[
    libc::FIONBIO as _,
    libc::SIOCGIFINDEX as _,
    libc::TUNSETIFF as _,
    libc::TUNSETOFFLOAD as _,
    libc::TUNSETVNETHDRSZ as _,
];
/// What one with frames asks of devices.
const FRAME_IOCTLS: &[u64] =
    &[libc::SIOCGIFHWADDR as _, libc::SIOCGIFMTU as _, libc::SIOCGIFFLAGS as _, libc::SIOCETHTOOL as _];

/// Leaves these calls and no others, to all threads that there are and will be.
pub(super) fn restrict(config: &Config) -> Result<Held, ConfinementError> {
    let Ok(arch) = TargetArch::try_from(ARCH) else {
        return Ok(Held::new(Holds::Off, format!("no filter is known for {ARCH}")));
    };
    let refused = |problem: String| ConfinementError::Refused { what: "seccomp", problem };
    let needs = Needs::of(config);
    let listed = listed(&needs).map_err(|error| refused(error.to_string()))?;
    let count = listed.len();
    let programs = programs(arch, &needs, listed).map_err(|error| refused(error.to_string()))?;
    refused::fail_refused_calls().map_err(|error| refused(error.to_string()))?;
    for program in &programs {
        match apply_filter_all_threads(program) {
            Ok(()) => {}
            Err(seccompiler::Error::Seccomp(error))
                if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) =>
            {
                return Ok(Held::new(Holds::Off, "this kernel has no seccomp filters"));
            }
            Err(error) => return Err(refused(error.to_string())),
        }
    }
    Ok(Held::new(Holds::On, format!("{count} system calls")))
}

/// Calls, each with conditions of which one has to hold, if there are any.
type Rules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

/// Of several programs that match the kernel takes the strictest; a signal is stricter than an error.
fn programs(arch: TargetArch, needs: &Needs, listed: Rules) -> Result<[BpfProgram; 3], BackendError> {
    let errno = |errno: libc::c_int| SeccompAction::Errno(errno.unsigned_abs());
    let told = if refused::KNOWN { SeccompAction::Trap } else { errno(libc::EPERM) };
    let no_clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let no_clone3 = SeccompFilter::new(no_clone3, SeccompAction::Allow, errno(libc::ENOSYS), arch)?;
    let begins_none = SeccompFilter::new(begins(needs)?, SeccompAction::Allow, errno(libc::EPERM), arch)?;
    // Those are refused already.
    let silent = [libc::SYS_clone3, libc::SYS_clone].iter().chain(PROCESSES).map(|call| (*call, Vec::new()));
    let listed = SeccompFilter::new(listed.into_iter().chain(silent).collect(), told, SeccompAction::Allow, arch)?;
    Ok([no_clone3.try_into()?, begins_none.try_into()?, listed.try_into()?])
}

/// The calls that would begin a process, and a thread where none is needed.
fn begins(needs: &Needs) -> Result<Rules, BackendError> {
    let mut rules: Rules = PROCESSES.iter().map(|call| (*call, Vec::new())).collect();
    let process = match needs.threads {
        true => vec![masked(0, libc::CLONE_THREAD, 0)?],
        false => Vec::new(),
    };
    rules.insert(libc::SYS_clone, process);
    Ok(rules)
}

fn listed(needs: &Needs) -> Result<Rules, BackendError> {
    let groups = [
        (ALL, true),
        (OLDER, true),
        (FILES, needs.files),
        (THREADS, needs.threads),
        (PAGE, needs.served[1].is_some()),
        (UDP, needs.udp),
        (FRAMES, needs.frames),
        (SPLITS, needs.splits),
    ];
    let calls = groups.into_iter().filter(|(_, needed)| *needed).flat_map(|(calls, _)| calls);
    let mut rules: Rules = calls.map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, sockets(needs)?);
    // No memory of the process becomes a program.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![masked(2, libc::PROT_EXEC, 0)?]);
    }
    let carrier = if needs.is_bond { &[crate::sys::TUNSETCARRIER][..] } else { &[] };
    let frames = if needs.frames { FRAME_IOCTLS } else { &[] };
    let splits = if needs.splits { SPLIT_IOCTLS } else { &[] };
    let requests = IOCTLS.iter().chain(frames).chain(carrier).chain(splits);
    rules.insert(libc::SYS_ioctl, requests.map(|request| all_of(&[(1, *request)])).collect::<Result<_, _>>()?);
    if needs.splits && !needs.threads {
        // As many descriptors as may be, and no other limit.
        rules.insert(libc::SYS_prlimit64, vec![all_of(&[(0, 0), (1, libc::RLIMIT_NOFILE as _)])?]);
    }
    if needs.threads {
        let one = |option: &libc::c_int| all_of(&[(0, u64::from(option.unsigned_abs()))]);
        rules.insert(libc::SYS_prctl, PRCTL.iter().map(one).collect::<Result<_, _>>()?);
        rules.insert(libc::SYS_socketpair, vec![all_of(&[(0, libc::AF_UNIX as u64)])?]);
    }
    Ok(rules)
}

/// The sockets that a daemon opens: a family each, and what of it.
fn sockets(needs: &Needs) -> Result<Vec<SeccompRule>, BackendError> {
    let kind = |family: libc::c_int, kind: libc::c_int| {
        let family = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family as u64)?;
        // Above the kind stand flags.
        let kind = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(0xf), kind as u64)?;
        SeccompRule::new(vec![family, kind])
    };
    let mut rules = vec![
        all_of(&[(0, libc::AF_UNIX as u64)])?,
        all_of(&[(0, libc::AF_NETLINK as u64), (2, libc::NETLINK_ROUTE as u64)])?,
        all_of(&[(0, libc::AF_NETLINK as u64), (2, libc::NETLINK_NETFILTER as u64)])?,
    ];
    if needs.udp {
        rules.push(kind(libc::AF_INET, libc::SOCK_DGRAM)?);
        rules.push(kind(libc::AF_INET6, libc::SOCK_DGRAM)?);
    }
    if needs.tcp {
        rules.push(kind(libc::AF_INET, libc::SOCK_STREAM)?);
        rules.push(kind(libc::AF_INET6, libc::SOCK_STREAM)?);
    }
    if needs.frames {
        rules.push(kind(libc::AF_PACKET, libc::SOCK_RAW)?);
    }
    for served in needs.served.into_iter().chain([needs.webhook]).flatten() {
        rules.push(kind(if served.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }, libc::SOCK_STREAM)?);
    }
    Ok(rules)
}

/// Holds where all these arguments, each with its number, are these.
fn all_of(arguments: &[(u8, u64)]) -> Result<SeccompRule, BackendError> {
    let is =
        |(number, value): &(u8, u64)| SeccompCondition::new(*number, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *value);
    SeccompRule::new(arguments.iter().map(is).collect::<Result<_, _>>()?)
}

/// Holds where the bits of `mask` in an argument are those of `value`.
fn masked(number: u8, mask: libc::c_int, value: u64) -> Result<SeccompRule, BackendError> {
    let mask = SeccompCmpOp::MaskedEq(u64::from(mask.unsigned_abs()));
    SeccompRule::new(vec![SeccompCondition::new(number, SeccompCmpArgLen::Dword, mask, value)?])
}
