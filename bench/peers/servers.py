"""Servers as child processes of a benchmark: ready inside a `with`, gone after it."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

START_TIMEOUT = 240
LOCKSTEP_PROGRAMS = ("lockstep-router", "lockstep-template-renderer", "lockstep-worker")


class LockstepPorts:
    """The ports of a router and a worker on this machine, from `first` on."""

    def __init__(self, first):
        self.http, self.worker, self.worker_admin, self.grpc, self.router_admin = (f"127.0.0.1:{first + i}" for i in range(5))


def lockstep_commands(programs, model, ports, router_flags=(), worker_flags=()):
    """A worker with random weights, and a router in front of it."""
    return [[f"{programs}/lockstep-worker", "--model", model, "--load-format", "random", "--listen", ports.worker,
             "--admin-listen", ports.worker_admin, *worker_flags],
            [f"{programs}/lockstep-router", "--model", model, "--worker", ports.worker, "--listen", ports.grpc,
             "--admin-listen", ports.router_admin, "--http-listen", ports.http, *router_flags]]


def missing_programs(programs, names):
    return [name for name in names if not os.access(f"{programs}/{name}", os.X_OK)]


def renderer_problem(programs):
    """Why the router could not start its template renderer, or "". It gets an empty environment, so no LD_LIBRARY_PATH."""
    renderer = subprocess.run([f"{programs}/lockstep-template-renderer"], env={}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return renderer.stderr.strip() if renderer.returncode == 127 else ""


class Server:
    """The processes of one server. `url` is where it is loaded, `ready_url` what answers once it can be."""

    def __init__(self, commands, url, ready_url, environment=None):
        self.commands, self.url, self.ready_url, self.environment = commands, url, ready_url, environment

    def __enter__(self):
        self.processes, self.logs = [], []
        for command in self.commands:
            log = tempfile.NamedTemporaryFile("w", suffix=".log", delete=False)
            self.logs.append(log.name)
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True,
                                                   env=self.environment))
        try:
            self.seconds_to_start = self.wait_until_ready()
        except SystemExit:
            for log in self.logs:
                print(pathlib.Path(log).read_text()[-3000:], file=sys.stderr)
            self.__exit__()
            raise
        return self

    def wait_until_ready(self):
        start = time.monotonic()
        while time.monotonic() - start < START_TIMEOUT:
            for process in self.processes:
                if process.poll() is not None:
                    sys.exit(f"{process.args[0]} ended with {process.returncode}")
            try:
                urllib.request.urlopen(self.ready_url, timeout=2).read()
                return round(time.monotonic() - start, 1)
            except OSError:
                time.sleep(0.5)
        sys.exit(f"{self.ready_url} was not ready within {START_TIMEOUT} s")

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
