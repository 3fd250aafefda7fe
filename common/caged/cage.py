"""Takes rights from a process before it reads foreign bytes. Linux only."""
import ctypes
import errno
import os
import resource
import struct
import sys

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 15, 22, 38
SECCOMP_MODE_FILTER = 2
SIGKILL = 9

# Offsets in struct seccomp_data.
NUMBER_OFFSET, ARCHITECTURE_OFFSET = 0, 4

# Instructions of the classic Berkeley Packet Filter.
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
KILL_PROCESS, ALLOW, REFUSE = 0x80000000, 0x7FFF0000, 0x00050000 | errno.EPERM

# For each machine name: its number in the kernel's audit, the calls that are allowed, and the calls
# that are refused. Any other call ends the process.
#
# Allowed: memory, time, transfers over open descriptors, signals, the end. These calls open and
# create nothing and reach no other process.
#
# Refused: Python looks for files when it imports a module late or writes a warning. It then goes on
# without them.
CALLS = {
    "x86_64": (0xC000003E, {
        "read": 0, "write": 1, "poll": 7, "mmap": 9, "munmap": 11, "brk": 12, "rt_sigaction": 13,
        "rt_sigprocmask": 14, "rt_sigreturn": 15, "mremap": 25, "madvise": 28, "setitimer": 38,
        "exit": 60, "gettimeofday": 96, "futex": 202, "restart_syscall": 219,
        "clock_gettime": 228, "exit_group": 231, "ppoll": 271, "getrandom": 318,
    }, {
        "open": 2, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "ioctl": 16, "access": 21,
        "fcntl": 72, "getcwd": 79, "readlink": 89, "getdents64": 217, "openat": 257,
        "newfstatat": 262, "readlinkat": 267, "faccessat": 269, "statx": 332, "faccessat2": 439,
    }),
    "aarch64": (0xC00000B7, {
        "read": 63, "write": 64, "ppoll": 73, "exit": 93, "exit_group": 94, "futex": 98,
        "setitimer": 103, "clock_gettime": 113, "restart_syscall": 128, "rt_sigaction": 134,
        "rt_sigprocmask": 135, "rt_sigreturn": 139, "gettimeofday": 169, "brk": 214,
        "munmap": 215, "mremap": 216, "mmap": 222, "madvise": 233, "getrandom": 278,
    }, {
        "getcwd": 17, "fcntl": 25, "ioctl": 29, "faccessat": 48, "openat": 56, "getdents64": 61,
        "lseek": 62, "readlinkat": 78, "newfstatat": 79, "fstat": 80, "statx": 291,
        "faccessat2": 439,
    }),
}


def filter_program(architecture, allowed, refused):
    """The filter of system calls, as the kernel reads it."""
    def instruction(code, value, if_true=0, if_false=0):
        return struct.pack("=HBBI", code, if_true, if_false, value)

    numbers = sorted(refused) + sorted(allowed)
    program = [
        instruction(LOAD_WORD, ARCHITECTURE_OFFSET),
        instruction(JUMP_IF_EQUAL, architecture, 1, 0),
        instruction(RETURN, KILL_PROCESS),
        instruction(LOAD_WORD, NUMBER_OFFSET),
    ]
    # Three returns follow the list: kill, refuse, allow.
    for place, number in enumerate(numbers):
        rest = len(numbers) - place - 1
        program.append(instruction(JUMP_IF_EQUAL, number, rest + (1 if place < len(refused) else 2)))
    program += [instruction(RETURN, action) for action in (KILL_PROCESS, REFUSE, ALLOW)]
    return b"".join(program)


def process_control(*arguments):
    library = ctypes.CDLL(None, use_errno=True)
    # The first argument is an int; the kernel reads the others as unsigned longs.
    rest = [ctypes.c_ulong(argument) for argument in arguments[1:]]
    rest += [ctypes.c_ulong(0)] * (5 - len(arguments))
    if library.prctl(ctypes.c_int(arguments[0]), *rest) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def limit(kind, value):
    resource.setrlimit(kind, (value, value))


def enter(parent, memory_bytes, stack_bytes, name):
    """Forbids new files, processes, privileges and core dumps, and all system calls but CALLS. The
    process ends with its parent. Raises OSError if the kernel refuses something, or if the parent is
    gone. `name`: what ps shows, at most 15 bytes."""
    shown = ctypes.create_string_buffer(name)
    process_control(PR_SET_NAME, ctypes.addressof(shown))
    process_control(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:
        raise OSError(errno.ESRCH, "the parent is gone")
    process_control(PR_SET_NO_NEW_PRIVS, 1)
    highest_stack = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if highest_stack == resource.RLIM_INFINITY or highest_stack >= stack_bytes:
        resource.setrlimit(resource.RLIMIT_STACK, (stack_bytes, highest_stack))
    limit(resource.RLIMIT_NOFILE, 3)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NPROC, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    limit(resource.RLIMIT_AS, memory_bytes)
    machine = platform_name()
    if machine not in CALLS:
        return  # a processor that the filter does not know; the limits hold
    architecture, allowed, refused = CALLS[machine]
    program = filter_program(architecture, allowed.values(), refused.values())
    code = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    process_control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(head))


def platform_name():
    return os.uname().machine if sys.maxsize > 2**32 else ""
