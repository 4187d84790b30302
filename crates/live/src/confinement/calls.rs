//! The system calls that stay with a daemon (seccomp): all others fail with EPERM, in all threads.
//!
//! Source: seccomp(2). No process is ever begun: `clone` makes threads only, and the newer `clone3`, whose arguments no
//! filter can see, seems not to exist, upon which the C library takes `clone`.

use super::held::{ConfinementError, Held, Holds};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::env::consts::ARCH;

/// Calls that are allowed whatever their arguments.
const ALLOWED: &[libc::c_long] = &[
    // Packets, clients, and waiting for them.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_ioctl,
    libc::SYS_fcntl,
    libc::SYS_dup,
    // Files: what is left of them is Landlock's to say.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_getcwd,
    // Memory, threads, time, randomness, signals, and the process itself.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_clone3,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_setpriority,
    libc::SYS_getpriority,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_capget,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_prlimit64,
    libc::SYS_membarrier,
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
    libc::SYS_readlink,
    libc::SYS_chmod,
    libc::SYS_accept,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Kinds of sockets that a daemon opens.
const FAMILIES: [libc::c_int; 5] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET];
/// What a thread says of itself: its name, and those of its memory.
const PRCTL: [libc::c_int; 2] = [libc::PR_SET_NAME, libc::PR_SET_VMA];

/// Leaves these calls and no others, to all threads that there are and will be.
pub(super) fn restrict() -> Result<Held, ConfinementError> {
    let Ok(arch) = TargetArch::try_from(ARCH) else {
        return Ok(Held::new(Holds::Off, format!("no filter is known for {ARCH}")));
    };
    let refused = |problem: String| ConfinementError::Refused { what: "seccomp", problem };
    let programs = programs(arch).map_err(|error| refused(error.to_string()))?;
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
    Ok(Held::new(Holds::On, format!("{} system calls", rules()?.len())))
}

fn programs(arch: TargetArch) -> Result<[BpfProgram; 2], BackendError> {
    let errno = |errno: libc::c_int| SeccompAction::Errno(errno.unsigned_abs());
    let no_clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let no_clone3 = SeccompFilter::new(no_clone3, SeccompAction::Allow, errno(libc::ENOSYS), arch)?;
    let listed = SeccompFilter::new(listed()?, errno(libc::EPERM), SeccompAction::Allow, arch)?;
    Ok([no_clone3.try_into()?, listed.try_into()?])
}

fn rules() -> Result<BTreeMap<libc::c_long, Vec<SeccompRule>>, ConfinementError> {
    listed().map_err(|error| ConfinementError::Refused { what: "seccomp", problem: error.to_string() })
}

fn listed() -> Result<BTreeMap<libc::c_long, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<_, _> = ALLOWED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    let one_of = |values: &[libc::c_int]| {
        let is = |value: &libc::c_int| {
            let value = u64::from(value.unsigned_abs());
            SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?])
        };
        values.iter().map(is).collect::<Result<Vec<_>, _>>()
    };
    rules.insert(libc::SYS_socket, one_of(&FAMILIES)?);
    rules.insert(libc::SYS_socketpair, one_of(&[libc::AF_UNIX])?);
    rules.insert(libc::SYS_prctl, one_of(&PRCTL)?);
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let thread = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(thread), thread)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![thread])?]);
    Ok(rules)
}
