/* For linux.uml 6.1 on processors whose extended state is larger than it knows (AMX), preloaded by bonding.sh.
 *
 * It saves as much of a process's state as it knows; the host takes back nothing but all of it. So what it knows is laid
 * over the rest, which the process still has. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define XSTATE ((void *)0x202)

long ptrace(enum __ptrace_request request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    pid_t pid = va_arg(arguments, pid_t);
    void *address = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);

    if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
        long word;
        if (syscall(SYS_ptrace, request, pid, address, &word) < 0)
            return -1;
        errno = 0;
        return word;
    }
    if (request == PTRACE_SETREGSET && address == XSTATE) {
        static char state[1 << 16];
        struct iovec *known = data, all = { state, sizeof state };
        if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, address, &all) < 0)
            return -1;
        if (known->iov_len < all.iov_len) {
            memcpy(state, known->iov_base, known->iov_len);
            return syscall(SYS_ptrace, request, pid, address, &all);
        }
    }
    return syscall(SYS_ptrace, request, pid, address, data);
}
