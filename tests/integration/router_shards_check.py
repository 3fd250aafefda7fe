"""Two routers share four workers, as processes: one router dies and comes back, and no client of the other one notices.

    router_shards_check.py --programs FOLDER --model FOLDER

Each worker has exactly one router. After `kill -9` of router 1 its workers stay alone for the wait, then router 0 stands in, with the same
bits. Router 1 returns and gets them back, while router 0 answers all the time. A router without workers of its own is not ready. Then a third
router comes.
"""

import argparse
import contextlib
import functools
import json
import pathlib
import re
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from asker import Asker  # noqa: E402
from server_process import OWN_LOOPBACK, PATIENCE, Server, completion_body, wait_until  # noqa: E402

NUM_WORKERS = 4
WAIT_SECONDS = 5
STREAMS = 4
NUM_TOKENS = 150
PROMPTS = [[3 + (7 * i + j) % 240 for j in range(12)] for i in range(8)]


def fetch(address, path):
    """Status and text of what is at the path."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ask(address, prompt):
    request = urllib.request.Request(f"http://{address}/v1/completions", completion_body(prompt, NUM_TOKENS), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=PATIENCE))["choices"][0]["text"]


class Router(Server):
    def __init__(self, options, shard, workers, addresses=None):
        addresses = addresses or {name: f"{OWN_LOOPBACK}:0" for name in ("grpc", "http", "admin")}
        super().__init__(options.programs / "lockstep-router", "--model", options.model, "--worker", ",".join(workers), "--shard", shard,
                         "--shard-takeover-wait", f"{WAIT_SECONDS}s", "--listen", addresses["grpc"], "--http-listen", addresses["http"],
                         "--admin-listen", addresses["admin"])

    def metric(self, pattern):
        """The sum of the series whose line matches."""
        lines = fetch(self.addresses["admin"], "/metrics")[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match("lockstep_router_" + pattern, line))

    def workers_in(self, state):
        lines = fetch(self.addresses["admin"], "/metrics")[1]
        return set(re.findall(rf'^lockstep_router_worker_state\{{.*state="{state}",worker="([^"]+)"\}} 1$', lines, re.MULTILINE))

    def leases(self):
        """Of own workers, and of those of others."""
        return tuple(self.metric(rf'shard_leases\{{.*owner="{owner}"') for owner in ("self", "other"))

    def ready(self):
        return fetch(self.addresses["admin"], "/healthz")[0] == 200


def start_worker(options):
    return Server(options.programs / "lockstep-worker", "--model", options.model, "--device", "cpu", "--threads", "1", "--listen", "127.0.0.1:0",
                  "--admin-listen", "127.0.0.1:0")


def check_idle_router(options, worker):
    """A router to which no worker belongs, beside the one that serves the worker."""
    for index in range(2):
        with Router(options, f"{index}/2", [worker]) as router:
            if router.metric(r'shard_workers\{.*owner="self"') == 1:
                continue  # it is refused, as the worker has a router of its own
            assert router.metric(r'shard_workers\{.*owner="other"') == 1
            assert router.metric(rf'shard_info(?=.*count="2")(?=.*index="{index}")') == 1
            wait_until(lambda router=router: router.workers_in("standby") == {worker}, "the worker left to the other router")
            status, text = fetch(router.addresses["admin"], "/healthz")
            assert status == 503 and "another router serves the worker" in text, (status, text)
            assert fetch(router.addresses["http"], "/ready")[0] == 503 and fetch(router.addresses["http"], "/health")[0] == 200
            try:
                answer = ask(router.addresses["http"], PROMPTS[0])
            except urllib.error.HTTPError as error:
                answer = error.code
            assert answer == 503, answer
            return
    raise AssertionError("every router owns the only worker")


def check_growth(options, stack, routers, workers, expected):
    """From two routers to three, as docs/operations.md says: first the old ones learn the new number, then the third one starts."""
    for i, router in enumerate(routers):
        assert router.stop() == 0
        routers[i] = stack.enter_context(Router(options, f"{i}/3", workers, router.addresses))
    wait_until(lambda: sum(sum(router.leases()) for router in routers) == NUM_WORKERS, "somebody serves every worker")
    assert sum(router.leases()[1] for router in routers) > 0, "nobody stands in for router 2"
    routers.append(stack.enter_context(Router(options, "2/3", workers)))
    wait_until(lambda: all(router.leases() == (router.metric(r'shard_workers\{.*owner="self"'), 0) for router in routers), "each router has its own workers")
    assert sum(router.leases()[0] for router in routers) == NUM_WORKERS and min(router.leases()[0] for router in routers) == 1
    for router in routers:
        assert expected == [ask(router.addresses["http"], prompt) for prompt in PROMPTS], "a router answers differently"
        assert router.stop() == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("programs", "model"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    options = parser.parse_args()

    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(start_worker(options)) for _ in range(NUM_WORKERS)]
        workers = [server.addresses["grpc"] for server in servers]
        first, second = (stack.enter_context(Router(options, f"{i}/2", workers)) for i in range(2))
        half = NUM_WORKERS / 2
        wait_until(lambda: first.leases() == second.leases() == (half, 0), "each router has its own workers")
        mine, others = first.workers_in("ready"), second.workers_in("ready")
        assert not mine & others and mine | others == set(workers), (mine, others)
        wait_until(lambda: first.workers_in("standby") == others and second.workers_in("standby") == mine, "each leaves the rest to the other")
        check_idle_router(options, next(iter(mine)))

        expected = [ask(first.addresses["http"], prompt) for prompt in PROMPTS]
        assert expected == [ask(second.addresses["http"], prompt) for prompt in PROMPTS], "the routers answer differently"
        askers = [Asker(functools.partial(ask, first.addresses["http"]), PROMPTS, expected, i) for i in range(STREAMS)]
        for asker in askers:
            asker.start()

        started = time.monotonic()
        second.process.kill()
        second.process.wait()
        wait_until(lambda: first.leases() == (half, half), "router 0 stands in")
        alone = time.monotonic() - started
        assert alone >= WAIT_SECONDS * 0.9, f"orphans were taken after {alone:.1f} s"
        for worker in others:  # and their answers are compared
            pattern = rf'worker_requests_total\{{.*worker="{re.escape(worker)}"'
            wait_until(lambda pattern=pattern: first.metric(pattern) >= 10, f"requests at {worker}")

        started = time.monotonic()
        second = stack.enter_context(Router(options, "1/2", workers, second.addresses))
        wait_until(lambda: second.leases() == (half, 0), "router 1 has its workers back")
        back = time.monotonic() - started
        assert second.workers_in("ready") == others and second.ready()
        wait_until(lambda: first.leases() == (half, 0) and first.workers_in("standby") == others, "router 0 stands in no more")
        assert expected == [ask(second.addresses["http"], prompt) for prompt in PROMPTS], "router 1 answers differently"

        answers = sum(asker.finish() for asker in askers)
        assert first.metric("shard_takeovers_total") == half and second.metric("shard_takeovers_total") == 0
        failed = first.metric(r'requests_total\{code="(UNAVAILABLE|INTERNAL|UNKNOWN|ABORTED|RESOURCE_EXHAUSTED)"')
        assert failed == 0, f"{failed} requests failed"
        check_growth(options, stack, [first, second], workers, expected)
    print(f"stood in after {alone:.1f} s, given back after {back:.1f} s, {answers} answers, none failed")


if __name__ == "__main__":
    sys.exit(main())
