"""Sessions of Codex and Claude Code against a router and three workers, first undisturbed, then while workers are killed: no byte may differ.

    agent_sessions_check.py --programs FOLDER --model FOLDER --packages FOLDER [--sessions 20] [--distinct 20] [--clients 8]
        [--events-per-kill 400 | --seconds-per-kill 2]

Every session has ten turns. Tools are called, and their results come back with the whole history. The readers of the sessions check each event. A
worker gets SIGKILL at counted events, or at times, and comes back at its address. `--sessions` are played under kills; they repeat the first
`--distinct`, whose outputs are known from the undisturbed run. With so many `--clients` that a worker computes no prompt between two kills, the
router blames requests for the losses and ends them (docs/decisions/0003-blaming-requests.md).
"""

import argparse
import concurrent.futures
import contextlib
import functools
import itertools
import pathlib
import re
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from agent_model import TOOL_FORMAT, make_agent_model  # noqa: E402
from claude_session import ClaudeSession  # noqa: E402
from codex_session import CodexSession  # noqa: E402
from engine_check import SKIP, read_options  # noqa: E402
from server_process import OWN_LOOPBACK, PATIENCE, Server, wait_until  # noqa: E402

NUM_WORKERS = 3


class Fleet:
    """A router and its workers, as a context."""

    def __init__(self, options, model):
        self._stack = contextlib.ExitStack()
        self._listen = f"{OWN_LOOPBACK}:0"
        self._programs = options.programs
        self._common = ("--model", model, "--admin-listen", self._listen, "--constraint-packages", options.packages)

    def __enter__(self):
        self._workers = [self._start_worker(self._listen) for _ in range(NUM_WORKERS)]
        self.router = self._stack.enter_context(Server(
            self._programs / "lockstep-router", *self._common, "--worker", ",".join(worker.addresses["grpc"] for worker in self._workers),
            "--listen", self._listen, "--tool-format", TOOL_FORMAT, "--model-alias", "*"))
        self.wait_for_workers()
        return self

    def __exit__(self, *error):
        return self._stack.__exit__(*error)

    def _start_worker(self, listen):
        return self._stack.enter_context(Server(self._programs / "lockstep-worker", *self._common, "--device", "cpu", "--threads", "1",
                                                "--kv-cache-tokens", "65536", "--listen", listen))

    def kill_worker(self, index):
        """And starts it again, at its address."""
        worker = self._workers[index]
        worker.process.kill()
        worker.process.wait()
        self._workers[index] = self._start_worker(worker.addresses["grpc"])

    def wait_for_workers(self):
        wait_until(lambda: self.metric(r'worker_state\{.*state="ready"') == NUM_WORKERS, "the workers are attached")

    def metric(self, pattern):
        """The sum of the router's series whose line matches."""
        with urllib.request.urlopen(f"http://{self.router.addresses['admin']}/metrics", timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match("lockstep_router_" + pattern, line))


class CountedKills:
    """Kills a worker at every so many events of all streams. The stream that brings the event waits for the kill, the others go on."""

    def __init__(self, fleet, events_per_kill):
        self._fleet, self._events_per_kill = fleet, events_per_kill
        self._num_events = itertools.count(1)
        self._lock = threading.Lock()
        self.count = 0

    def on_event(self):
        if next(self._num_events) % self._events_per_kill == 0:
            self.kill()

    def stop(self):
        """Ends kills that events do not bring."""

    def kill(self):
        with self._lock:
            self._fleet.wait_for_workers()
            self._fleet.kill_worker(self.count % NUM_WORKERS)
            self.count += 1


class TimedKills(CountedKills):
    """Kills a worker every so many seconds."""

    def __init__(self, fleet, seconds_per_kill):
        super().__init__(fleet, sys.maxsize)
        self._seconds = seconds_per_kill
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        due = time.monotonic() + self._seconds
        while not self._stopping.wait(max(0, due - time.monotonic())):
            due = max(due + self._seconds, time.monotonic())
            self.kill()

    def stop(self):
        self._stopping.set()
        self._thread.join(PATIENCE)


def play(address, number, on_event=lambda: None):
    """Its transcript, and how many calls it made."""
    session = (CodexSession if number % 2 else ClaudeSession)(address, number // 2, on_event)
    return session.play(), session.num_calls


def play_under_kills(address, number, on_event):
    """A session that breaks is one that differs."""
    try:
        return play(address, number, on_event)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"], 0


def play_all(options, play_one, numbers):
    with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
        return list(pool.map(play_one, numbers))


def first_difference(number, seen, expected):
    """Empty if there is none."""
    for turn, (one, other) in enumerate(zip(seen, expected)):
        if one != other:
            return f"session {number}, answer {turn}:\n{one}\nwithout kills:\n{other}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--distinct", type=int, default=20)
    parser.add_argument("--clients", type=int, default=8, help="sessions at the same time")
    parser.add_argument("--events-per-kill", type=int, default=400)
    parser.add_argument("--seconds-per-kill", type=float)
    options = read_options(parser)
    if options is None:
        return SKIP

    with tempfile.TemporaryDirectory() as folder:
        model = make_agent_model(options.model, folder)
        with Fleet(options, model) as fleet:
            expected = play_all(options, functools.partial(play, fleet.router.addresses["grpc"]), range(options.distinct))
            num_calls = sum(calls for _, calls in expected)
            # Seven turns of ten must call, and few end at the limit before that.
            assert num_calls >= 6 * options.distinct, num_calls
        with Fleet(options, model) as fleet:
            if options.seconds_per_kill:
                kills = TimedKills(fleet, options.seconds_per_kill)
            else:
                kills = CountedKills(fleet, options.events_per_kill)
            began = time.monotonic()
            address = fleet.router.addresses["grpc"]
            try:
                seen = play_all(options, lambda i: play_under_kills(address, i % options.distinct, kills.on_event), range(options.sessions))
            finally:
                kills.stop()  # it must start no worker behind the fleet's end
            seconds = time.monotonic() - began
            differences = [first_difference(i, transcript, expected[i % options.distinct][0]) for i, (transcript, _) in enumerate(seen)]
            differences = [difference for difference in differences if difference]
            resumed, failed = (fleet.metric(rf'requests_retried_total\{{.*outcome="{outcome}"') for outcome in ("resumed", "failed"))
    assert not differences, f"{len(differences)} of {options.sessions} sessions differ, with {kills.count} kills in {seconds:.0f} s; {differences[0]}"
    assert kills.count > 0 and resumed > 0 and failed == 0, (kills.count, resumed, failed)
    print(f"{options.sessions} sessions with {sum(calls for _, calls in seen)} calls and {kills.count} kills in {seconds:.0f} s: "
          f"{resumed:.0f} requests went on elsewhere, no byte differs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
