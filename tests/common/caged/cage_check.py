#!/usr/bin/env python3
"""What a caged process can do: each attempt runs in a child of its own.

    cage_check.py FOLDER_OF_THE_CAGE
"""
import os
import signal
import socket
import subprocess
import sys
import time

# Attempts, as Python, and how they must end: "fine", "refused" (OSError) or "killed" (SIGSYS).
ATTEMPTS = {
    "open('/etc/passwd')": "refused",
    "open('/tmp/lockstep-cage', 'w')": "refused",
    "os.stat('/')": "refused",
    "os.listdir('/proc')": "refused",
    "os.readlink('/proc/self/exe')": "refused",
    "os.getcwd()": "refused",
    "__import__('tarfile')": "refused",
    "'x'.encode('cp1252')": "refused",
    "os.fork()": "killed",
    "os.execv('/bin/true', ['true'])": "killed",
    "os.kill(os.getppid(), 0)": "killed",
    "os.kill(0, 9)": "killed",
    "socket.socket()": "killed",
    "socket.socketpair()": "killed",
    "os.pipe()": "killed",
    "os.dup(0)": "refused",
    "os.unlink('/tmp/x')": "killed",
    "os.mkdir('/tmp/x')": "killed",
    "os.chdir('/')": "killed",
    "os.setuid(0)": "killed",
    "os.getpid()": "killed",
    "os.sched_setaffinity(0, {0})": "killed",
    "resource.setrlimit(resource.RLIMIT_AS, (1, 1))": "killed",
    "time.sleep(0.001)": "killed",
    "cage.process_control(22, 0)": "killed",
    "bytearray(1 << 30)": "refused",
    "bytearray(1 << 20)": "fine",
    "time.time() + time.monotonic() + len(os.urandom(8))": "fine",
    "time.strftime('%c %Z'), time.localtime()": "fine",
    "signal.setitimer(signal.ITIMER_PROF, 1)": "fine",
    "os.write(0, b'x')": "fine",
    "[list(range(1000)) for _ in range(100)]": "fine",
}
PROGRAM = """
import os, resource, signal, socket, sys, time
sys.path.insert(0, sys.argv[1])
import cage
time.strftime('%c')
attempt = compile(sys.argv[2], 'attempt', 'eval')
os.closerange(3, 64)
cage.enter(int(sys.argv[3]), 256 << 20, 8 << 20, b"caged")
try:
    eval(attempt)
except (OSError, ImportError, LookupError, MemoryError):
    os._exit(3)
os._exit(0)
"""
ENDS = {0: "fine", 3: "refused", -signal.SIGSYS: "killed"}


def end_of(folder, attempt, parent=None):
    ours, other = socket.socketpair()
    with ours, other:
        done = subprocess.run([sys.executable, "-I", "-B", "-c", PROGRAM, folder, attempt, str(parent or os.getpid())],
                              stdin=other, capture_output=True, env={"TZ": ":/etc/localtime"}, timeout=60)
    return ENDS.get(done.returncode, f"{done.returncode} {done.stderr.decode()[-500:]}")


def main():
    folder = sys.argv[1]
    start = time.monotonic()
    for attempt, expected in ATTEMPTS.items():
        got = end_of(folder, attempt)
        assert got == expected, f"{attempt}: {got}, expected {expected}"
    assert "parent is gone" in end_of(folder, "1", parent=1), "a cage needs its parent"
    print(f"{len(ATTEMPTS)} attempts ended as they must, in {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
