"""Asks an API for short completions without pause, in a process of its own, so that the test's own work does not slow it down.

As a script: ADDRESS NUM_THREADS. Prints a line once it begins. Ends once its standard input ends, and prints
{"seconds": [...], "errors": [...]}.
"""
import http.client
import json
import subprocess
import sys
import threading
import time


def ask(connection):
    body = json.dumps({"prompt": [1, 2, 3], "max_tokens": 4, "temperature": 0, "ignore_eos": True})
    connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200 and json.loads(text)["usage"]["completion_tokens"] == 4, (answer.status, text)


class Honest:
    """Every answer must be right. `seconds` has what each took, once the block has ended."""

    def __init__(self, address, num_threads=2):
        self.command = [sys.executable, __file__, address, str(num_threads)]
        self.seconds = []

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        return self

    def __exit__(self, *_):
        report = json.loads(self.process.communicate(timeout=120)[0])
        self.seconds = report["seconds"]
        assert not report["errors"], report["errors"]
        assert self.seconds, "nothing was answered"

    def p99(self):
        return sorted(self.seconds)[max(0, len(self.seconds) * 99 // 100 - 1)]


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    stopping, seconds, errors = threading.Event(), [], []

    def run():
        try:
            connection = http.client.HTTPConnection(host, int(port), timeout=60)
            asked = False
            while not (asked and stopping.is_set()):
                begun = time.monotonic()
                ask(connection)
                seconds.append(time.monotonic() - begun)
                asked = True
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=run) for _ in range(int(sys.argv[2]))]
    print("begins", flush=True)
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"seconds": seconds, "errors": errors}))


if __name__ == "__main__":
    main()
