"""vLLM's own tests of its HTTP API, against a router: vllm_api_test runs it.

    PYTHONPATH=build/clients-vllm-tests python3 tests/clients/vllm_api/check.py --programs FOLDER --model FILE.gguf [PYTEST OPTION ...]

deploy/fetch-clients --vllm-tests puts vLLM's source archive and the packages that its tests need into build/clients-vllm-tests. The tests are
copied into a temporary folder, with the name of our model in the place of theirs; tests/utils.py of vLLM is replaced by
remote_server.py, and the package vllm by stubs.py. selection.txt says which tests must pass, and for all others why not. Prints what
passed and failed; the exit code is 1 if a test that must pass does not, or if a test has no line.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parents[1] / "support"), str(HERE)]
from selection import FILES, VERSION, read_selection  # noqa: E402
from server_process import Server  # noqa: E402

SKIPPED = 77  # exit code
# Models that the tests name; ours stands for each of them.
MODELS = ("HuggingFaceH4/zephyr-7b-beta", "HuggingFaceTB/SmolLM2-135M-Instruct", "Qwen/Qwen2-1.5B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct",
          "Qwen/Qwen3-0.6B", "openai-community/gpt2")


def copy_tests(archive, folder, model):
    """The tests as packages, so that their relative imports hold."""
    for name in FILES:
        source = (archive / "tests" / "entrypoints" / name).read_text()
        for other in MODELS:
            source = source.replace(f'"{other}"', f'"{model}"')
        target = folder / "tests" / "entrypoints" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        for package in [target.parent, *target.parent.relative_to(folder).parents]:
            package = folder / package
            if package != folder:
                (package / "__init__.py").touch()
        target.write_text(source)
    conftest = pathlib.Path("tests", "entrypoints", "conftest.py")
    (folder / conftest).write_text((archive / conftest).read_text())
    (folder / "tests" / "utils.py").write_text((HERE / "remote_server.py").read_text())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    options, pytest_options = parser.parse_known_args()
    packages = ROOT / "build" / "clients-vllm-tests"
    archive = packages / f"vllm-{VERSION}"
    if not archive.is_dir():
        print(f"no {archive} of deploy/fetch-clients --vllm-tests: skipped")
        return SKIPPED
    if not options.model.is_file():
        print(f"no {options.model} of deploy/fetch-model: skipped")
        return SKIPPED
    read_selection()  # is it well-formed?
    worker = Server(options.programs / "lockstep-worker", "--model", options.model, "--device", "cpu", "--listen", "127.0.0.1:0",
                    "--admin-listen", "127.0.0.1:0", "--threads", "1")
    with worker, Server(options.programs / "lockstep-router", "--model", options.model, "--worker", worker.addresses["grpc"], "--listen",
                        "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--model-id", "lockstep") as router, \
            tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        copy_tests(archive, folder, "lockstep")
        environment = {**os.environ, "LOCKSTEP_URL": f"http://{router.addresses['grpc']}", "LOCKSTEP_GGUF": str(options.model.resolve()),
                       "PYTHONPATH": os.pathsep.join([str(folder), str(HERE), str(packages)]), "PYTHONDONTWRITEBYTECODE": "1",
                       "HF_HUB_OFFLINE": "1"}
        return subprocess.call([sys.executable, "-m", "pytest", "-q", "-p", "stubs", "-p", "selection", "-p", "no:cacheprovider",
                                "-o", "asyncio_mode=auto", "--tb=short", "--rootdir", str(folder), str(folder / "tests"), *pytest_options],
                               env=environment, cwd=folder)


if __name__ == "__main__":
    sys.exit(main())
