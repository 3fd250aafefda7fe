"""Checks the container files of deploy/ against the tree and the programs. Nothing builds images here.

    containers_check.py --programs FOLDER

Router and worker of compose.yaml run as processes, with a model folder and with a GGUF file. Their flags are their own but for ports, the
worker's name and the folder of the model. The health check of their images must tell whether they are ready. Planted mistakes show that each check can fail. Ends with 77 where promtool or kubernetes-validate, which brings a reader of YAML,
is missing (deploy/fetch-prometheus, deploy/fetch-clients).
"""

import argparse
import contextlib
import copy
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKER = ROOT / "deploy" / "docker"
COMPOSE = ROOT / "deploy" / "compose.yaml"
MODEL = ROOT / "tests" / "golden" / "tiny-llama"
PACKAGES = ROOT / "build" / "clients-kubernetes"
PROMTOOL = shutil.which("promtool", path=ROOT / "build" / "prometheus") or shutil.which("promtool")
SKIP = 77
TEARDOWN_SECONDS = 15
if not PACKAGES.is_dir() or not PROMTOOL:
    print("no promtool, or no kubernetes-validate, which brings a reader of YAML: skipped")
    sys.exit(SKIP)
sys.path[:0] = [str(PACKAGES), str(ROOT / "tests" / "support")]
import jsonschema  # noqa: E402
import yaml  # noqa: E402
from gguf_file import write_gguf  # noqa: E402
from help_text import flags_in_help  # noqa: E402
from server_process import Server, wait_until  # noqa: E402

# --- Dockerfile ---


def instructions(text):
    """Pairs of an instruction and the rest of its line; continued lines are joined."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line and not line.startswith("#")]


def stages_of(text):
    """By stage: the image that it comes from, and its instructions, those of the stages that it begins with included."""
    stages = {}
    for word, rest in instructions(text):
        if word == "FROM":
            image, _, name = rest.split()
            current = list(stages[image][1]) if image in stages else []
            stages[name] = (stages[image][0] if image in stages else image, current)
        elif stages:
            current.append((word, rest))
    return stages


def last(stage, word):
    """The rest of the stage's last such instruction; empty if there is none."""
    return next((rest for one, rest in reversed(stage) if one == word), "")


def check_dockerfile(text, defaults, programs):
    stages = stages_of(text)
    images = dict(re.findall(r"^ARG (\w+_IMAGE)=(\S+)$", text, re.MULTILINE))
    for name in ("router", "worker"):
        image, stage = stages[name]
        if not re.fullmatch(r"[\w/]+:\w[\w.-]*\d[\w.-]*", images.get(image.strip("${}"), image)):
            yield f"{name}: the image that it comes from has no version"
        if image == stages["build"][0] or ("COPY", ". .") in stage:
            yield f"{name}: holds what it was built from"
        if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", last(stage, "USER")):
            yield f"{name}: the user must be a number other than 0"
        program = re.fullmatch(r'\["/opt/lockstep/bin/([\w-]+)"\]', last(stage, "ENTRYPOINT"))
        if not program or not (programs / program[1]).exists():
            yield f"{name}: no program {last(stage, 'ENTRYPOINT')}"
        ports = {flag: value.rsplit(":", 1)[1] for flag, value in defaults[name].items() if flag.endswith("listen") and value}
        if not set(ports.values()) <= set(last(stage, "EXPOSE").split()):
            yield f"{name}: exposes {last(stage, 'EXPOSE')}, and listens at {sorted(ports.values())} by default"
        health = re.search(r'CMD \["/opt/lockstep/bin/(\w+)", "(\d+)"\]', last(stage, "HEALTHCHECK"))
        if not health or f"/opt/lockstep/bin/{health[1]}" not in copied_files(stage) or health[2] != ports["admin-listen"]:
            yield f"{name}: the health check does not ask the admin port"
    for word, rest in instructions(text):
        if word == "ADD" or word in ("ENV", "ARG") and re.search(r"key|token|password|secret", rest, re.IGNORECASE):
            yield f"{word} {rest}: may fetch, or tell, what it should not"
        if word == "COPY" and "--from" not in rest:
            yield from (f"COPY: there is no {source}" for source in rest.split()[:-1] if not (ROOT / source).exists())


def copied_files(stage):
    return [rest.split()[-1] for word, rest in stage if word == "COPY"]


# --- compose.yaml ---

TEXT, TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}


def closed(required, **properties):
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def closed_map(item):
    return {"type": "object", "additionalProperties": item, "minProperties": 1}


SERVICE = closed(
    ["image", "read_only", "cap_drop", "security_opt", "tmpfs", "restart", "networks"],
    image={"type": "string", "pattern": r":v?\d[\d.]+$"}, user={"type": "string", "pattern": r"^[1-9]\d*:\d+$"},
    build=closed(["context", "dockerfile", "target"], context={"const": ".."}, dockerfile=TEXT, target=TEXT), command=TEXTS, volumes=TEXTS,
    ports=TEXTS, networks=TEXTS, depends_on=TEXTS, tmpfs=TEXTS, configs={"type": "array", "items": closed(["source", "target"], source=TEXT, target=TEXT)},
    read_only={"const": True}, cap_drop={"const": ["ALL"]}, security_opt={"const": ["no-new-privileges:true"]}, restart={"const": "unless-stopped"},
    stop_grace_period={"type": "string", "pattern": r"^\d+s$"})
EMPTY = {"const": {}}
SCHEMA = closed(["name", "services", "configs", "volumes", "networks"], name=TEXT, services=closed_map(SERVICE),
                # Compose copies a `content` into the container, which fails: every service has a read-only root.
                configs=closed_map(closed(["file"], file=TEXT)), volumes=closed_map(EMPTY), networks=closed_map(EMPTY),
                **{"x-hardened": {"type": "object"}})


def flags_of(service):
    """By name of a flag, its values; variables have their defaults."""
    flags = {}
    for word in service["command"]:
        name, _, value = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", word).removeprefix("--").partition("=")
        flags.setdefault(name, []).append(value)
    return flags


def check_compose(compose, defaults, stages):
    errors = [f"{'/'.join(map(str, error.path))}: {error.message}" for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(compose)]
    if errors:
        yield from errors
        return
    for name, service in compose["services"].items():
        yield from check_references(name, service, compose)
        if "build" in service:
            if service["build"]["target"] not in stages or not (ROOT / service["build"]["dockerfile"]).is_file():
                yield f"{name}: there is no {service['build']}"
        elif "user" not in service:
            yield f"{name}: nothing says that it is not root"
    for name in ("router", "worker"):
        service = compose["services"][name]
        unknown = flags_of(service).keys() - defaults[name].keys()
        if unknown:
            yield f"{name}: no flags {sorted(unknown)}"
        flags = {**defaults[name], **{flag: values[-1] for flag, values in flags_of(service).items()}}
        drain = int((flags.get("drain-timeout") or flags["drain-grace"]).removesuffix("s"))
        if int(service["stop_grace_period"].removesuffix("s")) < drain + TEARDOWN_SECONDS:
            yield f"{name}: {service['stop_grace_period']} are too short for a drain of {drain} s"
    reach = {name for name, service in compose["services"].items() if set(service["networks"]) & set(compose["services"]["worker"]["networks"])}
    if reach != {"worker", "router", "prometheus"}:
        yield f"worker: {sorted(reach)} are in its network"
    yield from check_prometheus(compose)


def check_references(name, service, compose):
    """Whatever a service names is there, and no port is open to other machines."""
    for port in service.get("ports", []):
        if not port.startswith("127.0.0.1:"):
            yield f"{name}: {port} is open to other machines"
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("./") and not (COMPOSE.parent / source).is_dir():
            yield f"{name}: there is no {source}"
        if not source.startswith(("./", "${")) and source not in compose["volumes"]:
            yield f"{name}: there is no volume {source}"
    named = {"configs": [one["source"] for one in service.get("configs", [])], "networks": service["networks"],
             "services": service.get("depends_on", [])}
    for kind, names in named.items():
        yield from (f"{name}: nothing is named {one} in {kind}" for one in names if one not in compose[kind])
    for one in service.get("configs", []):
        path = COMPOSE.parent / compose["configs"].get(one["source"], {"file": "."})["file"]
        if one["source"] in compose["configs"] and not (path.is_file() and yaml.safe_load(path.read_text())):
            yield f"{name}: there is no {path.name}"


def check_prometheus(compose):
    """Its targets listen, and promtool takes its configuration with our rules."""
    services = compose["services"]
    path = COMPOSE.parent / compose["configs"]["prometheus"]["file"]
    if not path.is_file():
        return
    text = path.read_text()
    for host, port in re.findall(r'"(\w+):(\d+)"', text):
        if not flags_of(services[host]).get("admin-listen", [""])[0].endswith(f":{port}"):
            yield f"prometheus: no metrics at {host}:{port}"
    router = flags_of(services["router"])
    host, port = router["worker"][0].rsplit(":", 1)
    if host not in services or not flags_of(services[host])["listen"][0].endswith(f":{port}"):
        yield f"router: no worker at {router['worker'][0]}"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "prometheus.yml"
        path.write_text(text.replace("/etc/prometheus/rules", str(ROOT / "deploy" / "prometheus")))
        done = subprocess.run((PROMTOOL, "check", "config", path), capture_output=True, text=True)
        if done.returncode != 0 or "rule files" not in done.stdout and "rules found" not in done.stdout:
            yield f"prometheus: {done.stdout}{done.stderr}"


# --- as processes ---

def healthy(server):
    port = server.addresses["admin"].rsplit(":", 1)[1]
    return subprocess.run([DOCKER / "healthcheck", port], capture_output=True).returncode == 0


def own_flags(name, compose, folder):
    """The flags of a service, with `folder` as the root of its files."""
    return {flag: [f"{folder}{value}" if value.startswith("/models/") else value for value in values]
            for flag, values in flags_of(compose["services"][name]).items()}


def words_of(flags):
    return [f"--{flag}={value}" if value else f"--{flag}" for flag, values in flags.items() for value in values]


def start(programs, name, compose, folder, **changed):
    """The service as a process at ports that are free. The hosts stay: they decide what a program refuses."""
    flags = own_flags(name, compose, folder)
    listen = {flag: [value.rsplit(":", 1)[0] + ":0" for value in values] for flag, values in flags.items() if flag.endswith("listen")}
    return Server(programs / f"lockstep-{name}", *words_of({**flags, **listen, **changed}))


def check_running(programs, compose, folder):
    """With the model that lies in `folder`."""
    done = subprocess.run([programs / "lockstep-router", *words_of(own_flags("router", compose, folder)), "--check-config"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with contextlib.ExitStack() as stack:
        worker = stack.enter_context(start(programs, "worker", compose, folder))
        address = "127.0.0.1:" + worker.addresses["grpc"].rsplit(":", 1)[1]
        router = stack.enter_context(start(programs, "router", compose, folder, worker=[address]))
        wait_until(lambda: healthy(worker) and healthy(router), "both healthy")
        assert worker.stop() == 0
        wait_until(lambda: not healthy(router), "the router not healthy without a worker")
        assert not healthy(worker), "a health check of nothing succeeds"
        assert router.stop() == 0


def check_models(programs, compose):
    """The volume of the model is a folder or a GGUF file."""
    for place in (lambda path: path.symlink_to(MODEL), lambda path: write_gguf(MODEL, path)):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "models" / "model"
            path.parent.mkdir()
            place(path)
            check_running(programs, compose, folder)


# --- planted mistakes ---

DOCKER_MISTAKES = {
    "must be a number": ("USER 65532:65532", "USER root"),
    "no program": ("bin/lockstep-worker", "bin/worker"),
    "listens at": ("EXPOSE 50061 9091", "EXPOSE 50061"),
    "there is no deploy/install": ("COPY deploy/install-dependencies", "COPY deploy/install"),
    "worker: the health check": ('healthcheck", "9091"', 'healthcheck", "9090"'),
    "router: the health check": ("COPY deploy/docker/healthcheck", "# "),
    "holds what it was built from": ("FROM ${RUN_IMAGE} AS run", "FROM build AS run"),
    "has no version": ("RUN_IMAGE=debian:12-slim\n", "RUN_IMAGE=debian\n"),
    "should not": ("ENV PATH", "ENV API_TOKEN=x PATH"),
}
COMPOSE_MISTAKES = {
    "open to other machines": lambda services: services["router"]["ports"].append("9090:9090"),
    "no flags ['fast']": lambda services: services["worker"]["command"].append("--fast"),
    "no metrics at router:9090": lambda services: services["router"].update(
        command=[word.replace("9090", "9092") for word in services["router"]["command"]]),
    "no worker at worker:50061": lambda services: services["worker"].update(
        command=[word.replace("50061", "50062") for word in services["worker"]["command"]]),
    "too short": lambda services: services["worker"].update(stop_grace_period="31s"),
    "for a drain of 60 s": lambda services: services["router"]["command"].append("--drain-timeout=60s"),
    "'prot' was unexpected": lambda services: services["grafana"].update(prot=["3000:3000"]),
    "'grafana/grafana' does not match": lambda services: services["grafana"].update(image="grafana/grafana"),
    "True was expected": lambda services: services["router"].update(read_only=False),
    "not root": lambda services: services["prometheus"].pop("user"),
    "are in its network": lambda services: services["grafana"]["networks"].append("fleet"),
    "named rules in configs": lambda services: services["prometheus"]["configs"].append({"source": "rules", "target": "/x"}),
}
CONFIG_MISTAKES = {
    "'content' was unexpected": {"content": "global: {}"},
    "there is no none.yml": {"file": "./compose/none.yml"},
}


def check_the_checks(text, compose, defaults, programs):
    for expected, (old, new) in DOCKER_MISTAKES.items():
        assert old in text, old
        errors = list(check_dockerfile(text.replace(old, new), defaults, programs))
        assert any(expected in error for error in errors), f"a planted mistake was not found: {expected}; found {errors}"
    mistakes = {**{expected: (plant, "services") for expected, plant in COMPOSE_MISTAKES.items()},
                **{expected: (lambda configs, config=config: configs.update(prometheus=config), "configs")
                   for expected, config in CONFIG_MISTAKES.items()}}
    for expected, (plant, part) in mistakes.items():
        planted = copy.deepcopy(compose)
        plant(planted[part])
        errors = list(check_compose(planted, defaults, stages_of(text)))
        assert any(expected in error for error in errors), f"a planted mistake was not found: {expected}; found {errors}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    programs = parser.parse_args().programs.resolve()
    text = (DOCKER / "Dockerfile").read_text()
    # Aliases are the same objects; a planted mistake should change one of them.
    compose = json.loads(json.dumps(yaml.safe_load(COMPOSE.read_text())))
    defaults = {name: flags_in_help(programs / f"lockstep-{name}") for name in ("router", "worker")}
    errors = [*check_dockerfile(text, defaults, programs), *check_compose(compose, defaults, stages_of(text))]
    assert not errors, "\n".join(errors)
    check_the_checks(text, compose, defaults, programs)
    check_models(programs, compose)
    print(f"container files are right, their processes run; {len(DOCKER_MISTAKES) + len(COMPOSE_MISTAKES) + len(CONFIG_MISTAKES)} planted mistakes found")


if __name__ == "__main__":
    sys.exit(main())
