"""Constrained requests over HTTP, to a router and two workers as processes.

    constrained_requests_check.py --programs FOLDER --model FOLDER --packages FOLDER

Outputs of a model that knows nothing fit their constraints, with the same tokens each time, also when the engines or a worker are killed in
between. Bad and hostile constraints get an error in time, and do not delay others. Without llguidance every constraint is refused by name.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from engine_check import SKIP, read_options  # noqa: E402
from server_process import OWN_LOOPBACK, PATIENCE, Server, wait_until  # noqa: E402

SCHEMA = {"type": "object", "additionalProperties": False, "required": ["name", "n"], "properties": {
    "name": {"type": "string", "maxLength": 10},
    "n": {"type": "array", "maxItems": 3, "items": {"type": "integer", "minimum": 0, "maximum": 99}}}}
REGEX = "[a-z]{2,6}( [a-z]{1,8}){1,3}"
CHOICES = ["yes", "no", "per\u00fcaps"]
SLOW = {"type": "string", "allOf": [{"pattern": "(a|b)*a(a|b){%d}" % (9 + i)} for i in range(24)]}


def fits_schema(text):
    value = json.loads(text)
    return (list(value) == ["name", "n"] and isinstance(value["name"], str) and len(value["n"]) <= 3
            and all(isinstance(number, int) and 0 <= number <= 99 for number in value["n"]))


CASES = [
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}, fits_schema),
    ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, fits_schema),
    ({"structured_outputs": {"regex": REGEX}}, lambda text: re.fullmatch(REGEX, text)),
    ({"guided_choice": CHOICES}, lambda text: text in CHOICES),
    ({"structured_outputs": {"grammar": 'start: "a" /[0-9]{1,3}/ ("," /[0-9]{1,2}/){0,2}'}},
     lambda text: re.fullmatch("a[0-9]{1,3}(,[0-9]{1,2}){0,2}", text)),
]
# Bodies, and what their errors say.
BAD = [
    ({"structured_outputs": {"regex": "(a"}}, "regex: "),
    ({"structured_outputs": {"regex": "a" * 5000}}, "regex: expected at most 4096 bytes"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"uniqueItems": True}}}}, "uniqueItems"),
    ({"guided_json": {"properties": {"a": {"enum": list(range(20_000))}}}}, "at /properties/a/enum: expected at most 10000"),
    ({"guided_json": {"$ref": "#"}}, "response_format: "),
    ({"structured_outputs": {"grammar": "root ::= x"}}, "grammar: expected a Lark grammar"),
    ({"structured_outputs": {"choice": []}}, "choice: expected 1 to 10000 texts"),
    ({"structured_outputs": {"regex": "a"}, "ignore_eos": True}, "ignore_eos: "),
    ({"structured_outputs": {"structural_tag": "x"}}, "structural_tag"),
]


class Api:
    def __init__(self, address):
        self._address = address

    def ask(self, **fields):
        body = json.dumps({"prompt": [3, 5, 7], "max_tokens": 80, "seed": 7, **fields}).encode()
        request = urllib.request.Request(f"http://{self._address}/v1/completions", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def text(self, **fields):
        status, answer = self.ask(**fields)
        assert status == 200, answer
        return answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]


def engines_of(process):
    """The constraint engines that a process has now."""
    found = []
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "constraints":
                    found.append(int(child))
    return found


def check_outputs(api):
    texts = {}
    num_whole = 0
    for number, (fields, fits) in enumerate(CASES):
        for temperature in (0, 1.5):
            text, reason = api.text(temperature=temperature, **fields)
            num_whole += reason == "stop"
            assert reason == "length" or fits(text), (fields, text)
            texts[number, temperature] = text, reason
    assert num_whole >= len(texts) * 3 // 4, texts
    return texts


def check_bad(api):
    for fields, words in BAD:
        status, answer = api.ask(**fields)
        assert status == 400 and words in answer["error"]["message"], (fields, status, answer)


def check_hostile(api, texts):
    """One tenant's slow schemas, while others ask."""
    ends = []

    def attack(number):
        start = time.monotonic()
        status, answer = api.ask(guided_json={**SLOW, "title": str(number)})
        ends.append((status, answer, time.monotonic() - start))

    threads = [threading.Thread(target=attack, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    status, answer = api.ask(max_tokens=4)  # token ids, no constraint
    assert status == 200, answer
    for thread in threads:
        thread.join()
    for status, answer, _ in ends:
        assert status == 400 and "takes more than 1s" in answer["error"]["message"], (status, answer)
    assert check_outputs(api) == texts
    return max(seconds for _, _, seconds in ends)


def check_kills(api, router, workers, texts):
    for process in (router.process, *(worker.process for worker in workers)):
        engines = engines_of(process)
        assert engines, "every process has an engine"
        for engine in engines:
            os.kill(engine, signal.SIGKILL)
        assert check_outputs(api) == texts, "a killed engine changes nothing"
    # A worker goes while constrained requests run on it.
    results = []
    fields = CASES[0][0]
    asking = [threading.Thread(target=lambda: results.append(api.text(temperature=1.5, **fields))) for _ in range(6)]
    for thread in asking:
        thread.start()
    workers[0].process.kill()
    for thread in asking:
        thread.join()
    assert results == [texts[0, 1.5]] * 6, (results, texts[0, 1.5])


def main():
    options = read_options(argparse.ArgumentParser())
    if options is None:
        return SKIP
    listen = f"{OWN_LOOPBACK}:0"

    def worker(*flags):
        return Server(options.programs / "lockstep-worker", "--model", options.model, "--device", "cpu", "--threads", "1",
                      "--kv-cache-tokens", "4096", "--listen", listen, "--admin-listen", listen, *flags)

    def router(addresses, *flags):
        return Server(options.programs / "lockstep-router", "--model", options.model, "--worker", ",".join(addresses), "--listen", listen,
                      "--admin-listen", listen, *flags)

    packages = ("--constraint-packages", options.packages)
    with worker(*packages) as first, worker(*packages) as second:
        workers = [first, second]
        with router([one.addresses["grpc"] for one in workers], *packages) as front:
            api = Api(front.addresses["grpc"])
            wait_until(lambda: api.ask(max_tokens=1)[0] == 200, "a worker is attached")
            texts = check_outputs(api)
            check_bad(api)
            slowest = check_hostile(api, texts)
            check_kills(api, front, workers, texts)
            # A router without an engine refuses by name.
            with router([second.addresses["grpc"]], "--constraint-packages", "off", "--takeover") as plain:
                other = Api(plain.addresses["grpc"])
                wait_until(lambda: other.ask(max_tokens=1)[0] == 200, "the worker is attached")
                status, answer = other.ask(**CASES[0][0])
                assert status == 400 and "no constraint engine" in answer["error"]["message"], answer
    with worker("--constraint-packages", "off") as plain, router([plain.addresses["grpc"]], *packages) as front:
        api = Api(front.addresses["grpc"])
        wait_until(lambda: api.ask(max_tokens=1)[0] == 200, "the worker is attached")
        status, answer = api.ask(**CASES[0][0])
        assert status == 400 and "no constraint engine" in answer["error"]["message"], answer
    print(f"{len(texts)} constrained outputs fit and stay the same; the slowest refusal took {slowest:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
