"""Router and worker as processes of a test, for the checks in Python."""

import json
import os
import signal
import subprocess
import threading
import time

PATIENCE = 90  # seconds
# A loopback address that belongs to this process. Other tests take ports of 127.0.0.1, and one might take that of a server which is down for a
# moment and will listen there again.
OWN_LOOPBACK = f"127.{1 + os.getpid() // 254 // 256 % 254}.{os.getpid() // 254 % 256}.{1 + os.getpid() % 254}"


def wait_until(holds, what):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
        time.sleep(0.05)


class Server:
    """A server of ours, as a context: its addresses once it listens. Killed when the context ends."""

    def __init__(self, *command, env=None):
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.log = []
        # Somebody must read what it prints.
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self.reader.start()
        self.addresses = {}
        for line in self.process.stdout:
            if line.startswith("LISTENING"):
                self.addresses = dict(word.split("=") for word in line.split()[1:])
                break
        if not self.addresses:
            code = self.process.wait()
            self.reader.join(PATIENCE)
            raise AssertionError(f"{command[0]} ended with {code}:\n{''.join(self.log)}")
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


def completion_body(prompt, num_tokens):
    """Of a request for a greedy completion with this many tokens."""
    return json.dumps({"prompt": prompt, "max_tokens": num_tokens, "temperature": 0, "ignore_eos": True}).encode()
