"""A rolling restart of the workers, as processes: nobody who asks meanwhile notices.

    rolling_restart_check.py --programs FOLDER --model FOLDER --prometheus FILE

A router and two workers run under load over HTTP and gRPC, and a Prometheus scrapes all three. One worker after the other gets SIGTERM, ends, and
starts again at its address, each when the other is ready. No request may fail, and every answer must be what it was before.
"""

import argparse
import contextlib
import functools
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from monitoring_check import fetch, prometheus, query  # noqa: E402
from asker import Asker  # noqa: E402
from server_process import PATIENCE, Server, completion_body, wait_until  # noqa: E402

STREAMS = 4
NUM_TOKENS = 24
PROMPTS = [[3 + (7 * i + j) % 240 for j in range(12)] for i in range(6)]
# What clients of `lockstep bench` see when Ctrl-C ends it.
GIVEN_UP = {"given up", "gRPC 1: "}


def start_worker(options, listen="127.0.0.1:0", admin="127.0.0.1:0"):
    return Server(options.programs / "lockstep-worker", "--model", options.model, "--device", "cpu", "--threads", "1", "--listen", listen,
                   "--admin-listen", admin)


def ask_http(address, prompt):
    request = urllib.request.Request(f"http://{address}/v1/completions", completion_body(prompt, NUM_TOKENS), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=PATIENCE))["choices"][0]["text"]


def ask_grpc(program, address, prompt):
    done = subprocess.run([program, "--router", address, "--token-ids", ",".join(map(str, prompt)), "--max-tokens", str(NUM_TOKENS), "--temperature",
                           "0", "--ignore-eos", "--json"], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)["outputs"][0]["token_ids"]


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
        process = stack.enter_context(Server(
            options.programs / "lockstep-router", "--model", options.model, "--worker", ",".join(worker.addresses["grpc"] for worker in workers),
            "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"))
        router = Router(process.addresses)
        wait_until(lambda: router.ready_workers() == 2, "both workers ready")
        targets = {"lockstep-router": process.addresses["admin"], "worker-0": workers[0].addresses["admin"],
                   "worker-1": workers[1].addresses["admin"]}
        monitor = stack.enter_context(prometheus(options.prometheus, targets))
        asks = [functools.partial(ask_http, process.addresses["http"]),
                functools.partial(ask_grpc, options.programs / "lockstep-generate", process.addresses["grpc"])]
        askers = [Asker(ask, PROMPTS, [ask(prompt) for prompt in PROMPTS]) for ask in asks]
        for asker in askers:
            asker.start()
        with load(options, process.addresses["http"], "completions", folder / "http.json"), \
                load(options, process.addresses["grpc"], "grpc", folder / "grpc.json"):
            for i in range(2):
                workers[i] = stack.enter_context(restart(router, options, workers[i]))
            router.wait_for_tokens(200)
            answers = sum(asker.finish() for asker in askers)
        requests = check_load(folder / "http.json") + check_load(folder / "grpc.json")
        wait_until(lambda: query(monitor, "sum(lockstep_router_worker_restarts_total)") == [2.0], "Prometheus saw both restarts")
        wait_until(lambda: query(monitor, "sum(up)") == [3.0], "Prometheus reaches all three")
        failed = query(monitor, 'sum(lockstep_router_requests_total{code=~"UNAVAILABLE|INTERNAL|UNKNOWN|ABORTED|RESOURCE_EXHAUSTED"})')
        assert failed in ([], [0.0]), f"requests failed: {failed}"
    print(f"two restarts, {requests} requests of the load and {answers} answers, none failed")


if __name__ == "__main__":
    sys.exit(main())
