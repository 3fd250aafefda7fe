"""Jobs of the constraint engine (common/constraints/engine_frames.h), from the engine's side."""
from connection import LENGTH

MAX_JOB_BYTES = 64 << 20


class Reader:
    """The parts of one payload. The parent is trusted: missing data raises struct.error."""

    def __init__(self, payload):
        self._payload = payload
        self._place = 0

    def byte(self):
        self._place += 1
        return self._payload[self._place - 1]

    def length(self):
        self._place += LENGTH.size
        return LENGTH.unpack_from(self._payload, self._place - LENGTH.size)[0]

    def bytes(self):
        size = self.length()
        self._place += size
        return bytes(self._payload[self._place - size:self._place])

    def text(self):
        return self.bytes().decode()

    def numbers(self):
        count = self.length()
        begin, self._place = self._place, self._place + LENGTH.size * count
        return self._payload[begin:self._place].cast("I").tolist()


def read_vocabulary(reader):
    """(bytes of each token, ids of the special ones)"""
    special = reader.numbers()
    return [reader.bytes() for _ in range(reader.length())], special
