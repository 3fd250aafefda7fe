"""Checks the alerts, recording rules and dashboards of deploy/ against a router and a worker that run.

    monitoring_check.py --router ADDRESS --router-admin ADDRESS --worker-admin ADDRESS --prometheus FILE --promtool FILE

A real Prometheus scrapes both while requests run. Every recording rule and every panel must have a number then, every selector of an
alert must find series, and no alert may fire. Exceptions are listed below, each with its reason.
"""

import argparse
import contextlib
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "deploy" / "prometheus").glob("*.rules.yml"))
ALERTS_TEST = ROOT / "deploy" / "prometheus" / "alerts_test.yml"
CONFIGURATION = ROOT / "deploy" / "prometheus" / "prometheus.yml"
DASHBOARDS = ROOT / "deploy" / "grafana"
METRICS = ROOT / "docs" / "metrics.md"
OPERATIONS = ROOT / "docs" / "operations.md"
PATIENCE = 90  # seconds
HISTOGRAM_PARTS = re.compile(r"_(bucket|sum|count)$")
METRIC = re.compile(r"\b(?:lockstep_\w+|process_\w+)")
SELECTOR = re.compile(r"\b(?:lockstep_\w+|lockstep:[\w:]+|process_\w+)(?:\{[^}]*\})?")

# Selectors of alerts without series in a healthy run.
EMPTY_SELECTORS = {
    "lockstep:prefix_cached:ratio15m offset": "looks a day back",
}


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}"
    return done.stdout


def fetch(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE) as response:
        return response.read().decode()


def complete(router, prompt):
    body = json.dumps({"model": "tiny-llama", "prompt": prompt, "max_tokens": 8}).encode()
    request = urllib.request.Request(f"http://{router}/v1/completions", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=PATIENCE).read()


@contextlib.contextmanager
def prometheus(program, targets):
    """The address of a Prometheus with our rules that scrapes `targets`, job by job, every second."""
    with tempfile.TemporaryDirectory() as folder:
        configuration = pathlib.Path(folder) / "prometheus.yml"
        jobs = [{"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in targets.items()]
        # JSON is YAML.
        configuration.write_text(json.dumps({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                                             "rule_files": [str(path) for path in RULES], "scrape_configs": jobs}))
        process = subprocess.Popen(
            [program, f"--config.file={configuration}", f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            address = None
            for line in process.stderr:
                if match := re.search(r'msg="Listening on" address=(\S+)', line):
                    address = match[1]
                if "Server is ready to receive web requests" in line:
                    break
            assert address, "Prometheus did not start"
            yield address
        finally:
            process.terminate()
            process.communicate()


def query(address, expression):
    """Values of an instant query that are numbers."""
    answer = json.loads(fetch(address, "/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
    assert answer["status"] == "success", f"{expression}: {answer}"
    values = [float(sample["value"][1]) for sample in answer["data"]["result"]]
    return [value for value in values if not math.isnan(value)]


def loaded_rules(address):
    groups = json.loads(fetch(address, "/api/v1/rules"))["data"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panel_queries():
    """Title and query of every panel, with Grafana's variables filled in."""
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield (f"{path.name}, {panel['title']}",
                       target["expr"].replace("$__rate_interval", "1m").replace("$model", ".*"))


def check_files(promtool):
    run(promtool, "check", "config", CONFIGURATION)
    run(promtool, "check", "rules", *RULES)
    run(promtool, "test", "rules", ALERTS_TEST, cwd=ALERTS_TEST.parent)
    run(sys.executable, DASHBOARDS / "make_dashboards", "--check")


def check_dashboards():
    uids = set()
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text())
        assert dashboard["uid"] not in uids, f"{path.name}: the uid of another dashboard"
        uids.add(dashboard["uid"])
        ids = [panel["id"] for panel in dashboard["panels"]]
        assert len(ids) == len(set(ids)), f"{path.name}: two panels have one id"
        cells = set()
        for panel in dashboard["panels"]:
            at = panel["gridPos"]
            mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert at["x"] + at["w"] <= 24 and not cells & mine, f"{path.name}: {panel['title']} lies over another panel"
            cells |= mine
    assert len(uids) == 4, uids


def check_names(rules):
    documented = set(re.findall(r"^\| `(\w+)` \|", METRICS.read_text(), re.MULTILINE))
    recorded = {rule["name"] for rule in rules if rule["type"] == "recording"}
    for where, text in [(rule["name"], rule["query"]) for rule in rules] + list(panel_queries()):
        for name in METRIC.findall(text):
            assert name in documented or HISTOGRAM_PARTS.sub("", name) in documented, f"{where}: {name} is not in {METRICS.name}"
        for name in re.findall(r"lockstep:[\w:]+", text):
            assert name in recorded, f"{where}: nothing records {name}"


def check_runbooks(alerts):
    headings = set(re.findall(r"^### (\w+)$", OPERATIONS.read_text(), re.MULTILINE))
    tested = set(re.findall(r"^\s+alertname: (\w+)$", ALERTS_TEST.read_text(), re.MULTILINE))
    names = {rule["name"] for rule in alerts}
    assert names == headings, f"alerts and sections of {OPERATIONS.name} differ: {names ^ headings}"
    assert names == tested, f"alerts and tests differ: {names ^ tested}"
    for rule in alerts:
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{rule['name'].lower()}", rule
        assert rule["labels"]["severity"] in ("warning", "critical"), rule


def missing_data(address, rules):
    """What has no number yet."""
    wanted = [(rule["name"], rule["name"]) for rule in rules if rule["type"] == "recording"] + list(panel_queries())
    for rule in rules:
        if rule["type"] != "alerting":
            continue
        text = re.sub(r"absent\((.*?)\)", r"\1", rule["query"])
        for match in SELECTOR.finditer(text):
            if match[0] + " offset" in EMPTY_SELECTORS and text[match.end():].startswith(" offset"):
                continue
            wanted.append((rule["name"], match[0]))
    return [f"{where}: {expression}" for where, expression in wanted if not query(address, expression)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("router", "router-admin", "worker-admin", "prometheus", "promtool"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()

    check_files(options.promtool)
    check_dashboards()
    for admin in (options.router_admin, options.worker_admin):
        # promtool takes a colon for a recording rule's name; those of vLLM have one.
        own = [line for line in fetch(admin, "/metrics").splitlines(keepends=True) if not re.match(r"(# \w+ )?vllm:", line)]
        run(options.promtool, "check", "metrics", input="".join(own))
    targets = {"lockstep-router": options.router_admin, "lockstep-worker": options.worker_admin}
    with prometheus(options.prometheus, targets) as address:
        rules = loaded_rules(address)
        alerts = [rule for rule in rules if rule["type"] == "alerting"]
        check_names(rules)
        check_runbooks(alerts)
        deadline = time.monotonic() + PATIENCE
        while missing := missing_data(address, rules):
            assert time.monotonic() < deadline, "no data:\n" + "\n".join(missing)
            complete(options.router, "A prompt that is long enough to fill several blocks of the cache. " * 4)
        firing = [rule["name"] for rule in loaded_rules(address) if rule["type"] == "alerting" and rule["state"] == "firing"]
        assert not firing, f"firing: {firing}"
    print(f"{len(alerts)} alerts, {len(rules) - len(alerts)} recording rules, {len(list(panel_queries()))} queries of panels")


if __name__ == "__main__":
    main()
