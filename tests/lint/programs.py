#!/usr/bin/env python3
"""Compares the programs with their documents: docs/configuration.md has every flag that --help lists, with its default and its range,
every metric, label and listed label value that a served request leaves behind is in docs/metrics.md, every
thread that serves it is in docs/architecture.md, and nothing there is made up. The units of deploy/systemd use flags that exist
and variables of lockstep.env, and the router accepts what its unit checks before it starts.

    python3 tests/lint/programs.py --bin build/dev/bin
"""

import argparse
import collections
import contextlib
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from help_text import Flag, parse_help  # noqa: E402

CONFIGURATION = ROOT / "docs" / "configuration.md"
METRICS = ROOT / "docs" / "metrics.md"
UNITS = ROOT / "deploy" / "systemd"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
MODEL = ROOT / "tests" / "golden" / "tiny-llama"
PROGRAMS = ("lockstep-router", "lockstep-worker", "lockstep-generate")
VERBS = ("serve", "upgrade", "chat", "top", "bench")  # of lockstep, with options of their own
DEADLINE_SECONDS = 60
NO_COLLECTOR = "127.0.0.1:9"  # of traces: nobody needs to listen there

Metric = collections.namedtuple("Metric", "kind labels")  # labels: name -> set of values
Server = collections.namedtuple("Server", "grpc admin pid")


def section(markdown, heading):
    """The text below the second-level heading that names `heading`."""
    for part in re.split(r"^## ", markdown, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        if heading in title:
            return text
    return ""


def flags_in_document(text):
    """By name: the cells of table rows | `--flag` | ... | by the titles of their columns."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[:1] == ["flag"]:
            titles = cells
        elif cells and cells[0].startswith("`--"):
            rows[cells[0].strip("`").removeprefix("--")] = dict(zip(titles, cells))
    return rows


def flag_differences(program, real, documented):
    """Of flags that are on both sides: default and range. A flag without a default may have words in its place, and one whose range the
    program does not show may have any."""
    for name in sorted(real.keys() & documented.keys()):
        row = documented[name]
        shown = row["default"].strip("`") if row["default"].startswith("`") else ""
        if shown != real[name].default:
            yield f"{CONFIGURATION.name}: error: {program} --{name} has the default {real[name].default!r}, but {shown!r} is documented"
        if "range" in row and real[name].range not in ("", row["range"]):
            yield f"{CONFIGURATION.name}: error: {program} --{name} takes {real[name].range!r}, but {row['range']!r} is documented"


def metrics_in_scrape(text):
    """Metric by name. The labels of a histogram's own series (le) are left out."""
    metrics = {name: Metric(kind, collections.defaultdict(set))
               for name, kind in re.findall(r"^# TYPE ([\w:]+) (\w+)$", text, re.MULTILINE)}
    for series, labels in re.findall(r"^([\w:]+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        name = series if series in metrics else re.sub(r"_(bucket|sum|count)$", "", series)
        for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels):
            if label != "le":
                metrics[name].labels[label].add(value)
    return metrics


def labels_in_document(cell):
    """From "`worker`, `state`: ready, lost": values by name, none where any may come."""
    labels = {}
    for name, values in re.findall(r"`(\w+)`(?::\s*([^`;]*))?", cell):
        labels[name] = {value.strip() for value in values.split(",") if value.strip()}
    return labels


def metrics_in_document(text):
    """Rows | `name` | kind | labels | meaning |; the router's have the label `model` besides."""
    metrics = {}
    for name, kind, cell in re.findall(r"^\|\s*`([\w:]+)`\s*\|([^|]*)\|([^|]*)\|", text, re.MULTILINE):
        common = {"model": set()} if name.startswith("lockstep_router_") else {}
        metrics[name] = Metric(kind.strip(), {**common, **labels_in_document(cell)})
    return metrics


def unseen_metrics(documented):
    """Those of models with several KV groups: the model that is served here has one."""
    return {name for name in documented if name.endswith("_kv_group_blocks")}


def metric_differences(real, documented):
    """Of metrics that are on both sides: kind, label names, and the values of labels that list them."""
    for name in sorted(real.keys() & documented.keys()):
        if real[name].kind != documented[name].kind:
            yield f"{METRICS.name}: error: {name} is a {real[name].kind}, but documented as {documented[name].kind}"
        yield from differences(real[name].labels.keys(), documented[name].labels.keys(), f"{name}: label", METRICS.name)
        for label, values in documented[name].labels.items():
            if values:
                yield from differences(real[name].labels.get(label, set()), values, f"{name}: {label}", METRICS.name)


def without_number(thread):
    return re.sub(r"-\d+$", "-N", thread)


def threads_of(server, process):
    """The process's own threads besides the main one, as "process name"."""
    tasks = pathlib.Path(f"/proc/{server.pid}/task")
    names = {(task / "comm").read_text().strip() for task in tasks.iterdir() if task.name != str(server.pid)}
    return {f"{process} {without_number(name)}" for name in names}


def threads_in_document(text):
    """Rows | router, worker or both | `name`, `name`, ... | owner | what it does |"""
    threads = set()
    for process, cell in re.findall(r"^\|\s*(router|worker|both)\s*\|([^|]*)\|", text, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", cell):
            threads |= {f"{p} {without_number(name)}" for p in ("router", "worker") if process in (p, "both")}
    return threads


def differences(real, documented, kind, document):
    for name in sorted(real - documented):
        yield f"{document}: error: {kind} {name} exists, but is not documented"
    for name in sorted(documented - real):
        yield f"{document}: error: {kind} {name} is documented, but does not exist"


def help_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS)
    return parse_help(done.stdout + done.stderr)


def check_flags(folder):
    document = CONFIGURATION.read_text(encoding="utf-8")
    real = {program: help_of(folder / program, "--help") for program in PROGRAMS}
    verbs = {f"lockstep {verb}": help_of(folder / "lockstep", "help", verb) for verb in VERBS}
    for program, flags in {**real, **verbs}.items():
        if not flags:
            yield f"{program}: error: --help lists no flags"
        documented = flags_in_document(section(document, program))
        yield from differences(flags.keys(), documented.keys(), f"{program} flag", CONFIGURATION.name)
        if program in real:  # verbs say defaults in words
            yield from flag_differences(program, flags, documented)


def check_the_check():
    """A default or a range that differs is found."""
    real = {"a": Flag("1 to 9", "7"), "b": Flag("", ""), "c": Flag("", "7")}
    right = "| flag | default | range |\n| `--a` | `7` | 1 to 9 |\n| `--b` | a half | any |\n| `--c` | `7` | any |\n"
    for wrong in (("`7` | 1", "`8` | 1"), ("1 to 9", "1 to 8"), ("a half", "`8`"), ("| `7` | any", "| | any")):
        text = right.replace(*wrong)
        if text == right or not list(flag_differences("p", real, flags_in_document(text))):
            yield f"programs.py: error: {wrong} is not found"
    yield from flag_differences("p", real, flags_in_document(right))


def commands_of(unit):
    """Kind and words of every command of a systemd unit, its lines joined."""
    for kind, command in re.findall(r"^(Exec\w+)=(.*)$", unit.replace("\\\n", " "), re.MULTILINE):
        yield kind, command.split()


def check_units(folder):
    variables = dict(re.findall(r"^(\w+)=(.*)$", (UNITS / "lockstep.env").read_text(encoding="utf-8"), re.MULTILINE))
    variables["LOCKSTEP_MODEL"] = str(MODEL)
    used = set()
    for path in sorted(UNITS.glob("*.service")):
        for kind, words in commands_of(path.read_text(encoding="utf-8")):
            program = pathlib.PurePath(words[0]).name
            known = help_of(folder / program, "--help").keys()
            flags = {word.removeprefix("--") for word in words if word.startswith("--")}
            yield from (f"{path.name}: error: {program} has no flag --{flag}" for flag in sorted(flags - known))
            names = {name for word in words for name in re.findall(r"\$\{?(\w+)", word)}
            used |= names
            yield from (f"{path.name}: error: {name} is not in lockstep.env" for name in sorted(names - variables.keys()))
            if kind == "ExecStartPre":
                yield from check_start(folder / program, words[1:], variables, path.name)
    yield from (f"lockstep.env: error: no unit uses {name}" for name in sorted(variables.keys() - used))


def check_start(program, words, variables, name):
    """Runs the command that must succeed before a unit starts, with the variables of lockstep.env."""
    arguments = []
    for word in words:
        text = re.sub(r"\$\{?(\w+)\}?", lambda match: variables[match[1]], word)
        arguments += [text] if "${" in word or "$" not in word else text.split()
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS)
    if done.returncode != 0:
        yield f"{name}: error: {program.name} {' '.join(arguments)} ends with {done.returncode}: {done.stderr.strip()}"


@contextlib.contextmanager
def listening(*command):
    """Runs a server; its addresses come from the line that it prints when ready."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            match = re.match(r"LISTENING grpc=(\S+) admin=(\S+)(?: http=\S+)?$", line)
            if not match:
                process.terminate()
                raise RuntimeError(f"{command[0]} printed {line!r}: {process.stderr.read()}")
            yield Server(*match.groups(), process.pid)
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE_SECONDS)


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=DEADLINE_SECONDS) as reply:
        return metrics_in_scrape(reply.read().decode())


def write_tenants(path, key):
    digest = hashlib.sha256(key.encode()).hexdigest()
    path.write_text(json.dumps({"tenants": [{"name": "lint", "key_sha256": [digest]}]}), encoding="utf-8")


def check_running(folder):
    """Serves one request of a tenant and looks at metrics and threads."""
    key = "the-key-of-this-test"
    with tempfile.TemporaryDirectory() as scratch:
        tenants = pathlib.Path(scratch) / "tenants.json"
        write_tenants(tenants, key)
        metrics, threads = serve_one_request(folder, tenants, key)
    documented = metrics_in_document(METRICS.read_text(encoding="utf-8"))
    yield from differences(metrics.keys() | unseen_metrics(documented), documented.keys(), "metric", METRICS.name)
    yield from metric_differences(metrics, documented)
    yield from differences(threads, threads_in_document(section(ARCHITECTURE.read_text(encoding="utf-8"), "Threads")),
                           "thread", ARCHITECTURE.name)


def serve_one_request(folder, tenants, key):
    """What the programs show of themselves then: metrics by name, threads."""
    ports = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
    with listening(folder / "lockstep-worker", "--model", MODEL, "--threads", "2", *ports) as worker:
        name = f"dns:///localhost:{worker.grpc.rpartition(':')[2]}"
        with listening(folder / "lockstep-router", "--model", MODEL, "--worker", name, "--listen", "127.0.0.1:0",
                       "--tenants", tenants, "--otlp-endpoint", NO_COLLECTOR, *ports) as router:
            subprocess.run([folder / "lockstep-generate", "--router", router.grpc, "--wait-seconds", "30", "--prompt",
                            "a step", "--max-tokens", "4", "--api-key", key], check=True, stdout=subprocess.DEVNULL,
                           timeout=DEADLINE_SECONDS)
            metrics = {**scrape(worker.admin), **scrape(router.admin)}
            threads = threads_of(worker, "worker") | threads_of(router, "router")
    return metrics, threads


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    folder = parser.parse_args().bin.resolve()
    errors = [*check_the_check(), *check_flags(folder), *check_units(folder), *check_running(folder)]
    print("\n".join(errors))
    print(f"{len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
