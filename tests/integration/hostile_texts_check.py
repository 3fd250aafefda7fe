"""A tenant sends the worst texts of a mebibyte that it can think of, again and again, and often goes before the answer. Another tenant must be
served meanwhile, and the router must end after SIGTERM.

    hostile_texts_check.py --programs FOLDER --model FOLDER

The model's tokenizer normalises texts (NFC). Prints how long the other tenant waited, without the attack and beside it.
"""

import argparse
import hashlib
import http.client
import itertools
import json
import multiprocessing
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server_process import PATIENCE, Server, wait_until  # noqa: E402

TEXT_BYTES = 1 << 20
BOUND_SECONDS = 10  # generous: a request waits for one text at most, which takes some tenths of a second
DRAIN_SECONDS = 1
NUM_ATTACKERS = 3
UNITS = ("\u0301", "\u0301\u0323", "\u0345\u0301\u0323\u0334", "\u0f73", "\u1161", "a", "ab", " ", "\n", "1", "!", "<|im_start|>", "<|im_start",
         "\u0bc6\u0bbe")


def post(address, key, path, body, wants_answer=True):
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        connection.request("POST", path, json.dumps(body, ensure_ascii=False).encode(),
                           {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        if not wants_answer:
            return 0
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def attack(address, first, num_texts):
    """Until the router refuses connections. Counts the texts that it sent."""
    texts = ["a" + unit * (TEXT_BYTES // len(unit.encode()) - 1) for unit in UNITS]
    number = first
    while True:
        body = {"messages": [{"role": "user", "content": texts[number % len(texts)]}]} if number % 4 == 0 else {"prompt": texts[number % len(texts)]}
        try:
            post(address, "attacker", "/tokenize", body, wants_answer=number % 3 > 0)
        except ConnectionRefusedError:
            return
        except (OSError, http.client.HTTPException):
            pass
        with num_texts.get_lock():
            num_texts.value += 1
        number += 1


def honest(address, count, is_enough=lambda: True):
    """Sorted seconds of so many short and long requests, or of more until it is enough."""
    times = []
    for number in itertools.count():
        if number >= count and is_enough():
            return sorted(times)
        body = {"prompt": "Once upon a time " * (6000 if number % 4 == 0 else 1)}
        begin = time.monotonic()
        status = post(address, "honest", "/tokenize", body)
        times.append(time.monotonic() - begin)
        assert status == 200, f"status {status}"


def describe(times):
    return f"p50 {1000 * times[len(times) // 2]:.0f} ms, p99 {1000 * times[len(times) * 99 // 100]:.0f} ms, longest {1000 * times[-1]:.0f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        tenants = pathlib.Path(scratch) / "tenants.json"
        tenants.write_text(json.dumps({"tenants": [{"name": name, "key_sha256": [hashlib.sha256(name.encode()).hexdigest()]}
                                                   for name in ("honest", "attacker")]}), encoding="utf-8")
        with Server(options.programs / "lockstep-worker", "--model", options.model, "--device", "cpu", "--threads", "1", "--listen", "127.0.0.1:0",
                    "--admin-listen", "127.0.0.1:0") as worker, \
             Server(options.programs / "lockstep-router", "--model", options.model, "--worker", worker.addresses["grpc"], "--listen", "127.0.0.1:0",
                    "--admin-listen", "127.0.0.1:0", "--tenants", tenants, "--drain-timeout", f"{DRAIN_SECONDS}s") as router:
            address = router.addresses["grpc"]
            alone = honest(address, 40)
            print("alone: ", describe(alone))
            num_texts = multiprocessing.Value("i", 0)
            attackers = [multiprocessing.Process(target=attack, args=(address, 5 * i, num_texts), daemon=True) for i in range(NUM_ATTACKERS)]
            for attacker in attackers:
                attacker.start()
            wait_until(lambda: num_texts.value >= NUM_ATTACKERS, "the attack comes")
            beside = honest(address, 120, lambda: num_texts.value >= 3 * len(UNITS))
            print(f"beside {num_texts.value} texts:", describe(beside))
            assert beside[-1] < BOUND_SECONDS, f"a request waited {beside[-1]:.1f} s"
            begin = time.monotonic()
            code = router.stop()
            seconds = time.monotonic() - begin
            print(f"the router ended with {code} after {seconds:.1f} s")
            assert seconds < DRAIN_SECONDS + BOUND_SECONDS
            for attacker in attackers:
                attacker.join(PATIENCE)
                assert attacker.exitcode == 0, f"an attacker ended with {attacker.exitcode}"


if __name__ == "__main__":
    main()
