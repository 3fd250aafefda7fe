"""Attacks on the public port over HTTP/2, by hand and with hyper-h2. Each must end the connection that it comes
over and nothing else: while it goes on, and after it, an honest client is served, and at no moment does the router
take much more memory than before.

    python3 tests/integration/hostile_http2_check.py HOST:PORT ROUTER_PID MAX_GROWTH_MIB
"""
import json
import socket
import struct
import sys
import threading
import time

import h2.config
import h2.connection
import h2.events
import h2.settings

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
ENHANCE_YOUR_CALM = 11
RUN_SECONDS = 120  # for an attack to be over once
END_SECONDS = 120  # for the attack that is under way to end
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def text(value):
    return bytes([len(value)]) + value


def block(path=b"/grpc.health.v1.Health/Watch"):
    return b"\x83\x86" + b"".join(b"\x00" + text(name) + text(value) for name, value in (
        (b":path", path), (b":authority", b"x"), (b"content-type", b"application/grpc")))


class Raw:
    """A connection whose frames are made by hand."""

    def __init__(self, address, preface=PREFACE + frame(SETTINGS, 0, 0)):
        self.socket = socket.create_connection(address, timeout=30)
        self.send(preface)

    def send(self, data):
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def end(self):
        """Everything up to the end of the connection; the codes of its GOAWAYs."""
        received = b""
        try:
            while chunk := self.socket.recv(1 << 16):
                received += chunk
        except ConnectionError:
            pass
        self.socket.close()
        codes = []
        while len(received) >= 9:
            size = struct.unpack(">I", b"\0" + received[:3])[0]
            if received[3] == GOAWAY:
                codes.append(struct.unpack(">I", received[13:17])[0])
            received = received[9 + size:]
        return codes


class Honest:
    """A client by the book."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=30)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, method, path, body=b"", headers=()):
        """Status, header and body of an answer, trailers among the header."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(":method", method), (":path", path), (":scheme", "http"),
                                      (":authority", "localhost"), *headers], end_stream=not body)
        if body:
            self.h2.send_data(stream, body, end_stream=True)
        self.flush()
        fields, answer = {}, b""
        while True:
            data = self.socket.recv(1 << 16)
            assert data, "the connection ended"
            for event in self.h2.receive_data(data):
                if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                    fields.update(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    answer += event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamReset):
                    raise AssertionError(f"reset with {event.error_code}")
                elif isinstance(event, h2.events.StreamEnded):
                    self.flush()
                    return fields, answer
            self.flush()


def memory_kib(pid, name):
    """VmRSS: resident now. VmHWM: the most at any moment since the last reset_peak."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


def reset_peak(pid):
    """Without the right to, the peak is that of the whole life."""
    try:
        with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def expect_calm(attack, codes):
    assert codes == [ENHANCE_YOUR_CALM], f"{attack}: ended with {codes}"


def continuation_flood(address):
    raw = Raw(address)
    raw.send(frame(HEADERS, 0, 1, block()))
    sent = 0
    while sent < 64 << 20 and raw.send(frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b" * 3000)):
        sent += 15000
    assert sent < 64 << 20, "the flood was taken"
    raw.end()
    raw = Raw(address)
    raw.send(frame(HEADERS, 0, 1, block()) + frame(CONTINUATION, 0, 1) * 9)
    expect_calm("empty CONTINUATIONs", raw.end())


def giant_value(address):
    """A value that announces 2^30 bytes, of which some come."""
    raw = Raw(address)
    raw.send(frame(HEADERS, 0, 1, block() + b"\x00\x01k\x7f\x81\xff\xff\xff\x03"))
    sent = 0
    while sent < 17 << 20 and raw.send(frame(CONTINUATION, 0, 1, b"x" * 16000)):
        sent += 16000
    assert sent < 17 << 20, "the value was taken"
    raw.end()


def header_bomb(address):
    """Four thousand bytes in the table, and then repeated by a byte each."""
    raw = Raw(address)
    value = b"v" * 3800
    entry = b"\x40\x01k" + b"\x7f" + bytes([(len(value) - 127) % 128 + 128, (len(value) - 127) // 128]) + value
    raw.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, block() + entry + b"\xbe" * 10000))
    expect_calm("a header bomb", raw.end())


def rapid_resets(address):
    raw = Raw(address)
    pairs = b"".join(frame(HEADERS, END_STREAM | END_HEADERS, stream, block()) + frame(RESET, 0, stream, b"\0\0\0\x08")
                     for stream in range(1, 100001, 2))
    raw.send(pairs)
    raw.end()


def floods(address):
    for name, one in (("PING", frame(PING, 0, 0, b"12345678")), ("SETTINGS", frame(SETTINGS, 0, 0)),
                      ("PRIORITY", frame(PRIORITY, 0, 1, b"\0\0\0\0\1")), ("unknown frames", frame(0x77, 0, 0)),
                      ("WINDOW_UPDATE", frame(UPDATE, 0, 0, b"\0\0\0\1"))):
        raw = Raw(address)
        sent = 0
        while sent < 1_000_000 and raw.send(one * 1000):
            sent += 1000
        assert sent < 1_000_000, f"a flood of {name} was taken"
        raw.end()


def unread_answers(address):
    """Watchers that leave no window for what they asked for, as many as there may be."""
    raws = []
    for _ in range(20):
        raw = Raw(address, PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
        raw.send(b"".join(frame(HEADERS, END_HEADERS, stream, block()) + frame(DATA, END_STREAM, stream, b"\0" * 5)
                          for stream in range(1, 2001, 2)))
        raws.append(raw)
    time.sleep(0.5)
    return raws


def not_http2(address):
    for first in (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", PREFACE + b"GET / HTTP/1.1\r\n\r\n",
                  PREFACE + frame(DATA, 0, 1, b"x" * 16385), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9):
        raw = Raw(address, first)
        raw.socket.shutdown(socket.SHUT_WR)
        raw.end()


def serve_honestly(address):
    honest = Honest(address)
    fields, answer = honest.ask("GET", "/health")
    assert fields[":status"] == "200" and json.loads(answer) == {"status": "ok"}, (fields, answer)
    fields, answer = honest.ask("POST", "/v1/completions", b'{"prompt": [1, 2, 3], "max_tokens": 4}')
    assert fields[":status"] == "200" and json.loads(answer)["usage"]["completion_tokens"] == 4, (fields, answer)
    fields, answer = honest.ask("POST", "/v1/completions",
                                b'{"prompt": [1, 2, 3], "max_tokens": 4, "stream": true}')
    assert fields["content-type"].startswith("text/event-stream") and b"[DONE]" in answer, (fields, answer)
    fields, _ = honest.ask("POST", "/v1/none", b"{}")
    assert fields[":status"] == "404", fields
    fields, answer = honest.ask("POST", "/grpc.health.v1.Health/Check", b"\0" * 5,
                                [("content-type", "application/grpc"), ("te", "trailers")])
    assert fields["grpc-status"] == "0" and answer == b"\0\0\0\0\2\x08\1", (fields, answer)
    fields, _ = honest.ask("POST", "/a.B/C", b"\1\0\0\0\0", [("content-type", "application/grpc")])
    assert fields["grpc-status"] == "12", fields
    fields, _ = honest.ask("POST", "/lockstep.v1.Generation/GetModel", b"\1\0\0\0\0",
                           [("content-type", "application/grpc")])
    assert fields["grpc-status"] == "12" and fields["grpc-accept-encoding"] == "identity", fields
    honest.socket.close()


class Attack(threading.Thread):
    """One attack again and again, until the end of the block."""

    def __init__(self, attack, address):
        super().__init__(name=attack.__name__, daemon=True)
        self.attack, self.address = attack, address
        self.begun, self.stopping = threading.Event(), threading.Event()
        self.num_runs, self.error, self.held = 0, None, None

    def run(self):
        try:
            while not self.stopping.is_set():
                self.begun.set()
                self.held = self.attack(self.address)  # connections that stay for as long
                self.num_runs += 1
        except BaseException as error:  # told by the thread that waits
            self.error = error
            self.begun.set()

    def __enter__(self):
        self.start()
        self.begun.wait()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join(END_SECONDS)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.error is not None:
            raise self.error


def main():
    host, _, port = sys.argv[1].rpartition(":")
    address, pid = (host, int(port)), int(sys.argv[2])
    max_growth_kib = int(sys.argv[3]) << 10
    serve_honestly(address)
    before = memory_kib(pid, "VmRSS")
    for attack in (continuation_flood, giant_value, header_bomb, rapid_resets, floods, not_http2, unread_answers):
        begun = time.monotonic()
        reset_peak(pid)
        with Attack(attack, address) as attacking:
            # An attack may be slower than three honest clients: they go on until it ran once.
            num_served = 0
            while num_served < 3 or attacking.num_runs < 1:
                assert time.monotonic() - begun < RUN_SECONDS, f"{attack.__name__} never ended"
                if attacking.error is not None:
                    break  # raised at the end of the block
                serve_honestly(address)
                num_served += 1
        serve_honestly(address)
        growth = memory_kib(pid, "VmHWM") - before
        print(f"{attack.__name__}: {attacking.num_runs} times in {time.monotonic() - begun:.1f} s, at most {growth} KiB more",
              flush=True)
        assert growth < max_growth_kib, f"{attack.__name__} made the router grow by {growth} KiB"
    print("all right")


if __name__ == "__main__":
    main()
