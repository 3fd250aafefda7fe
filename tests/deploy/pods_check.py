"""Starts the pods of every overlay of deploy/kubernetes as processes, with their own flags, and does to them what a cluster would.

    pods_check.py --programs FOLDER

Only ports, the names of workers, folders and the device differ from the manifests. Routers also check their own arguments, where only
folders differ. In one overlay the model is a GGUF file, otherwise a folder. One worker runs for each that the routers name. All probes must pass, and a client that connects as the overlay wants it
must get an answer. Monitors find metrics, and the adapter's queries find every series that they name. Then the workers drain: the routers
must live and not be ready. With TLS, certificates come from docs/examples/make_certificates. Ends with 77 where kubectl, kubernetes-validate or grpcio is missing (deploy/fetch-kubectl, deploy/fetch-clients).
"""

import argparse
import contextlib
import copy
import hashlib
import json
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from manifests import (ROOT, SKIP, adapter_rules, container_of, flags_of, installations, name_of, of_kind, program_of, routers_of, worker_names,
                       workers_of, workloads)

sys.path.insert(0, str(ROOT / "tests" / "support"))
from gguf_file import write_gguf  # noqa: E402
from server_process import PATIENCE, Server, completion_body, wait_until  # noqa: E402

sys.path.append(str(ROOT / "build" / "clients"))
try:
    import grpc
except ImportError:
    print("no grpcio: skipped")
    sys.exit(SKIP)

MODEL = ROOT / "tests" / "golden" / "tiny-llama"
GGUF_INSTALLATION = "cpu"  # where the model is a GGUF file
STEP_PORT = 50061
POD_INDEX = "metadata.labels['apps.kubernetes.io/pod-index']"
KEY = "the-key-of-this-test"
SERVING = b"\x08\x01"  # a grpc.health.v1.HealthCheckResponse


class Refused(Exception):
    """The answer of a probe that fails."""


# --- what a kubelet does ---

def grpc_probe(address, service):
    """grpc.health.v1.Health.Check; the request is a message with one field, the service's name."""
    request = b"\x0a" + bytes([len(service)]) + service.encode()
    with grpc.insecure_channel(address) as channel:
        try:
            answer = channel.unary_unary("/grpc.health.v1.Health/Check")(request, timeout=PATIENCE)
        except grpc.RpcError as error:
            raise Refused(f"{service}: {error.code().name}") from error
    if answer != SERVING:
        raise Refused(f"{service}: not serving")


def get(url, context=None, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE, context=context) as response:
            return response.read().decode()
    except (urllib.error.URLError, OSError) as error:
        raise Refused(f"{url}: {error}") from error


def unverified():
    """A kubelet's probes check no certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Pod:
    """A container of a workload as a process. `arguments` are its own, changed for this machine."""

    def __init__(self, stack, programs, container, arguments):
        self.container = container
        self.server = stack.enter_context(Server(programs / program_of(container), *arguments))
        flags, addresses = flags_of(container), self.server.addresses
        asked = [*flags["listen"].split(","), flags["admin-listen"]]
        real = [addresses["grpc"], *filter(None, addresses.get("http", "").split(",")), addresses["admin"]]
        # Of a port of the container: where the process listens instead.
        self.addresses = {int(address.rsplit(":", 1)[1]): instead.replace("0.0.0.0", "127.0.0.1")
                          for address, instead in zip(asked, real, strict=True)}

    def probe(self, kind):
        """Raises Refused if the probe fails."""
        probe = self.container[kind]
        if "grpc" in probe:
            grpc_probe(self.addresses[probe["grpc"]["port"]], probe["grpc"].get("service", ""))
        else:
            asked = probe["httpGet"]
            scheme = asked.get("scheme", "HTTP").lower()
            get(f"{scheme}://{self.addresses[asked['port']]}{asked['path']}", unverified() if scheme == "https" else None)

    def ready(self):
        try:
            self.probe("readinessProbe")
        except Refused:
            return False
        return True


# --- this machine ---

def make_volumes(folder, gguf):
    """What the volumes hold, by the path at which containers mount them. `gguf`: the model is a GGUF file."""
    made = folder / "certificates"
    # The names that clients and the router expect; see the head of the component.
    subprocess.run([ROOT / "docs" / "examples" / "make_certificates", made, "localhost", "lockstep-worker"], check=True, stdout=subprocess.DEVNULL)
    for name in ("router", "worker"):
        volume = folder / name
        (volume / "tls").mkdir(parents=True)
        for source, target in ((f"{name}.pem", "tls.crt"), (f"{name}.key", "tls.key"), ("authority.pem", "ca.crt")):
            (volume / "tls" / target).write_bytes((made / source).read_bytes())
        (volume / "models").mkdir()
        if gguf:
            write_gguf(MODEL, volume / "models" / "model")
        else:
            (volume / "models" / "model").symlink_to(MODEL)
        (volume / "tenants").mkdir()
        digest = hashlib.sha256(KEY.encode()).hexdigest()
        (volume / "tenants" / "tenants.json").write_text(json.dumps({"tenants": [{"name": "test", "key_sha256": [digest]}]}))
    return made / "authority.pem"


def own_arguments(container, volumes, number):
    """The arguments of pod `number` with folders of this machine."""
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    fields = {variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"] for variable in container.get("env", [])}
    changed = []
    for argument in container["args"]:
        flag, _, value = argument.partition("=")
        if any(value.startswith(mount + "/") for mount in mounts):
            value = f"{volumes}{value}"
        for name, path in fields.items():
            assert path == POD_INDEX, f"{name}: this test does not know {path}"
            value = value.replace(f"$({name})", str(number))
        changed.append(f"{flag}={value}" if value else flag)
    return changed


def arguments_here(container, volumes, worker_ports=(), number=0):
    """The same, with ports that are free, the workers of this machine, and no GPU."""
    changed = []
    for argument in own_arguments(container, volumes, number):
        flag, _, value = argument.partition("=")
        if flag.endswith("listen"):
            value = value.rsplit(":", 1)[0] + ":0"  # the host stays: it decides what a program refuses
        elif flag == "--worker":
            kind = "dns:///" if value.startswith("dns:///") else ""
            value = ",".join(f"{kind}localhost:{port}" for port in worker_ports)
        elif flag == "--device":
            value = "cpu"  # that a worker has this flag is all that this machine can tell
        changed.append(f"{flag}={value}" if value else flag)
    return changed


def check_config(programs, container, volumes, number):
    """A router accepts its own arguments."""
    done = subprocess.run([programs / program_of(container), *own_arguments(container, volumes, number), "--check-config"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- checks ---

def ask(pod, authority):
    """A completion over the port for HTTP: with TLS, whose certificate is checked, and a key where the overlay wants them."""
    tls = "tls-cert" in flags_of(pod.container)
    host, port = pod.addresses[8000].rsplit(":", 1)
    url = f"https://localhost:{port}" if tls else f"http://{host}:{port}"
    headers = {"Content-Type": "application/json"}
    context = ssl.create_default_context(cafile=authority) if tls else None

    def complete():
        request = urllib.request.Request(url + "/v1/completions", completion_body([3, 4, 5], 8), headers)
        return json.load(urllib.request.urlopen(request, timeout=PATIENCE, context=context))

    if tls:
        try:
            complete()
            raise AssertionError("the router answers without a key")
        except urllib.error.HTTPError as error:
            assert error.code == 401, error
        headers["Authorization"] = f"Bearer {KEY}"
    assert complete()["usage"]["completion_tokens"] == 8


def check_monitors(objects, pods):
    """Metrics are where monitors look; the adapter's queries name series that are there."""
    text = ""
    for pod in pods:
        port, = (port["containerPort"] for port in pod.container["ports"] if port["name"] == "metrics")
        paths = {endpoint["path"] for monitor in of_kind(objects, "ServiceMonitor", "PodMonitor")
                 for endpoint in monitor["spec"].get("endpoints", []) + monitor["spec"].get("podMetricsEndpoints", [])}
        for path in paths or {"/metrics"}:
            text += get(f"http://{pod.addresses[port]}{path}")
    if of_kind(objects, "HorizontalPodAutoscaler"):
        missing = [selector for rule in adapter_rules() for selector in missing_series(rule["metricsQuery"], text)]
        assert not missing, f"the adapter asks for what nothing exports: {missing}"


# Only a model with several KV groups has it, and the model of this check has one.
OPTIONAL_SERIES = ("lockstep_router_kv_group_blocks",)


def missing_series(query, text):
    """Selectors of a query that no line of /metrics answers. Each alternative of a label must be there."""
    for name, matchers in re.findall(r"\b(lockstep_\w+)\{([^}]*)\}", query):
        if name in OPTIONAL_SERIES:
            continue
        labels = re.findall(r'(\w+)=~?"([^"]*)"', matchers)
        wanted = [f'{label}="{value}"' for label, values in labels for value in values.split("|")] or [""]
        for one in wanted:
            if not re.search(rf"^{name}\{{[^}}]*{re.escape(one)}", text, re.MULTILINE):
                yield f"{name}{{{one}}}"


def check_probes_can_fail(pods):
    """A name or a path that is wrong is noticed."""
    for pod in pods:
        wrong = copy.copy(pod)
        wrong.container = copy.deepcopy(pod.container)
        probe = wrong.container["readinessProbe"]
        if "grpc" in probe:
            probe["grpc"]["service"] = "lockstep.v1.Generator"
        else:
            probe["httpGet"]["path"] = "/readyz"
        assert not wrong.ready(), probe


def check_installation(objects, programs, gguf):
    router, worker = container_of(routers_of(objects)), container_of(workers_of(objects))
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        authority = make_volumes(folder, gguf)
        numbers = range(routers_of(objects)["spec"]["replicas"])
        for number in numbers:
            check_config(programs, router, folder / "router", number)
        workers = [Pod(stack, programs, worker, arguments_here(worker, folder / "worker")) for _ in worker_names(objects)]
        ports = [pod.addresses[STEP_PORT].rsplit(":", 1)[1] for pod in workers]
        routers = [Pod(stack, programs, router, arguments_here(router, folder / "router", ports, number))
                   for number in numbers]
        for pod in routers:
            wait_until(pod.ready, "the router ready")
        for pod in workers + routers:
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                pod.probe(kind)
        check_probes_can_fail(workers + routers)
        for pod in routers:
            ask(pod, authority)
        check_monitors(objects, workers + routers)
        stop(workers)
        for pod in routers:
            wait_until(lambda: not pod.ready(), "the router not ready without a worker")
            pod.probe("livenessProbe")
        stop(routers)


def stop(pods):
    for pod in pods:
        code = pod.server.stop()
        assert code == 0, f"{program_of(pod.container)}: SIGTERM ends it with {code}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    programs = parser.parse_args().programs.resolve()
    assert list(missing_series('sum(lockstep_x{state=~"a|b",<<.LabelMatchers>>})', 'lockstep_x{state="a"} 1')) == ['lockstep_x{state="b"}']
    for name, objects in installations().items():
        try:
            check_installation(objects, programs, gguf=name == GGUF_INSTALLATION)
        except (AssertionError, Refused) as error:
            sys.exit(f"{name}: {error}")
        print(f"{name}: {', '.join(map(name_of, workloads(objects)))} start, become ready, answer and drain")
    return 0


if __name__ == "__main__":
    sys.exit(main())
