"""Clients that call tools, and that ask for outputs of a type, against a router with constraints: each is what its maker published.

    agent_clients_check.py --programs FOLDER --model FOLDER --packages FOLDER --clients FOLDER

The model knows nothing. So calls are forced, outputs have schemas, and the checks look at their structure. `--clients` is where deploy/fetch-clients
puts its folders.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from agent_model import TOOL_FORMAT, make_agent_model  # noqa: E402
from server_process import OWN_LOOPBACK, PATIENCE, Server, wait_until  # noqa: E402

SKIP = 77
# A check, and the folder with its packages.
CHECKS = (
    ("openai_check.py", "clients"),
    ("langchain_check.py", "clients"),
    ("instructor_check.py", "clients-agents"),
    ("openai_agents_check.py", "clients-agents"),
    ("outlines_check.py", "clients-agents"),
    ("litellm_check.py", "clients-litellm"),
    ("anthropic_check.py", "clients-anthropic"),
    ("anthropic_check.py", "clients-anthropic-1"),
)


def is_ready(address):
    try:
        with urllib.request.urlopen(f"http://{address}/ready", timeout=PATIENCE) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("programs", "model", "packages", "clients"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    options = parser.parse_args()
    if not (options.packages / "llguidance").is_dir():
        print(f"no llguidance: skipped (deploy/fetch-llguidance): {options.packages}")
        return SKIP
    for _, folder in CHECKS:
        if not (options.clients / folder / ".packages").is_file():
            print(f"no {folder}: skipped (deploy/fetch-clients): {options.clients}")
            return SKIP

    listen = f"{OWN_LOOPBACK}:0"
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        model = make_agent_model(options.model, folder)
        common = ("--model", model, "--listen", listen, "--admin-listen", listen, "--constraint-packages", options.packages)
        with Server(options.programs / "lockstep-worker", *common, "--device", "cpu", "--threads", "1", "--kv-cache-tokens", "65536") as worker, \
             Server(options.programs / "lockstep-router", *common, "--worker", worker.addresses["grpc"], "--tool-format", TOOL_FORMAT) as router:
            wait_until(lambda: is_ready(router.addresses["grpc"]), "the worker is attached")
            for check, packages in CHECKS:
                environment = {**os.environ, "PYTHONPATH": str(options.clients / packages), "PYTHONDONTWRITEBYTECODE": "1",
                               "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
                outcome = subprocess.run([sys.executable, "-W", "ignore", pathlib.Path(__file__).with_name(check), router.addresses["grpc"]],
                                         env=environment, capture_output=True, text=True, timeout=PATIENCE)
                if outcome.returncode != 0:
                    failed.append(f"{check} with {packages}")
                    print(f"{failed[-1]}:\n{outcome.stdout}{outcome.stderr}")
    assert not failed, f"failed: {', '.join(failed)}"
    print(f"{len(CHECKS)} clients call tools and get outputs of their types")
    return 0


if __name__ == "__main__":
    sys.exit(main())
