"""Frames between a caged process and its parent (common/caged/frame_io.h), from the process's side.

A frame is a length (4 bytes, little endian) and that many bytes. Strings inside are written the same way.
"""
import io
import os
import struct

LENGTH = struct.Struct("<I")
MAX_ERROR_BYTES = 512
BUFFER_BYTES = 64 << 10


class Closed(Exception):
    """The parent is gone, or broke the protocol."""


class Connection:
    """Reads jobs from a descriptor and writes answers to it."""

    def __init__(self, descriptor, max_bytes):
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._file = io.FileIO(descriptor, "rb", closefd=False)
        self._buffer = bytearray(BUFFER_BYTES)

    def read(self):
        """The payload of the next frame. It is valid until the next call."""
        view = memoryview(self._buffer)
        have = self._fill(view, 0, LENGTH.size)
        size = LENGTH.unpack_from(view)[0]
        if size > self._max_bytes:
            raise Closed
        if LENGTH.size + size <= len(view):
            self._fill(view, have, LENGTH.size + size)
            return view[LENGTH.size:LENGTH.size + size]
        payload = memoryview(bytearray(size))
        payload[:have - LENGTH.size] = view[LENGTH.size:have]
        self._fill(payload, have - LENGTH.size, size)
        return payload

    def _fill(self, view, have, wanted):
        # The parent waits for an answer before it sends the next frame, so no read takes too much.
        while have < wanted:
            count = self._file.readinto(view[have:])
            if not count:
                raise Closed
            have += count
        return have

    def write(self, kind, text):
        rest = memoryview(LENGTH.pack(1 + LENGTH.size + len(text)) + kind + LENGTH.pack(len(text)) + text)
        while rest:
            rest = rest[os.write(self._descriptor, rest):]


class Reader:
    """The parts of one payload. The parent is trusted: missing data raises struct.error.

    `errors`: what str.decode does with bytes that are no UTF-8.
    """

    def __init__(self, payload, errors="strict"):
        self._payload = payload
        self._place = 0
        self._errors = errors

    def byte(self):
        self._place += 1
        return self._payload[self._place - 1]

    def flag(self):
        return self.byte() == ord("1")

    def length(self):
        self._place += LENGTH.size
        return LENGTH.unpack_from(self._payload, self._place - LENGTH.size)[0]

    def bytes(self):
        return bytes(self._take(self.length()))

    def text(self):
        return str(self._take(self.length()), "utf-8", self._errors)

    def numbers(self):
        return self._take(LENGTH.size * self.length()).cast("I").tolist()

    def _take(self, size):
        self._place += size
        return self._payload[self._place - size:self._place]


def cut_error(message):
    """At most MAX_ERROR_BYTES of UTF-8."""
    return message[:MAX_ERROR_BYTES].encode("utf-8", "replace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore").encode()
