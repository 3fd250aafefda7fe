"""Checks the Kubernetes manifests of deploy/kubernetes against schemas, each other and the programs. No cluster is needed.

    kubernetes_check.py --programs FOLDER

Every overlay is built with kustomize. What kustomize and the schemas cannot know is checked here: flags and ports are those of the
programs, selectors select, no port is open to others than it should be, pods have time to drain, and a restart waits for DNS. So are the variants
that comments and docs/kubernetes.md describe. Planted mistakes show that each check can fail. pods_check.py starts the pods as processes and asks their probes. Ends with 77 where kubectl or
kubernetes-validate is missing (deploy/fetch-kubectl, deploy/fetch-clients).
"""

import argparse
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from custom_schemas import SCHEMAS
from manifests import (PACKAGES, ROOT, adapter_rules, build_edited, container_of, flags_of, installations, name_of, of_kind, pod_labels,
                       program_of, routers_of, seconds, selected, worker_names, workers_of, workloads, yaml)

sys.path.insert(0, str(ROOT / "tests" / "support"))
import jsonschema  # noqa: E402  of PACKAGES, which importing manifests adds to the path
from help_text import flags_in_help  # noqa: E402

TEARDOWN_SECONDS = 15
ENDPOINTS_SECONDS = 5  # at least, until nothing sends a pod more requests
DNS_CACHE_SECONDS = 30  # CoreDNS keeps answers that long
CONNECT_SECONDS = 5
STEP_PORT = 50061
PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARDS = ROOT / "deploy" / "grafana"
METRICS = ROOT / "docs" / "metrics.md"
DOCUMENT = ROOT / "docs" / "kubernetes.md"


# --- checks: each yields what is wrong ---

def check_schemas(objects):
    builtin = [one for one in objects if one["kind"] not in SCHEMAS]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump_all(builtin, file)
        file.flush()
        done = subprocess.run((sys.executable, PACKAGES / "bin" / "kubernetes-validate", "--strict", file.name), capture_output=True, text=True,
                              env={"PYTHONPATH": str(PACKAGES), "PYTHONDONTWRITEBYTECODE": "1"})
        if done.returncode != 0:
            yield "schema: " + (done.stdout + done.stderr).replace(file.name, "")
    for one in objects:
        if one["kind"] in SCHEMAS:
            for error in jsonschema.Draft202012Validator(SCHEMAS[one["kind"]]).iter_errors(one):
                yield f"schema: {name_of(one)}: {error.message}"


def check_flags(objects, known_flags):
    for workload in workloads(objects):
        container = container_of(workload)
        program = program_of(container)
        for flag in flags_of(container):
            if flag not in known_flags[program]:
                yield f"{name_of(workload)}: {program} has no flag --{flag}"


def check_ports(objects):
    for workload in workloads(objects):
        container = container_of(workload)
        listening = {int(address.rsplit(":", 1)[1]) for flag, value in flags_of(container).items() if flag.endswith("listen")
                     for address in value.split(",")}
        declared = {port["containerPort"] for port in container["ports"]}
        if listening != declared:
            yield f"{name_of(workload)}: listens at {sorted(listening)}, but its ports are {sorted(declared)}"
        worker = flags_of(container).get("worker")
        if worker and f":{STEP_PORT}" not in worker:
            yield f"{name_of(workload)}: workers have another port than {worker}"


def check_probes(objects):
    for workload in workloads(objects):
        container = container_of(workload)
        ports = {port["containerPort"] for port in container["ports"]}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container.get(kind)
            if probe is None:
                yield f"{name_of(workload)}: no {kind}"
            elif "tcpSocket" in probe:
                yield f"{name_of(workload)}: {kind} asks the kernel, which also answers for a process that hangs"
            elif probe.get("grpc", probe.get("httpGet"))["port"] not in ports:
                yield f"{name_of(workload)}: {kind} asks at a port where nothing listens"
            elif kind != "readinessProbe" and probe.get("httpGet") != {"port": admin_port(container), "path": "/livez"}:
                yield f"{name_of(workload)}: {kind} asks at a port that clients can use up"


def admin_port(container):
    return int(flags_of(container)["admin-listen"].rsplit(":", 1)[1])


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
    for name in worker_names(objects):
        host = name.removeprefix("dns:///").split(":")[0].rsplit(".", 1)[-1]
        if host not in [one["metadata"]["name"] for one in of_kind(objects, "Service")]:
            yield f"{name_of(routers_of(objects))}: no Service has the workers' name {host}"


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
        if not any("Ingress" in policy["spec"]["policyTypes"] for policy in policies):
            yield f"{name_of(workload)}: no NetworkPolicy says who may connect"
        rules = [rule for policy in policies for rule in policy["spec"]["ingress"]]
        allowed = {port["port"] for rule in rules for port in rule["ports"]}
        ports = {port["containerPort"] for port in container_of(workload)["ports"]}
        if allowed != ports:
            yield f"{name_of(workload)}: NetworkPolicies open {sorted(allowed)} of its ports {sorted(ports)}"
        if not all(rule.get("from") and all(map(chooses, rule["from"])) for rule in rules):
            yield f"{name_of(workload)}: a NetworkPolicy lets everybody connect"
        if program_of(container_of(workload)) == "lockstep-worker" and not any(
                "Egress" in policy["spec"]["policyTypes"] and policy["spec"].get("egress") == [] for policy in policies):
            yield f"{name_of(workload)}: may connect to others"
        for rule in rules:
            if STEP_PORT in [port["port"] for port in rule["ports"]] and rule.get("from") != [{"podSelector": {"matchLabels": routers}}]:
                yield f"{name_of(workload)}: others than routers reach the step port"


def chooses(peer):
    """Whether a peer of a NetworkPolicy needs a label."""
    return any(selector.get("matchLabels") for selector in peer.values())


def check_restarts(objects, defaults):
    """A pod has time to drain, and the next one ends only when the router can know its successor."""
    for workload in workloads(objects):
        container = container_of(workload)
        flags = {**defaults[program_of(container)], **flags_of(container)}
        drain = seconds(flags.get("drain-timeout") or flags["drain-grace"])
        command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["/bin/sleep", "0"])
        needed = int(command[1]) + drain + TEARDOWN_SECONDS
        grace = workload["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", 30)
        if grace < needed:
            yield f"{name_of(workload)}: {grace} s to end, but it needs {needed}"
        if program_of(container) == "lockstep-router":
            if int(command[1]) < ENDPOINTS_SECONDS:
                yield f"{name_of(workload)}: no preStop that lets endpoints forget the pod"
            if "shard" not in flags_of(container) and (workload["spec"]["replicas"] != 1 or workload["spec"].get("strategy") != {"type": "Recreate"}):
                yield f"{name_of(workload)}: two routers at a time would take the workers from each other"
    resolve = seconds({**defaults["lockstep-router"], **flags_of(container_of(routers_of(objects)))}["worker-resolve-interval"])
    needed = resolve + DNS_CACHE_SECONDS + CONNECT_SECONDS
    workers = workers_of(objects)
    if workers["spec"].get("minReadySeconds", 0) < needed:
        yield f"{name_of(workers)}: the next worker ends before the router knows the last one: minReadySeconds must be {needed}"
    startup = container_of(workers).get("startupProbe", {})
    needed = startup.get("periodSeconds", 10) * startup.get("failureThreshold", 3)
    for one in of_kind(objects, "Deployment"):
        if one["spec"].get("progressDeadlineSeconds", 600) <= needed:
            yield f"{name_of(one)}: counts as failed while the workers load their model: progressDeadlineSeconds must be above {needed}"


def check_resources(objects):
    for workload in workloads(objects):
        container = container_of(workload)
        resources = container.get("resources", {})
        if not {"cpu", "memory"} <= resources.get("requests", {}).keys() or "memory" not in resources.get("limits", {}):
            yield f"{name_of(workload)}: no requests of processors and memory, or no limit of memory"
        gpus = resources.get("limits", {}).get("nvidia.com/gpu", 0)
        flags = flags_of(container)
        needed = int(flags.get("tensor-parallel", 1)) if flags.get("device") == "cuda" else 0
        if gpus != needed:
            yield f"{name_of(workload)}: gets {gpus} GPUs, and needs {needed}"
        if flags.get("device") == "cpu" and flags.get("threads") != resources.get("requests", {}).get("cpu"):
            yield f"{name_of(workload)}: computes with --threads={flags.get('threads')}, and requests other processors"


def check_protocols(objects):
    """A port that says h2c speaks it."""
    tls = "tls-cert" in flags_of(container_of(routers_of(objects)))
    for service in of_kind(objects, "Service"):
        for port in service["spec"]["ports"]:
            if tls and port.get("appProtocol", "").endswith("/h2c"):
                yield f"{name_of(service)}: port {port['name']} has TLS, and says h2c"


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
        if program_of(container) == "lockstep-router" and not flags.get("model-id"):
            yield f"{name_of(workload)}: no --model-id, which tells the metrics of installations apart"
        if ":" not in container["image"] or container["image"].endswith(":latest"):
            yield f"{name_of(workload)}: the image has no version"
        mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
        for flag, value in flags.items():
            if value.startswith("/") and not any(value.startswith(mount + "/") for mount in mounts):
                yield f"{name_of(workload)}: --{flag}={value} lies in no volume"
        if {mount["name"] for mount in container["volumeMounts"]} != {volume["name"] for volume in pod["volumes"]}:
            yield f"{name_of(workload)}: mounts and volumes differ"


def check_scaling(objects, documented):
    served = {rule["name"]["as"] for rule in adapter_rules()}
    for rule in adapter_rules():
        for name in re.findall(r"lockstep_\w+", rule["metricsQuery"] + " " + rule["seriesQuery"]):
            if name not in documented:
                yield f"adapter-rules.yaml: nothing exports {name}"
    yield from (f"adapter-rules.yaml: divides by 0 before the first worker: {query}" for query in unsafe_ratios(adapter_rules()))
    for scaler in of_kind(objects, "HorizontalPodAutoscaler"):
        for metric in scaler["spec"]["metrics"]:
            if metric["external"]["metric"]["name"] not in served:
                yield f"{name_of(scaler)}: no rule of the adapter serves {metric['external']['metric']['name']}"
        for workload in workloads(objects):
            if workload["metadata"]["name"] == scaler["spec"]["scaleTargetRef"]["name"] and "replicas" in workload["spec"]:
                yield f"{name_of(workload)}: has a number of replicas beside its autoscaler"


def unsafe_ratios(rules):
    """A sum of nothing but zeros makes NaN, which the autoscaler cannot use. `> 0` leaves it out."""
    return [rule["metricsQuery"] for rule in rules if re.search(r"/ (?!\(.* > 0\)+$)", rule["metricsQuery"])]


def check_copies(objects):
    """Rules and dashboards are those of deploy/prometheus and deploy/grafana."""
    for one in of_kind(objects, "PrometheusRule"):
        files = [yaml.safe_load((PROMETHEUS / name).read_text()) for name in ("recording.rules.yml", "alerts.rules.yml")]
        if one["spec"]["groups"] != [group for file in files for group in file["groups"]]:
            yield f"{name_of(one)}: other rules than deploy/prometheus; run make_rules"
    for one in of_kind(objects, "ConfigMap"):
        if [json.loads(text) for _, text in sorted(one["data"].items())] != [json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))]:
            yield f"{name_of(one)}: other dashboards than deploy/grafana"


def check_shards(objects):
    """Routers with --shard are as many as it says, and know each worker by a name that stays."""
    routers, workers = routers_of(objects), workers_of(objects)
    container = container_of(routers)
    flags = flags_of(container)
    if "shard" not in flags:
        return
    labels = {variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"] for variable in container.get("env", [])}
    index = re.fullmatch(r"\$\((\w+)\)/(\d+)", flags["shard"])
    if index is None or labels.get(index[1]) != "metadata.labels['apps.kubernetes.io/pod-index']":
        yield f"{name_of(routers)}: --shard is not the number of the pod"
    elif int(index[2]) != routers["spec"]["replicas"]:
        yield f"{name_of(routers)}: {routers['spec']['replicas']} routers, but --shard says {index[2]}"
    name, service = workers["metadata"]["name"], workers["spec"]["serviceName"]
    if set(worker_names(objects)) != {f"{name}-{i}.{service}:{STEP_PORT}" for i in range(workers["spec"]["replicas"])}:
        yield f"{name_of(routers)}: --worker does not name the pods of the workers"


def all_errors(objects, known_flags, documented):
    """But for those of the schemas."""
    yield from check_flags(objects, known_flags)
    for check in (check_ports, check_probes, check_services, check_selectors, check_network, check_resources, check_protocols, check_security,
                  check_copies, check_shards):
        yield from check(objects)
    yield from check_restarts(objects, known_flags)
    yield from check_scaling(objects, documented)


# --- planted mistakes ---

def named(objects, kind, name):
    return next(one for one in of_kind(objects, kind) if one["metadata"]["name"] == name)


def replace_argument(workload, old, new):
    arguments = container_of(workload)["args"]
    arguments[arguments.index(old)] = new


MISTAKES = {
    "has no flag --drain-time": lambda o: replace_argument(routers_of(o), "--drain-timeout=30s", "--drain-time=30s") or
        container_of(routers_of(o))["args"].append("--drain-timeout=30s"),
    "but its ports are": lambda o: replace_argument(workers_of(o), "--admin-listen=0.0.0.0:9091", "--admin-listen=0.0.0.0:9092"),
    "asks the kernel": lambda o: container_of(workers_of(o)).update(livenessProbe={"tcpSocket": {"port": 50061}}),
    "where nothing listens": lambda o: container_of(workers_of(o))["readinessProbe"]["grpc"].update(port=50062),
    "clients can use up": lambda o: container_of(routers_of(o)).update(livenessProbe={"grpc": {"port": 50051}}),
    "StatefulSet/lockstep-worker: startupProbe asks at a port that": lambda o: container_of(workers_of(o)).update(startupProbe={"grpc": {"port": 50061}}),
    "no startupProbe": lambda o: container_of(workers_of(o)).pop("startupProbe"),
    "leads to None": lambda o: named(o, "Service", "lockstep")["spec"]["ports"][0].update(targetPort="rpc"),
    "selects 0 workloads": lambda o: named(o, "Service", "lockstep")["spec"].update(selector={"app.kubernetes.io/name": "router"}),
    "no headless Service": lambda o: workers_of(o)["spec"].update(serviceName="workers"),
    "no Service has the workers' name": lambda o: replace_argument(routers_of(o), "--worker=dns:///lockstep-worker:50061", "--worker=dns:///worker:50061"),
    "PodDisruptionBudget/lockstep-worker: selects 0": lambda o: named(o, "PodDisruptionBudget", "lockstep-worker")["spec"]["selector"].update(
        matchLabels={"app": "x"}),
    "NetworkPolicies open": lambda o: named(o, "NetworkPolicy", "lockstep-worker")["spec"]["ingress"].pop(),
    "says who may connect": lambda o: named(o, "NetworkPolicy", "lockstep-worker")["spec"].update(policyTypes=["Egress"]),
    "others than routers": lambda o: named(o, "NetworkPolicy", "lockstep-worker")["spec"]["ingress"][0].pop("from"),
    "Deployment/lockstep-router: a NetworkPolicy lets everybody": lambda o: named(o, "NetworkPolicy", "lockstep-router")["spec"]["ingress"][0].pop("from"),
    "StatefulSet/lockstep-worker: a NetworkPolicy lets everybody": lambda o: named(o, "NetworkPolicy", "lockstep-worker")["spec"]["ingress"][1].update(
        {"from": [{"namespaceSelector": {}}]}),
    "may connect to others": lambda o: named(o, "NetworkPolicy", "lockstep-worker")["spec"].update(egress=[{}]),
    "progressDeadlineSeconds must be above 1800": lambda o: routers_of(o)["spec"].pop("progressDeadlineSeconds"),
    "no --model-id": lambda o: container_of(routers_of(o))["args"].remove("--model-id=model"),
    "to end, but it needs": lambda o: workers_of(o)["spec"]["template"]["spec"].update(terminationGracePeriodSeconds=40),
    "minReadySeconds must be 45": lambda o: workers_of(o)["spec"].update(minReadySeconds=5),
    "minReadySeconds must be 95": lambda o: replace_argument(routers_of(o), "--worker-resolve-interval=10s", "--worker-resolve-interval=1m"),
    "two routers at a time": lambda o: routers_of(o)["spec"].update(replicas=2),
    "no limit of memory": lambda o: container_of(workers_of(o))["resources"]["limits"].pop("memory"),
    "gets 0 GPUs, and needs 1": lambda o: container_of(workers_of(o))["resources"]["limits"].pop("nvidia.com/gpu"),
    "says h2c": lambda o: replace_argument(routers_of(o), "--insecure", "--tls-cert=/models/tls.crt"),
    "beside its autoscaler": lambda o: workers_of(o)["spec"].update(replicas=4),
    "run make_rules": lambda o: named(o, "PrometheusRule", "lockstep")["spec"]["groups"][1]["rules"][0].update(expr="1"),
    "other dashboards": lambda o: named(o, "ConfigMap", "lockstep-dashboards")["data"].pop("lockstep-cache.json"),
    "no preStop": lambda o: container_of(routers_of(o)).pop("lifecycle"),
    "more rights": lambda o: container_of(routers_of(o))["securityContext"].update(readOnlyRootFilesystem=False),
    "a token of the cluster": lambda o: workers_of(o)["spec"]["template"]["spec"].pop("automountServiceAccountToken"),
    "either --insecure or TLS": lambda o: container_of(routers_of(o))["args"].remove("--insecure"),
    "has no version": lambda o: container_of(routers_of(o)).update(image="lockstep-router"),
    "lies in no volume": lambda o: replace_argument(workers_of(o), "--model=/models/model", "--model=/data/model"),
    "no rule of the adapter": lambda o: named(o, "HorizontalPodAutoscaler", "lockstep-worker")["spec"]["metrics"][0]["external"]["metric"].update(name="x"),
    "no port prom": lambda o: named(o, "ServiceMonitor", "lockstep-router")["spec"]["endpoints"][0].update(port="prom"),
}
SCHEMA_MISTAKES = {
    "terminationGracePeriodSecond": lambda o: routers_of(o)["spec"]["template"]["spec"].update(terminationGracePeriodSecond=60),
    "PodMonitor/lockstep-worker: Additional properties": lambda o: named(o, "PodMonitor", "lockstep-worker")["spec"].update(endpoint=[]),
    "ServiceMonitor/lockstep-router: '15' does not match": lambda o: named(o, "ServiceMonitor", "lockstep-router")["spec"]["endpoints"][0].update(interval="15"),
    "PrometheusRule/lockstep:": lambda o: named(o, "PrometheusRule", "lockstep")["spec"]["groups"][0]["rules"][0].update(exp="1"),
}
# In the overlay with several routers.
SHARD_MISTAKES = {
    "is not the number of the pod": lambda o: container_of(routers_of(o)).pop("env"),
    "but --shard says 2": lambda o: routers_of(o)["spec"].update(replicas=3),
    "does not name the pods": lambda o: workers_of(o)["spec"].update(replicas=5),
    "no preStop that lets": lambda o: container_of(routers_of(o))["lifecycle"]["preStop"]["exec"].update(command=["sleep", "1"]),
}


CPU_MISTAKES = {
    "computes with --threads=None": lambda o: container_of(workers_of(o))["args"].remove("--threads=4"),
    "computes with --threads=4": lambda o: container_of(workers_of(o))["resources"]["requests"].update(cpu="2"),
}


def check_the_example():
    """The overlay in docs/kubernetes.md sets the model's name, with one router and with several."""
    example, = re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    for base in ("replicas", "shards"):
        objects = build_edited("example", lambda _, base=base: re.sub(r"\.\./replicas\b", f"../{base}", example))
        assert flags_of(container_of(routers_of(objects)))["model-id"] == "llama-3.1-8b", f"the example over {base} sets another name"


def check_the_checks(objects, mistakes, check):
    for expected, plant in mistakes.items():
        planted = copy.deepcopy(objects)
        plant(planted)
        errors = list(check(planted))
        assert any(expected in error for error in errors), f"a planted mistake was not found: {expected}; found {errors}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    options = parser.parse_args()

    known_flags = {program: flags_in_help(options.programs / program) for program in ("lockstep-router", "lockstep-worker")}
    documented = set(re.findall(r"^\| `(\w+)` \|", METRICS.read_text(), re.MULTILINE))
    built = installations()
    for name, objects in built.items():
        errors = [*check_schemas(objects), *all_errors(objects, known_flags, documented)]
        assert not errors, f"{name}:\n" + "\n".join(errors)
    check_the_example()
    assert unsafe_ratios([{"metricsQuery": "100 * sum(a) / sum(b)"}]) and not unsafe_ratios([{"metricsQuery": "sum(a) / (sum(b) > 0)"}])
    mistakes = {**MISTAKES, **SCHEMA_MISTAKES, **SHARD_MISTAKES, **CPU_MISTAKES}
    for name, planted, check in (("replicas", MISTAKES, lambda objects: all_errors(objects, known_flags, documented)),
                                    ("replicas", SCHEMA_MISTAKES, check_schemas),
                                    ("shards", SHARD_MISTAKES, lambda objects: all_errors(objects, known_flags, documented)),
                                    ("cpu", CPU_MISTAKES, lambda objects: all_errors(objects, known_flags, documented))):
        check_the_checks(built[name], planted, check)
    print(f"{len(built)} installations, {len(mistakes)} planted mistakes found")


if __name__ == "__main__":
    sys.exit(main())
