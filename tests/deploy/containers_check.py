"""Checks the container files of deploy/ against the tree and the programs. Nothing builds images here.

    containers_check.py --programs FOLDER --promtool FILE
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
COMPOSE = ROOT / "deploy" / "compose.yaml"
PACKAGES = ROOT / "build" / "clients-kubernetes"
SKIP = 77


def flags_in_help(program):
    text = subprocess.run((program, "--help"), capture_output=True, text=True).stdout
    return set(re.findall(r"^\s+--(\w+) \(", text, re.MULTILINE))


def instructions(text):
    """Pairs of an instruction and the rest of its line; continued lines are joined."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line and not line.startswith("#")]


def stages_of(text):
    """Instructions of every stage, those of the stages that it begins with included."""
    stages, current = {}, None
    for word, rest in instructions(text):
        if word == "FROM":
            image, _, name = rest.split()
            current = stages[name] = list(stages.get(image, []))
        elif current is not None:
            current.append((word, rest))
    return stages


def dockerfile_errors(text, programs):
    stages = stages_of(text)
    for name in ("router", "worker"):
        stage = stages[name]
        user = [rest for word, rest in stage if word == "USER"]
        if not user or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", user[-1]):
            yield f"{name}: the user must be a number other than 0"
        entry = [rest for word, rest in stage if word == "ENTRYPOINT"]
        program = re.fullmatch(r'\["/opt/lockstep/bin/([\w-]+)"\]', entry[-1])
        if not program or not (programs / program[1]).exists():
            yield f"{name}: no program {entry}"
        exposed = {int(port) for word, rest in stage if word == "EXPOSE" for port in rest.split()}
        defaults = default_ports(programs / f"lockstep-{name}")
        if not defaults <= exposed:
            yield f"{name}: exposes {sorted(exposed)}, and listens at {sorted(defaults)} by default"
    for word, rest in instructions(text):
        if word == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                if not (ROOT / source).exists():
                    yield f"COPY: there is no {source}"


def default_ports(program):
    text = subprocess.run((program, "--help"), capture_output=True, text=True).stdout
    return {int(port) for port in re.findall(r'--(?:listen|admin_listen) \([^)]*\);\s+default: "127.0.0.1:(\d+)"', text)}


def compose_errors(compose, known_flags, promtool):
    for name, service in compose["services"].items():
        if not service.get("read_only") or service.get("cap_drop") != ["ALL"]:
            yield f"{name}: runs with more rights than it needs"
        if not re.search(r":[v\d][\d.]+$", service["image"]):
            yield f"{name}: the image has no version"
        for port in service.get("ports", []):
            if not port.startswith("127.0.0.1:"):
                yield f"{name}: {port} is open to other machines"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./") and not (COMPOSE.parent / source).is_dir():
                yield f"{name}: there is no {source}"
            if not source.startswith(("./", "${")) and source not in compose["volumes"]:
                yield f"{name}: there is no volume {source}"
        for config in service.get("configs", []):
            if config["source"] not in compose["configs"]:
                yield f"{name}: there is no config {config['source']}"
        if name in ("router", "worker"):
            flags = dict((word.removeprefix("--").split("=", 1) + [""])[:2] for word in service["command"])
            unknown = {flag.replace("-", "_") for flag in flags} - known_flags[name]
            if unknown:
                yield f"{name}: no flags {sorted(unknown)}"
            drain = 30
            if int(service["stop_grace_period"].removesuffix("s")) < drain + 15:
                yield f"{name}: {service['stop_grace_period']} are too short for a drain of {drain} s"
    listens = {name: {word.split("=")[1].rsplit(":", 1)[1] for word in compose["services"][name]["command"] if "listen=" in word}
               for name in ("router", "worker")}
    text = compose["configs"]["prometheus"]["content"]
    for host, port in re.findall(r'"(\w+):(\d+)"', text):
        if port not in listens.get(host, ()):
            yield f"prometheus: nothing listens at {host}:{port}"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "prometheus.yml"
        path.write_text(text.replace("/etc/prometheus/rules", str(ROOT / "deploy" / "prometheus")))
        done = subprocess.run((promtool, "check", "config", path), capture_output=True, text=True)
        if done.returncode != 0 or "rule files" not in done.stdout and "rules found" not in done.stdout:
            yield f"prometheus: {done.stdout}{done.stderr}"


MISTAKES = {
    "must be a number": ("USER 65532:65532", "USER root"),
    "no program": ("bin/lockstep-worker", "bin/worker"),
    "listens at": ("EXPOSE 50061 9091", "EXPOSE 50061"),
    "there is no deploy/install": ("COPY deploy/install-dependencies", "COPY deploy/install"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    parser.add_argument("--promtool", required=True, type=pathlib.Path)
    options = parser.parse_args()
    text = DOCKERFILE.read_text()
    known_flags = {name: flags_in_help(options.programs / f"lockstep-{name}") for name in ("router", "worker")}
    compose = yaml.safe_load(COMPOSE.read_text())
    errors = [*dockerfile_errors(text, options.programs), *compose_errors(compose, known_flags, options.promtool)]
    assert not errors, "\n".join(errors)
    for expected, (old, new) in MISTAKES.items():
        assert old in text, old
        errors = list(dockerfile_errors(text.replace(old, new), options.programs))
        assert any(expected in error for error in errors), f"a planted mistake was not found: {expected}; found {errors}"
    compose["services"]["router"]["ports"].append("9090:9090")
    compose["services"]["worker"]["command"].append("--fast")
    compose["configs"]["prometheus"]["content"] = compose["configs"]["prometheus"]["content"].replace("router:9090", "router:9091")
    errors = "\n".join(compose_errors(compose, known_flags, options.promtool))
    assert all(part in errors for part in ("open to other machines", "no flags ['fast']", "nothing listens at router:9091")), errors
    print("container files are right; 7 planted mistakes found")


if not PACKAGES.is_dir():
    print("no kubernetes-validate, which brings a reader of YAML: skipped")
    sys.exit(SKIP)
sys.path.insert(0, str(PACKAGES))
import yaml  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
