"""A rolling restart of the workers, as processes: nobody who asks meanwhile notices.

    rolling_restart_check.py --programs FOLDER --model FOLDER --prometheus FILE

A router and two workers run under load over HTTP and gRPC, and a Prometheus scrapes all three. One worker after the other gets SIGTERM, ends, and
starts again at its address, each when the other is ready. No request may fail, and every answer must be what it was before.
"""

import argparse
import collections
import contextlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from monitoring_check import PATIENCE, fetch, prometheus, query

STREAMS = 4
PROMPTS = [[3 + (7 * i + j) % 240 for j in range(12)] for i in range(6)]
# What clients of `lockstep bench` see when Ctrl-C ends it.
GIVEN_UP = {"given up", "gRPC 1: "}


def wait_until(holds, what):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
        time.sleep(0.05)


class Program:
    """A server of ours, as a context: its addresses once it listens."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addresses = {}
        for line in self.process.stdout:
            if line.startswith("LISTENING"):
                self.addresses = dict(word.split("=") for word in line.split()[1:])
                break
        assert self.addresses, f"{command[0]} ended with {self.process.wait()}"
        # Somebody must read what else it prints.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM; waits for the drain. The exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def start_worker(options, listen="127.0.0.1:0", admin="127.0.0.1:0"):
    return Program(options.programs / "lockstep-worker", "--model", options.model, "--device", "cpu", "--threads", "1", "--listen", listen,
                   "--admin-listen", admin)


def ask(router, prompt):
    body = json.dumps({"prompt": prompt, "max_tokens": 24, "temperature": 0, "ignore_eos": True}).encode()
    request = urllib.request.Request(f"http://{router}/v1/completions", body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=PATIENCE))["choices"][0]["text"]


class Router:
    def __init__(self, addresses):
        self.addresses = addresses

    def metric(self, pattern):
        """The sum of the series whose line matches."""
        lines = fetch(self.addresses["admin"], "/metrics").splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(pattern, line))

    def ready_workers(self):
        return self.metric(r'lockstep_router_worker_state\{.*state="ready"')

    def tokens(self):
        return self.metric(r"lockstep_router_generation_tokens_total\b")

    def wait_for_tokens(self, count):
        target = self.tokens() + count
        wait_until(lambda: self.tokens() >= target, f"{count} more tokens")


@contextlib.contextmanager
def load(options, url, api, path):
    """`lockstep bench` until the context ends."""
    command = [str(options.programs / "lockstep"), "bench", "--url", url, "--api", api, "--streams", str(STREAMS), "--prompt", "8-64",
               "--output", "1-48", "--duration", "3600", "--seed", str(len(api)), "--json", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, output
    finally:
        process.kill()
        process.wait()


def check_load(path):
    run, = json.loads(path.read_text())["runs"]
    failures = {kind: count for kind, count in run["errors"].items() if not any(kind.startswith(known) for known in GIVEN_UP)}
    assert not failures, f"{path.stem}: {failures}"
    assert run["failed"] <= STREAMS and run["completed"] > 0, run
    return run["completed"]


class Asker(threading.Thread):
    """Asks the same things all the time, and keeps answers that differ from the first ones."""

    def __init__(self, router):
        super().__init__(daemon=True)
        self.router, self.expected = router, [ask(router, prompt) for prompt in PROMPTS]
        self.count, self.wrong, self.stopping = 0, collections.Counter(), threading.Event()

    def run(self):
        while not self.stopping.is_set():
            for prompt, expected in zip(PROMPTS, self.expected):
                try:
                    answer = ask(self.router, prompt)
                except OSError as error:
                    answer = repr(error)
                self.wrong[answer] += answer != expected
                self.count += 1

    def finish(self):
        self.stopping.set()
        self.join(PATIENCE)
        wrong = [answer for answer, count in self.wrong.items() if count]
        assert not wrong, f"of {self.count} answers some were others than before: {wrong[:3]}"
        return self.count


def restart(router, options, worker):
    """The worker that takes the place of `worker`, once both are ready again."""
    wait_until(lambda: router.ready_workers() == 2, "both workers ready")
    router.wait_for_tokens(200)
    code = worker.stop()
    assert code == 0, f"the worker ended with {code}"
    router.wait_for_tokens(200)  # of the other one alone
    worker = start_worker(options, worker.addresses["grpc"], worker.addresses["admin"])
    wait_until(lambda: router.ready_workers() == 2, "the worker back")
    return worker


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("programs", "model", "prometheus"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    options = parser.parse_args()

    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers = [stack.enter_context(start_worker(options)) for _ in range(2)]
        process = stack.enter_context(Program(
            options.programs / "lockstep-router", "--model", options.model, "--worker", ",".join(worker.addresses["grpc"] for worker in workers),
            "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"))
        router = Router(process.addresses)
        wait_until(lambda: router.ready_workers() == 2, "both workers ready")
        targets = {"lockstep-router": process.addresses["admin"], "worker-0": workers[0].addresses["admin"],
                   "worker-1": workers[1].addresses["admin"]}
        monitor = stack.enter_context(prometheus(options.prometheus, targets))
        asker = Asker(process.addresses["http"])
        asker.start()
        with load(options, process.addresses["http"], "completions", folder / "http.json"), \
                load(options, process.addresses["grpc"], "grpc", folder / "grpc.json"):
            for i in range(2):
                workers[i] = stack.enter_context(restart(router, options, workers[i]))
            router.wait_for_tokens(200)
            answers = asker.finish()
        requests = check_load(folder / "http.json") + check_load(folder / "grpc.json")
        wait_until(lambda: query(monitor, "sum(lockstep_router_worker_restarts_total)") == [2.0], "Prometheus saw both restarts")
        wait_until(lambda: query(monitor, "sum(up)") == [3.0], "Prometheus reaches all three")
        failed = query(monitor, 'sum(lockstep_router_requests_total{code=~"UNAVAILABLE|INTERNAL|UNKNOWN|ABORTED|RESOURCE_EXHAUSTED"})')
        assert failed in ([], [0.0]), f"requests failed: {failed}"
    print(f"two restarts, {requests} requests of the load and {answers} answers, none failed")


if __name__ == "__main__":
    sys.exit(main())
