"""Attacks over HTTP/2 from where the router and the worker connect: a worker, a trace collector, and a stranger at a worker's port.

    python3 tests/integration/hostile_peers_check.py --programs FOLDER --model FOLDER [--max-growth-mib 64] [--max-delay 3] [--seconds 1] [--strict] [--of router|worker]

Router and worker are processes on loopback. Beside each attack an honest client goes on asking, and a good worker serves it. No request may
fail, none may take more than --max-delay longer than the slowest one without an attack, and at no moment may the attacked process hold more than
--max-growth-mib more than before. SIGTERM during an attack ends the router within its drain and the grace of the spans.
With --strict also: p99 of the requests is at most twice the one without an attack and 50 ms.
"""
import argparse
import contextlib
import http.client
import pathlib
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from hostile_http2_check import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, PRIORITY, PUSH, RESET, SETTINGS, UPDATE,  # noqa: E402
                                 frame, memory_kib, reset_peak)
from honest_client import Honest  # noqa: E402
from server_process import Server, wait_until  # noqa: E402

GREETING = frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0)
DRAIN_SECONDS = 2  # of the router, and of the spans 5
STOP_SECONDS = 10  # for a router with both to end: the sum, and what a busy machine takes
# A literal field with the name "k" and a value that announces 2^30 bytes.
GIANT_VALUE = b"\x00\x01k\x7f\x81\xff\xff\xff\x03"
STATUS = b"\x88"  # :status 200
PATIENCE = 60  # seconds


# --- what a hostile peer sends behind its greeting; each returns when the other side ends the connection, or after a while ---

def push(peer, data, until):
    """False when the other side has ended the connection, or the time is up."""
    peer.settimeout(0.2)
    view = memoryview(data)
    while view and time.monotonic() < until:
        try:
            view = view[peer.send(view):]
        except TimeoutError:
            continue
        except OSError:
            return False
    return not view


def trickled_giant_header(peer, until, stream, start=STATUS):
    """One header of 1 GiB, in pieces."""
    going = push(peer, frame(HEADERS, 0, stream, start + GIANT_VALUE), until)
    while going:
        going = push(peer, frame(CONTINUATION, 0, stream, b"x" * 1000), until)


def continuation_flood(peer, until, stream, start=STATUS):
    going = push(peer, frame(HEADERS, 0, stream, start), until)
    while going:
        going = push(peer, frame(CONTINUATION, 0, stream, b"\x00\x01a\x01b" * 3000) * 64, until)


def empty_continuations(peer, until, stream, start=STATUS):
    going = push(peer, frame(HEADERS, 0, stream, start), until)
    while going:
        going = push(peer, frame(CONTINUATION, 0, stream) * 5000, until)


def header_bomb(peer, until, stream, start=STATUS):
    """Four thousand bytes in the table, and then repeated by a byte each."""
    value = b"v" * 3800
    entry = b"\x40\x01k" + b"\x7f" + bytes([(len(value) - 127) % 128 + 128, (len(value) - 127) // 128]) + value
    push(peer, frame(HEADERS, END_HEADERS, stream, start + entry + b"\xbe" * 12000) * 100, until)


def flood_of(one):
    def flood(peer, until, stream, start=STATUS):
        going = True
        while going:
            going = push(peer, one * 2000, until)
    return flood


def resets(peer, until, stream, start=STATUS):
    push(peer, b"".join(frame(HEADERS, END_HEADERS, one, start) + frame(RESET, 0, one, b"\0\0\0\x08") for one in range(stream, 200_001, 2)), until)


def huge_message(peer, until, stream, start=STATUS):
    """A message of nearly 4 GiB, whose bytes come as fast as the windows allow, and faster."""
    head = frame(HEADERS, END_HEADERS, stream, start + b"\x5f\x10application/grpc")
    going = push(peer, head + frame(DATA, 0, stream, b"\0\xff\xff\xff\xf0"), until)
    while going:
        going = push(peer, frame(DATA, 0, stream, b"x" * 16000) * 16, until)


def promised_streams(peer, until, stream, start=STATUS):
    push(peer, frame(PUSH, 0, stream, b"\0\0\0\2" + b"\x83" * 1000) * 1000, until)


def silence(peer, until, stream, start=STATUS):
    time.sleep(max(0, until - time.monotonic()))


ATTACKS = {
    "trickled giant header": trickled_giant_header,
    "CONTINUATION flood": continuation_flood,
    "empty CONTINUATIONs": empty_continuations,
    "header bomb": header_bomb,
    "SETTINGS flood": flood_of(frame(SETTINGS, 0, 0)),
    "PING flood": flood_of(frame(PING, 0, 0, b"12345678")),
    "PRIORITY flood": flood_of(frame(PRIORITY, 0, 1, b"\0\0\0\0\1")),
    "WINDOW_UPDATE flood": flood_of(frame(UPDATE, 0, 0, b"\0\0\0\1")),
    "unknown frames": flood_of(frame(0x77, 0, 0)),
    "empty DATA": flood_of(frame(DATA, 0, 1)),
    "DATA of one byte": flood_of(frame(DATA, 0, 1, b"\0")),
    "reset storm": resets,
    "huge message": huge_message,
    "promised streams": promised_streams,
    "TLS garbage": flood_of(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9),
    "silence": silence,
}


# --- peers ---

def varint_fields(message):
    """{number: value} of the fixed64 fields at the top of a message of protobuf."""
    fields, at = {}, 0
    while at < len(message):
        tag = message[at]
        at += 1
        if tag & 7 == 1:
            fields[tag >> 3] = message[at:at + 8]
            at += 8
        elif tag & 7 == 0:
            while message[at] & 0x80:
                at += 1
            at += 1
        elif tag & 7 == 2:
            size, shift = 0, 0
            while True:
                size |= (message[at] & 0x7f) << shift
                shift += 7
                at += 1
                if not message[at - 1] & 0x80:
                    break
            at += size
        else:
            break
    return fields


def grpc(message):
    return b"\0" + struct.pack(">I", len(message)) + message


def frames_of(peer, until):
    """(kind, flags, stream, payload) of what comes, until the other side ends the connection or the time is up."""
    received = b""
    while time.monotonic() < until:
        try:
            chunk = peer.recv(1 << 16)
        except TimeoutError:
            continue
        if not chunk:
            return
        received = (received + chunk).removeprefix(PREFACE)
        while len(received) >= 9 and len(received) >= 9 + (size := struct.unpack(">I", b"\0" + received[:3])[0]):
            yield received[3], received[4], struct.unpack(">I", received[5:9])[0], received[9:9 + size]
            received = received[9 + size:]


class HostilePeer:
    """A server that attacks its clients between `begin` and `end`; before, connections wait. With `description` it is a worker up to its lease,
    and attacks then."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.attack, self.description, self.seconds = None, None, 0.0
        self.attacks = threading.Event()
        self.num_attacks = 0
        self.num_ends = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def begin(self, attack, seconds, description=None):
        """Each connection is attacked for so long."""
        self.attack, self.description, self.seconds = attack, description, seconds
        self.num_attacks = 0
        self.attacks.set()

    def end(self):
        self.attacks.clear()
        self.num_ends += 1

    def accept(self):
        while True:
            peer, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        num_ends = self.num_ends
        with contextlib.suppress(OSError), peer:
            if not self.attacks.wait(PATIENCE) or num_ends != self.num_ends:
                return  # the next attack is for others
            attack, until = self.attack, time.monotonic() + self.seconds
            if self.description is None:
                push(peer, GREETING, until)
                if any(kind == HEADERS for kind, *_ in frames_of(peer, until)):  # the call is there
                    self.num_attacks += 1
                    attack(peer, until, 1)
            elif self.grant(peer, until):
                self.num_attacks += 1
                attack(peer, until, 3)

    def grant(self, peer, until):
        """Answers Describe on stream 1 and the claim on stream 3."""
        push(peer, GREETING, until)
        head = STATUS + b"\x5f\x10application/grpc"
        trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x00\x0bgrpc-status\x010")
        described, claim = False, b""
        for kind, _, stream, payload in frames_of(peer, until):
            if kind == DATA and stream == 1 and not described:
                described = True
                push(peer, frame(HEADERS, END_HEADERS, 1, head) + frame(DATA, 0, 1, grpc(self.description)) + trailers, until)
            elif kind == DATA and stream == 3:
                claim += payload
            if len(claim) >= 5 and len(claim) >= 5 + struct.unpack(">I", claim[1:5])[0]:
                epoch = varint_fields(claim[5:])[1]
                answer = b"\x09" + epoch + b"\x11" + varint_fields(self.description)[2]
                return push(peer, frame(HEADERS, END_HEADERS, 3, head) + frame(DATA, 0, 3, grpc(answer)), until)
        return False


def describe(address):
    """What a worker says of itself, as bytes."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as peer:
        path = b"/lockstep.worker.v1.Worker/Describe"
        block = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x41\x01x\x5f\x10application/grpc"
        peer.sendall(PREFACE + GREETING + frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, END_STREAM, 1, grpc(b"\x08\x01")))
        message = b""
        for kind, flags, _, payload in frames_of(peer, time.monotonic() + 30):
            message += payload if kind == DATA else b""
            if kind == HEADERS and flags & END_STREAM:
                return message[5:]
        raise AssertionError("the worker did not describe itself")


class Stranger:
    """Attacks a worker's port, on several connections at once, again and again until `end`. Each connection is attacked for so many seconds."""

    def __init__(self, address, attack, seconds, num_threads=4):
        host, port = address.rsplit(":", 1)
        self.address, self.attack, self.seconds = (host, int(port)), attack, seconds
        self.num_connections = 0
        self.ended = False
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(num_threads)]
        for thread in self.threads:
            thread.start()

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join()

    def run(self):
        path = b"/lockstep.worker.v1.Worker/Execute"
        block = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x41\x01x\x5f\x10application/grpc"
        while not self.ended:
            until = time.monotonic() + self.seconds
            with contextlib.suppress(OSError), socket.create_connection(self.address, timeout=5) as peer:
                self.num_connections += 1
                push(peer, PREFACE + GREETING, until)
                self.attack(peer, until, 1, block)


def held_bytes(peer, until, stream, start):
    """As many streams as there may be, each with as much behind its first message as its window allows."""
    data = grpc(b"\x09" + b"\1" * 8) + b"\0\0\0\x0f\xa0" + b"x" * 4000 + b"\0\0\0\x0f\xff" + b"y" * 4000
    push(peer, b"".join(frame(HEADERS, END_HEADERS, one, start) + frame(DATA, 0, one, data) for one in range(1, 65, 2)), until)
    silence(peer, until, stream)


def many_connections(peer, until, stream, start):
    """As many connections as there may be, each with a header block that does not end and is as large as allowed."""
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            with contextlib.suppress(OSError):
                other = stack.enter_context(socket.create_connection(peer.getpeername(), timeout=5))
                push(other, PREFACE + GREETING + frame(HEADERS, 0, 1, start + GIANT_VALUE) + frame(CONTINUATION, 0, 1, b"x" * 15000) * 4, until)
        silence(peer, until, stream)


class Check:
    def __init__(self, options):
        self.options = options
        self.failures = []
        self.alone = None

    def measure(self, api):
        with Honest(api) as honest:
            time.sleep(self.options.seconds + 2)
        self.alone = honest
        print(f"alone: {len(honest.seconds)} requests, p99 {honest.p99() * 1e3:.1f} ms, slowest {max(honest.seconds) * 1e3:.1f} ms", flush=True)

    def beside(self, name, api, pid, begin, timed=True):
        """`begin()` starts the attack. It returns two functions: the first gives pairs of a text and of how often that attack came, the second
        ends it."""
        before = memory_kib(pid, "VmRSS")
        reset_peak(pid)
        with Honest(api) as honest:
            counts, end = begin()
            wait_until(lambda: all(number > 0 for _, number in counts()), f"{name}: the attack comes")
            time.sleep(self.options.seconds)
            end()
        growth = memory_kib(pid, "VmHWM") - before
        p99, slowest = honest.p99(), max(honest.seconds)
        attacks = ", ".join(f"{number} {text}" for text, number in counts())
        print(f"{name}: {attacks}; {len(honest.seconds)} requests, p99 {p99 * 1e3:.1f} ms, slowest {slowest * 1e3:.1f} ms; {growth} KiB more", flush=True)
        self.expect(growth < self.options.max_growth_mib << 10, f"{name}: the process grew by {growth} KiB")
        if not timed:
            return
        self.expect(slowest < max(self.alone.seconds) + self.options.max_delay, f"{name}: a request took {slowest:.2f} s")
        self.expect(not self.options.strict or p99 <= 2 * self.alone.p99() + 0.05, f"{name}: p99 is {p99 * 1e3:.1f} ms")

    def expect(self, holds, what):
        if not holds:
            print("FAILED", what, flush=True)
            self.failures.append(what)


def start_worker(options):
    return Server(options.programs / "lockstep-worker", f"--model={options.model}", "--listen=127.0.0.1:0", "--admin_listen=127.0.0.1:0", "--threads=1",
                  "--log_level=error")


def start_router(options, workers, *flags):
    return Server(options.programs / "lockstep-router", f"--model={options.model}", f"--worker={','.join(workers)}", "--listen=127.0.0.1:0",
                  "--http_listen=127.0.0.1:0", "--admin_listen=127.0.0.1:0", "--log_level=error", f"--drain-timeout={DRAIN_SECONDS}s",
                  "--template-timeout=200ms", *flags)


def is_ready(address):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", "/ready")
    return connection.getresponse().status == 200


def attack_router(check, options):
    """The router's worker and collector are hostile; another worker is good. A router of its own for each attack, as it tries a bad worker less
    and less often."""
    worker, collector = HostilePeer(), HostilePeer()
    with start_worker(options) as good:
        with start_router(options, [good.addresses["grpc"]]) as router:
            wait_until(lambda: is_ready(router.addresses["http"]), "the router is ready")
            check.measure(router.addresses["http"])
        description = describe(good.addresses["grpc"])

        def beside(name, attack, peers, description=None, timed=True):
            with start_router(options, [good.addresses["grpc"], worker.address], f"--otlp-endpoint={collector.address}") as router:
                wait_until(lambda: is_ready(router.addresses["http"]), "the router is ready")

                def begin():
                    for peer in peers:
                        peer.begin(attack, options.seconds, description)
                    return (lambda: [("by the worker" if peer is worker else "by the collector", peer.num_attacks) for peer in peers],
                            lambda: [peer.end() for peer in peers])
                check.beside(name, router.addresses["http"], router.process.pid, begin, timed)

        for name, attack in ATTACKS.items():
            beside(f"worker and collector, {name}", attack, (worker, collector))
        # A worker with a lease gets requests. Those wait for it, and then go elsewhere.
        for name, attack in ATTACKS.items():
            if attack is not silence:
                beside(f"worker with a lease, {name}", attack, (worker,), description, timed=False)
        stop_beside_both(check, options, good, worker, collector)


def stop_beside_both(check, options, good, worker, collector):
    for attack in (trickled_giant_header, continuation_flood, silence):
        for peer in (worker, collector):
            peer.begin(attack, PATIENCE)
        with start_router(options, [good.addresses["grpc"], worker.address], f"--otlp-endpoint={collector.address}") as router:
            wait_until(lambda: is_ready(router.addresses["http"]), "the router is ready")
            with Honest(router.addresses["http"]):  # there are spans
                wait_until(lambda: all(peer.num_attacks > 0 for peer in (worker, collector)), "both attack")
            begun = time.monotonic()
            code = router.stop()
            seconds = time.monotonic() - begun
            print(f"SIGTERM beside both, {attack.__name__}: {seconds:.1f} s", flush=True)
            check.expect(code == 0 and seconds < STOP_SECONDS, f"SIGTERM: exit code {code} after {seconds:.1f} s")
        for peer in (worker, collector):
            peer.end()


def attack_worker(check, options):
    """Strangers are at the port of the worker that serves."""
    with start_worker(options) as worker, start_router(options, [worker.addresses["grpc"]]) as router:
        api, pid = router.addresses["http"], worker.process.pid
        wait_until(lambda: is_ready(api), "the router is ready")
        check.measure(api)

        def begin(attack):
            def start():
                stranger = Stranger(worker.addresses["grpc"], attack, options.seconds)
                return (lambda: [("connections", stranger.num_connections)], stranger.end)
            return start

        for name, attack in {**ATTACKS, "held bytes": held_bytes, "many connections": many_connections}.items():
            check.beside(f"stranger, {name}", api, pid, begin(attack))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--max-growth-mib", type=int, default=64)
    parser.add_argument("--max-delay", type=float, default=3.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each attack")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--of", choices=("router", "worker"), action="append", help="what is attacked; default: both")
    options = parser.parse_args()
    check = Check(options)
    attacked = options.of or ("router", "worker")
    if "router" in attacked:
        attack_router(check, options)
    if "worker" in attacked:
        attack_worker(check, options)
    assert not check.failures, "\n".join(check.failures)
    print("all right")


main()
