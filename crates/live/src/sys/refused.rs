//! System calls that a filter refuses by a signal (`SIGSYS`): they fail with EPERM, and which they were is remembered.
//!
//! A filter that only gives an error leaves nobody to tell of it. A process that is asked by the kernel (user notification)
//! would have to be another one: whoever has taken over this one could make it say yes.

#![cfg_attr(
    not(target_pointer_width = "64"),
    expect(dead_code, reason = "calls of processors of 32 bits are not filtered")
)]

use super::check;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether it is known here how a signal handler gives a call its result.
pub(crate) const KNOWN: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// `si_code` of a signal that a filter sends.
const SYS_SECCOMP: libc::c_int = 1;

/// Numbers of system calls. Those beyond its room, which no kernel has, share the last.
#[derive(Debug)]
pub(crate) struct Calls([AtomicU64; 16]);

impl Calls {
    pub(crate) const fn new() -> Calls {
        Calls([const { AtomicU64::new(0) }; 16])
    }

    /// Adds one; tells whether it is new. Allocates and calls nothing, for signal handlers.
    pub(crate) fn insert(&self, call: u64) -> bool {
        let call = call.min(1023) as usize;
        let bit = 1 << (call % 64);
        self.0[call / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        (0..1024).filter(|call| self.0[(call / 64) as usize].load(Ordering::Relaxed) & (1 << (call % 64)) != 0)
    }
}

/// What this process was refused.
pub(crate) static REFUSED: Calls = Calls::new();

/// Has refused calls fail with EPERM, in all threads, and remembers them in [`REFUSED`]. To be called before the filter.
///
/// # Errors
/// What sigaction says.
pub(crate) fn fail_refused_calls() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = fail;
    // SAFETY: all bit patterns, zero among them, are valid for this plain C structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and does nothing but atomic operations and a write to
    // the context that is its own; the structure outlives the call, and no old one is asked for.
    check(unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) })
}

extern "C" fn fail(_: libc::c_int, about: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel gives pointers to both, valid until the handler returns, and nobody else has them.
    let (code, context) = unsafe { ((*about).si_code, &mut *context.cast::<libc::ucontext_t>()) };
    // Others can send this signal too; their processes' registers hold no call.
    if code == SYS_SECCOMP {
        REFUSED.insert(exchange(context));
    }
}

/// Gives the call its result, EPERM; which it was: the kernel leaves its number where it stood.
#[cfg(target_arch = "x86_64")]
fn exchange(context: &mut libc::ucontext_t) -> u64 {
    let result = &mut context.uc_mcontext.gregs[libc::REG_RAX as usize];
    let call = result.cast_unsigned();
    *result = -i64::from(libc::EPERM);
    call
}

#[cfg(target_arch = "aarch64")]
fn exchange(context: &mut libc::ucontext_t) -> u64 {
    let registers = &mut context.uc_mcontext.regs;
    registers[0] = (-i64::from(libc::EPERM)).cast_unsigned();
    registers[8]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn exchange(_: &mut libc::ucontext_t) -> u64 {
    unreachable!("no filter sends the signal here")
}
