#!/usr/bin/env python3
"""Compares the programs with their documents: every flag that --help lists is in docs/configuration.md,
every metric that a served request leaves behind is in docs/metrics.md, and nothing there is made up.

    python3 tests/lint/programs.py --bin build/dev/bin
"""

import argparse
import contextlib
import pathlib
import re
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "docs" / "configuration.md"
METRICS = ROOT / "docs" / "metrics.md"
MODEL = ROOT / "tests" / "golden" / "tiny-llama"
PROGRAMS = ("lockstep-router", "lockstep-worker", "lockstep-generate")
DEADLINE_SECONDS = 60


def section(markdown, heading):
    """The text below the second-level heading that names `heading`."""
    for part in re.split(r"^## ", markdown, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        if heading in title:
            return text
    return ""


def flags_in_help(help_text):
    """Abseil prints underscores; the programs take dashes as well, and the documents use them."""
    names = re.findall(r"^\s*--([a-z][a-z0-9_-]*)", help_text, re.MULTILINE)
    return {name.replace("_", "-") for name in names}


def flags_in_document(text):
    """First cells of table rows: | `--flag` | ... |"""
    return set(re.findall(r"^\|\s*`--([a-z][a-z0-9_-]*)", text, re.MULTILINE))


def metrics_in_scrape(text):
    return set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))


def metrics_in_document(text):
    return set(re.findall(r"^\|\s*`(\w+)`", text, re.MULTILINE))


def differences(real, documented, kind, document):
    for name in sorted(real - documented):
        yield f"{document}: error: {kind} {name} exists, but is not documented"
    for name in sorted(documented - real):
        yield f"{document}: error: {kind} {name} is documented, but does not exist"


def check_flags(folder):
    document = CONFIGURATION.read_text(encoding="utf-8")
    for program in PROGRAMS:
        help_text = subprocess.run([folder / program, "--help"], capture_output=True, text=True, check=False,
                                   timeout=DEADLINE_SECONDS)
        real = flags_in_help(help_text.stdout + help_text.stderr)
        if not real:
            yield f"{program}: error: --help lists no flags"
        yield from differences(real, flags_in_document(section(document, program)),
                               f"{program} flag", CONFIGURATION.name)


@contextlib.contextmanager
def listening(*command):
    """Runs a server and yields (gRPC address, admin address) from the line that it prints when ready."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            match = re.match(r"LISTENING grpc=(\S+) admin=(\S+)$", line)
            if not match:
                process.terminate()
                raise RuntimeError(f"{command[0]} printed {line!r}: {process.stderr.read()}")
            yield match.groups()
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE_SECONDS)


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=DEADLINE_SECONDS) as reply:
        return metrics_in_scrape(reply.read().decode())


def check_metrics(folder):
    ports = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
    with listening(folder / "lockstep-worker", "--model", MODEL, *ports) as (worker, worker_admin):
        with listening(folder / "lockstep-router", "--model", MODEL, "--worker", worker,
                       *ports) as (router, router_admin):
            subprocess.run([folder / "lockstep-generate", "--router", router, "--wait-seconds", "30", "--prompt",
                            "a step", "--max-tokens", "4"], check=True, stdout=subprocess.DEVNULL,
                           timeout=DEADLINE_SECONDS)
            real = scrape(worker_admin) | scrape(router_admin)
    documented = metrics_in_document(METRICS.read_text(encoding="utf-8"))
    yield from differences(real, documented, "metric", METRICS.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    folder = parser.parse_args().bin.resolve()
    errors = [*check_flags(folder), *check_metrics(folder)]
    print("\n".join(errors))
    print(f"{len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
