"""Servers as child processes of a benchmark: ready inside a `with`, gone after it."""

import http.client
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


def programs_problem(programs, names):
    """Why these programs cannot run from the folder `programs`, or ""."""
    renderer = "lockstep-template-renderer"  # Python runs it
    missing = [name for name in names if not os.access(f"{programs}/{name}", os.R_OK if name == renderer else os.X_OK)]
    if missing:
        return f"these programs are missing or not executable: {', '.join(missing)}"
    if renderer not in names:
        return ""
    jinja = subprocess.run(["/usr/bin/python3", "-I", "-c", "import jinja2"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                           timeout=60)
    return "" if jinja.returncode == 0 else f"chat templates need python3-jinja2: {jinja.stderr.strip()}"


class Server:
    """The processes of one server. `url` is where it is loaded, `ready_url` what answers once it can be."""

    def __init__(self, commands, url, ready_url, environment=None):
        self.commands, self.url, self.ready_url, self.environment = commands, url, ready_url, environment

    def __enter__(self):
        self.processes, self.logs = [], []
        try:
            for command in self.commands:
                self.logs.append(tempfile.NamedTemporaryFile("w+", suffix=".log"))
                self.processes.append(subprocess.Popen(command, stdout=self.logs[-1], stderr=self.logs[-1],
                                                       start_new_session=True, env=self.environment))
            self.seconds_to_start = self.wait_until_ready()
        except BaseException:
            for log in self.logs:
                print(pathlib.Path(log.name).read_text()[-3000:], file=sys.stderr)
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
            except (OSError, http.client.HTTPException):
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
                pass
            # Also what a server has started and left behind.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        for log in self.logs:
            log.close()
