"""Checks the Kubernetes manifests of deploy/kubernetes against schemas, each other and the programs. No cluster is needed.

    kubernetes_check.py --programs FOLDER

Every overlay is built with kustomize. What kustomize and the schemas cannot know is checked here: flags, ports and probes are those of
the programs, selectors select, no port is open to others than it should be, and pods have time to drain. Planted mistakes show that each
check can fail. Ends with 77 where kubectl or kubernetes-validate is missing (deploy/fetch-kubectl, deploy/fetch-clients).
"""

import argparse
import copy
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
PACKAGES = ROOT / "build" / "clients-kubernetes"
SKIP = 77
TEARDOWN_SECONDS = 15
PROGRAMS = {"lockstep-router": "lockstep-router", "lockstep-worker": "lockstep-worker", "lockstep-worker-cuda": "lockstep-worker"}
# Health services that answer with "serving", by program; "" is the whole process.
HEALTH_SERVICES = {"lockstep-router": {"", "lockstep.v1.Generation"}, "lockstep-worker": {"", "lockstep.worker.v1.Worker"}}
HEALTH_PATHS = {"/healthz"}
STEP_PORT = 50061

LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
SELECTOR = {"type": "object", "properties": {"matchLabels": LABELS}, "required": ["matchLabels"], "additionalProperties": False}
ENDPOINTS = {"type": "array", "minItems": 1, "items": {
    "type": "object", "required": ["port"], "additionalProperties": False,
    "properties": {"port": {"type": "string"}, "path": {"type": "string"}, "interval": {"type": "string", "pattern": r"^\d+s$"},
                   "scheme": {"enum": ["http", "https"]}}}}


def custom_schema(kind, endpoints):
    """Of a custom resource of the Prometheus operator, as far as our manifests use it."""
    metadata = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "labels": LABELS}, "additionalProperties": False}
    spec = {"type": "object", "required": ["selector", endpoints], "additionalProperties": False,
            "properties": {"selector": SELECTOR, "jobLabel": {"type": "string"}, endpoints: ENDPOINTS}}
    return {"type": "object", "required": ["apiVersion", "kind", "metadata", "spec"], "additionalProperties": False,
            "properties": {"apiVersion": {"const": "monitoring.coreos.com/v1"}, "kind": {"const": kind}, "metadata": metadata, "spec": spec}}


CUSTOM = {"ServiceMonitor": custom_schema("ServiceMonitor", "endpoints"), "PodMonitor": custom_schema("PodMonitor", "podMetricsEndpoints")}


def build(kubectl, overlay):
    done = subprocess.run((kubectl, "kustomize", overlay), capture_output=True, text=True)
    assert done.returncode == 0, f"{overlay.name}: {done.stderr}"
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(objects, *kinds):
    return [one for one in objects if one["kind"] in kinds]


def workloads(objects):
    return of_kind(objects, "Deployment", "StatefulSet")


def name_of(one):
    return f"{one['kind']}/{one['metadata']['name']}"


def pod_labels(workload):
    return workload["spec"]["template"]["metadata"]["labels"]


def container_of(workload):
    container, = workload["spec"]["template"]["spec"]["containers"]
    return container


def program_of(container):
    return PROGRAMS[container["image"].split(":")[0]]


def flags_of(container):
    return dict((argument.removeprefix("--").split("=", 1) + [""])[:2] for argument in container["args"])


def selected(objects, labels):
    return [one for one in workloads(objects) if labels.items() <= pod_labels(one).items()]


def seconds(text):
    match = re.fullmatch(r"(\d+)(s|m)", text)
    assert match, f"not a time: {text}"
    return int(match[1]) * {"s": 1, "m": 60}[match[2]]


# --- checks: each yields what is wrong ---

def check_schemas(objects):
    builtin = [one for one in objects if one["kind"] not in CUSTOM]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump_all(builtin, file)
        file.flush()
        done = subprocess.run((sys.executable, PACKAGES / "bin" / "kubernetes-validate", "--strict", file.name), capture_output=True, text=True,
                              env={"PYTHONPATH": str(PACKAGES), "PYTHONDONTWRITEBYTECODE": "1"})
        if done.returncode != 0:
            yield "schema: " + (done.stdout + done.stderr).replace(file.name, "")
    for one in objects:
        if one["kind"] in CUSTOM:
            for error in jsonschema.Draft202012Validator(CUSTOM[one["kind"]]).iter_errors(one):
                yield f"schema: {name_of(one)}: {error.message}"


def check_flags(objects, known_flags):
    for workload in workloads(objects):
        container = container_of(workload)
        program = program_of(container)
        for flag in flags_of(container):
            if flag.replace("-", "_") not in known_flags[program]:
                yield f"{name_of(workload)}: {program} has no flag --{flag}"


def check_ports(objects):
    for workload in workloads(objects):
        container = container_of(workload)
        listening = {int(value.rsplit(":", 1)[1]) for flag, value in flags_of(container).items() if flag.endswith("listen")}
        declared = {port["containerPort"] for port in container["ports"]}
        if listening != declared:
            yield f"{name_of(workload)}: listens at {sorted(listening)}, but its ports are {sorted(declared)}"
        worker = flags_of(container).get("worker")
        if worker and f":{STEP_PORT}" not in worker:
            yield f"{name_of(workload)}: workers have another port than {worker}"


def check_probes(objects):
    for workload in workloads(objects):
        container = container_of(workload)
        flags = flags_of(container)
        admin_port = int(flags["admin-listen"].rsplit(":", 1)[1])
        ports = {port["containerPort"] for port in container["ports"]}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container.get(kind)
            if probe is None:
                yield f"{name_of(workload)}: no {kind}"
                continue
            how, = (key for key in ("grpc", "httpGet", "tcpSocket") if key in probe)
            if probe[how]["port"] not in ports:
                yield f"{name_of(workload)}: {kind} asks at port {probe[how]['port']}, where nothing listens"
            if how == "grpc" and probe[how].get("service", "") not in HEALTH_SERVICES[program_of(container)]:
                yield f"{name_of(workload)}: {kind} asks for the unknown service {probe[how]['service']}"
            if how == "grpc" and "tls-cert" in flags:
                yield f"{name_of(workload)}: {kind} speaks gRPC without TLS to a port with TLS"
            if how == "httpGet" and (probe[how]["port"], probe[how]["path"]) not in {(admin_port, path) for path in HEALTH_PATHS}:
                yield f"{name_of(workload)}: {kind} asks for {probe[how]['path']} at port {probe[how]['port']}"


def check_services(objects):
    for service in of_kind(objects, "Service"):
        pods = selected(objects, service["spec"]["selector"])
        if len(pods) != 1:
            yield f"{name_of(service)}: selects {len(pods)} workloads"
            continue
        ports = {port["name"]: port["containerPort"] for port in container_of(pods[0])["ports"]}
        for port in service["spec"]["ports"]:
            if ports.get(port["targetPort"]) != port["port"]:
                yield f"{name_of(service)}: port {port['port']} leads to {ports.get(port['targetPort'])}"
    for stateful in of_kind(objects, "StatefulSet"):
        headless = [one for one in of_kind(objects, "Service") if one["spec"].get("clusterIP") == "None"]
        if stateful["spec"]["serviceName"] not in [one["metadata"]["name"] for one in headless]:
            yield f"{name_of(stateful)}: no headless Service {stateful['spec']['serviceName']}"
    for router in of_kind(objects, "Deployment"):
        host = flags_of(container_of(router))["worker"].removeprefix("dns:///").split(":")[0]
        if host not in [one["metadata"]["name"] for one in of_kind(objects, "Service")]:
            yield f"{name_of(router)}: no Service has the workers' name {host}"


def check_selectors(objects):
    for one in of_kind(objects, "PodDisruptionBudget", "NetworkPolicy", "PodMonitor", "ServiceMonitor"):
        labels = (one["spec"].get("selector") or one["spec"].get("podSelector"))["matchLabels"]
        if one["kind"] == "ServiceMonitor":
            found = [service for service in of_kind(objects, "Service") if labels.items() <= service["metadata"]["labels"].items()]
            names = {port["name"] for service in found for port in service["spec"]["ports"]}
        else:
            found = selected(objects, labels)
            names = {port["name"] for workload in found for port in container_of(workload)["ports"]}
        if len(found) != 1:
            yield f"{name_of(one)}: selects {len(found)} objects"
        for endpoint in one["spec"].get("endpoints", []) + one["spec"].get("podMetricsEndpoints", []):
            if endpoint["port"] not in names:
                yield f"{name_of(one)}: no port {endpoint['port']}"
    for scaler in of_kind(objects, "HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        if f"{target['kind']}/{target['name']}" not in [name_of(one) for one in workloads(objects)]:
            yield f"{name_of(scaler)}: scales {target['name']}, which is not there"


def check_network(objects):
    routers = {"app.kubernetes.io/name": "lockstep-router"}
    for workload in workloads(objects):
        policies = [one for one in of_kind(objects, "NetworkPolicy")
                    if one["spec"]["podSelector"]["matchLabels"].items() <= pod_labels(workload).items()]
        rules = [rule for policy in policies for rule in policy["spec"]["ingress"]]
        allowed = {port["port"] for rule in rules for port in rule["ports"]}
        ports = {port["containerPort"] for port in container_of(workload)["ports"]}
        if allowed != ports:
            yield f"{name_of(workload)}: NetworkPolicies open {sorted(allowed)} of its ports {sorted(ports)}"
        for rule in rules:
            if STEP_PORT in [port["port"] for port in rule["ports"]] and rule.get("from") != [{"podSelector": {"matchLabels": routers}}]:
                yield f"{name_of(workload)}: others than routers reach the step port"


def check_draining(objects):
    for workload in workloads(objects):
        container = container_of(workload)
        flags = flags_of(container)
        drain = seconds(flags.get("drain-timeout") or flags["drain-grace"])
        command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["/bin/sleep", "0"])
        needed = int(command[1]) + drain + TEARDOWN_SECONDS
        grace = workload["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", 30)
        if grace < needed or (workload["kind"] == "Deployment" and grace < needed):
            yield f"{name_of(workload)}: {grace} s to end, but it needs {needed}"
        if workload["kind"] == "Deployment" and int(command[1]) < 5:
            yield f"{name_of(workload)}: no preStop that lets endpoints forget the pod"


def check_security(objects):
    for workload in workloads(objects):
        pod = workload["spec"]["template"]["spec"]
        container = container_of(workload)
        context = container.get("securityContext", {})
        wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        if context != wanted or not pod["securityContext"].get("runAsNonRoot") or pod["securityContext"].get("runAsUser", 0) == 0:
            yield f"{name_of(workload)}: runs with more rights than it needs"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{name_of(workload)}: gets a token of the cluster"
        flags = flags_of(container)
        if ("insecure" in flags) == ("tls-cert" in flags):
            yield f"{name_of(workload)}: expected either --insecure or TLS"
        if "tls-cert" in flags and program_of(container) == "lockstep-router" and not {"tenants", "worker-tls-ca", "worker-tls-cert"} <= flags.keys():
            yield f"{name_of(workload)}: TLS without keys of tenants, or without TLS to the workers"
        if ":" not in container["image"] or container["image"].endswith(":latest"):
            yield f"{name_of(workload)}: the image has no version"
        mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
        for flag, value in flags.items():
            if value.startswith("/") and not any(value.startswith(mount + "/") for mount in mounts):
                yield f"{name_of(workload)}: --{flag}={value} lies in no volume"
        if {mount["name"] for mount in container["volumeMounts"]} != {volume["name"] for volume in pod["volumes"]}:
            yield f"{name_of(workload)}: mounts and volumes differ"


def check_scaling(objects, documented):
    rules = yaml.safe_load((KUBERNETES / "components" / "autoscaling" / "adapter-rules.yaml").read_text())["rules"]["external"]
    served = {rule["name"]["as"] for rule in rules}
    for rule in rules:
        for name in re.findall(r"lockstep_\w+", rule["metricsQuery"] + " " + rule["seriesQuery"]):
            if name not in documented:
                yield f"adapter-rules.yaml: nothing exports {name}"
    for scaler in of_kind(objects, "HorizontalPodAutoscaler"):
        for metric in scaler["spec"]["metrics"]:
            if metric["external"]["metric"]["name"] not in served:
                yield f"{name_of(scaler)}: no rule of the adapter serves {metric['external']['metric']['name']}"


def all_errors(objects, known_flags, documented):
    yield from check_schemas(objects)
    yield from check_flags(objects, known_flags)
    for check in (check_ports, check_probes, check_services, check_selectors, check_network, check_draining, check_security):
        yield from check(objects)
    yield from check_scaling(objects, documented)


# --- planted mistakes ---

def router(objects):
    return next(one for one in workloads(objects) if one["kind"] == "Deployment")


def worker(objects):
    return next(one for one in workloads(objects) if one["kind"] == "StatefulSet")


def named(objects, kind, name):
    return next(one for one in of_kind(objects, kind) if one["metadata"]["name"] == name)


def replace_argument(workload, old, new):
    arguments = container_of(workload)["args"]
    arguments[arguments.index(old)] = new


MISTAKES = {
    "terminationGracePeriodSecond": lambda o: router(o)["spec"]["template"]["spec"].update(terminationGracePeriodSecond=60),
    "has no flag --drain-time": lambda o: replace_argument(router(o), "--drain-timeout=30s", "--drain-time=30s") or
        container_of(router(o))["args"].append("--drain-timeout=30s"),
    "but its ports are": lambda o: replace_argument(worker(o), "--admin-listen=0.0.0.0:9091", "--admin-listen=0.0.0.0:9092"),
    "unknown service lockstep.v1.Worker": lambda o: container_of(worker(o))["readinessProbe"]["grpc"].update(service="lockstep.v1.Worker"),
    "where nothing listens": lambda o: container_of(worker(o))["livenessProbe"]["grpc"].update(port=50062),
    "no startupProbe": lambda o: container_of(worker(o)).pop("startupProbe"),
    "leads to None": lambda o: named(o, "Service", "lockstep")["spec"]["ports"][0].update(targetPort="rpc"),
    "selects 0 workloads": lambda o: named(o, "Service", "lockstep")["spec"].update(selector={"app.kubernetes.io/name": "router"}),
    "no headless Service": lambda o: worker(o)["spec"].update(serviceName="workers"),
    "no Service has the workers' name": lambda o: replace_argument(router(o), "--worker=dns:///lockstep-worker:50061", "--worker=dns:///worker:50061"),
    "PodDisruptionBudget/lockstep-worker: selects 0": lambda o: named(o, "PodDisruptionBudget", "lockstep-worker")["spec"]["selector"].update(
        matchLabels={"app": "x"}),
    "NetworkPolicies open": lambda o: named(o, "NetworkPolicy", "lockstep-worker")["spec"]["ingress"].pop(),
    "others than routers": lambda o: named(o, "NetworkPolicy", "lockstep-worker")["spec"]["ingress"][0].pop("from"),
    "to end, but it needs": lambda o: worker(o)["spec"]["template"]["spec"].update(terminationGracePeriodSeconds=40),
    "no preStop": lambda o: container_of(router(o)).pop("lifecycle"),
    "more rights": lambda o: container_of(router(o))["securityContext"].update(readOnlyRootFilesystem=False),
    "a token of the cluster": lambda o: worker(o)["spec"]["template"]["spec"].pop("automountServiceAccountToken"),
    "either --insecure or TLS": lambda o: container_of(router(o))["args"].remove("--insecure"),
    "has no version": lambda o: container_of(router(o)).update(image="lockstep-router"),
    "lies in no volume": lambda o: replace_argument(worker(o), "--model=/models/model", "--model=/data/model"),
    "no rule of the adapter": lambda o: named(o, "HorizontalPodAutoscaler", "lockstep-worker")["spec"]["metrics"][0]["external"]["metric"].update(name="x"),
    "no port prom": lambda o: named(o, "ServiceMonitor", "lockstep-router")["spec"]["endpoints"][0].update(port="prom"),
    "PodMonitor/lockstep-worker: Additional properties": lambda o: named(o, "PodMonitor", "lockstep-worker")["spec"].update(endpoint=[]),
}


def check_the_checks(objects, known_flags, documented):
    for expected, plant in MISTAKES.items():
        planted = copy.deepcopy(objects)
        plant(planted)
        errors = list(all_errors(planted, known_flags, documented))
        assert any(expected in error for error in errors), f"a planted mistake was not found: {expected}; found {errors}"


def flags_in_help(program):
    text = subprocess.run((program, "--help"), capture_output=True, text=True).stdout
    return set(re.findall(r"^\s+--(\w+) \(", text, re.MULTILINE))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    options = parser.parse_args()

    known_flags = {program: flags_in_help(options.programs / program) for program in HEALTH_SERVICES}
    documented = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
    overlays = sorted(path.parent for path in (KUBERNETES / "overlays").glob("*/kustomization.yaml"))
    for overlay in overlays:
        errors = list(all_errors(build(KUBECTL, overlay), known_flags, documented))
        assert not errors, f"{overlay.name}:\n" + "\n".join(errors)
    check_the_checks(build(KUBECTL, KUBERNETES / "overlays" / "replicas"), known_flags, documented)
    print(f"{len(overlays)} overlays, {len(MISTAKES)} planted mistakes found")


def find_kubectl():
    for candidate in (ROOT / "build" / "kubectl" / "kubectl", shutil.which("kubectl")):
        if candidate and pathlib.Path(candidate).exists():
            version = subprocess.run((candidate, "version", "--client"), capture_output=True, text=True).stdout
            if "Kustomize Version: v5" in version:
                return str(candidate)
    return None


KUBECTL = find_kubectl()
if KUBECTL is None or not PACKAGES.is_dir():
    print("no kubectl with kustomize 5, or no kubernetes-validate: skipped")
    sys.exit(SKIP)
sys.path.insert(0, str(PACKAGES))
import jsonschema  # noqa: E402
import yaml  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
