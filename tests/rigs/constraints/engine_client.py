"""The constraint engine as a process, for scripts: one token for each byte, and an end token."""
import os
import pathlib
import socket
import struct
import subprocess

PROGRAM_DESCRIPTOR = 3
END = 256
VOCABULARY = [bytes([byte]) for byte in range(256)] + [b"<|end|>"]


class Refused(Exception):
    """The engine's reason."""


class Ended(Exception):
    """The engine ended over a job."""


def numbers(values):
    return struct.pack(f"<I{len(values)}I", len(values), *values)


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<I", len(data)) + data


class Engine:
    def __init__(self, program, packages, python="/usr/bin/python3", memory_mib=1024, cpu_seconds=20):
        self._command = [python, "-I", "-S", "-B", f"/proc/self/fd/{PROGRAM_DESCRIPTOR}", str(os.getpid()),
                         str(memory_mib), str(cpu_seconds), str(pathlib.Path(packages).resolve())]
        self._program = program
        self.start()

    def start(self):
        ours, theirs = socket.socketpair()
        file = os.open(self._program, os.O_RDONLY)
        self._process = subprocess.Popen(
            self._command, stdin=theirs, close_fds=False, env={"TZ": ":/etc/localtime"},
            preexec_fn=lambda: os.dup2(file, PROGRAM_DESCRIPTOR, inheritable=True))
        os.close(file)
        theirs.close()
        self._socket = ours
        self.version = self._ask(b"V" + numbers([END]) + struct.pack("<I", len(VOCABULARY)) +
                                 b"".join(map(text, VOCABULARY))).decode()

    def _receive(self, size):
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise Ended(f"exit status {self._process.wait()}")
            data += piece
        return data

    def _ask(self, payload):
        self._socket.sendall(text(payload))
        answer = self._receive(struct.unpack("<I", self._receive(4))[0])
        if answer[:1] == b"E":
            raise Refused(answer[5:].decode())
        return answer[5:]

    def check(self, kind, constraint):
        self._ask(b"C" + kind.encode() + text(constraint))

    def fits(self, kind, constraint, output):
        """Whether the whole output fits. The constraint must have passed check."""
        try:
            self._ask(b"B" + struct.pack("<I", 0) + kind.encode() + text(constraint) + numbers([END]) + numbers(output))
            mask = self._ask(b"M" + struct.pack("<I", 0) + numbers([]))[1:]
        except Refused:
            return False
        return mask[END >> 3] >> (END & 7) & 1 == 1

    def masks_agree(self, kind, constraint, output):
        """Whether each byte of an output that fits is in the mask of its place."""
        self._ask(b"B" + struct.pack("<I", 0) + kind.encode() + text(constraint) + numbers([END]) + numbers([]))
        last = []
        for byte in output:
            mask = self._ask(b"M" + struct.pack("<I", 0) + numbers(last))[1:]
            if not mask[byte >> 3] >> (byte & 7) & 1:
                return False
            last = [byte]
        return True

    def close(self):
        self._process.kill()
        self._process.wait()
        self._socket.close()
