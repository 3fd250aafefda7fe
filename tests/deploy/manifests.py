"""The Kubernetes manifests as kustomize builds them, and what their parts say. Needs kubectl with kustomize 5 and the packages of
kubernetes-validate: deploy/fetch-kubectl and deploy/fetch-clients fetch them. Without them, importing this ends with 77.
"""

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
PROGRAMS = {"lockstep-router": "lockstep-router", "lockstep-worker": "lockstep-worker", "lockstep-worker-cuda": "lockstep-worker"}


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
import yaml  # noqa: E402


def overlays():
    return sorted(path.parent for path in (KUBERNETES / "overlays").glob("*/kustomization.yaml"))


def build(overlay):
    done = subprocess.run((KUBECTL, "kustomize", overlay), capture_output=True, text=True)
    assert done.returncode == 0, f"{overlay.name}: {done.stderr}"
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def build_edited(overlay, edit):
    """What an overlay builds after `edit`, which makes a new text of its kustomization. Works on a copy."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "deploy", pathlib.Path(folder) / "deploy")
        path = pathlib.Path(folder) / "deploy" / "kubernetes" / "overlays" / overlay / "kustomization.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(edit(path.read_text() if path.exists() else ""))
        return build(path.parent)


def with_recipe(text):
    """The kustomization with the line that the comment at its head says."""
    line, = re.findall(r"^#\s+(components: .*)$", text, re.MULTILINE)
    return re.sub(r"^components: .*$", line, text, flags=re.MULTILINE)


def installations():
    """By name, what every overlay builds, and what `shards` builds with TLS."""
    return {**{overlay.name: build(overlay) for overlay in overlays()}, "shards with TLS": build_edited("shards", with_recipe)}


def adapter_rules():
    return yaml.safe_load((KUBERNETES / "components" / "autoscaling" / "adapter-rules.yaml").read_text())["rules"]["external"]


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


def flags_in(arguments):
    """By name of a flag, its value; commas are between the values of a flag that comes several times."""
    flags = {}
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        flags[name] = f"{flags[name]},{value}" if name in flags else value
    return flags


def flags_of(container):
    return flags_in(container["args"])


def routers_of(objects):
    """The workload whose pods are routers."""
    one, = (one for one in workloads(objects) if program_of(container_of(one)) == "lockstep-router")
    return one


def workers_of(objects):
    """The workload whose pods are workers."""
    one, = (one for one in workloads(objects) if program_of(container_of(one)) == "lockstep-worker")
    return one


def worker_names(objects):
    """By what the routers know their workers: names of pods, or one name of all."""
    return flags_of(container_of(routers_of(objects)))["worker"].split(",")


def selected(objects, labels):
    return [one for one in workloads(objects) if labels.items() <= pod_labels(one).items()]


def seconds(text):
    match = re.fullmatch(r"(\d+)(s|m)", text)
    assert match, f"not a time: {text}"
    return int(match[1]) * {"s": 1, "m": 60}[match[2]]
