"""Makes the wheel and tries it as pip would lay it out, without a network: what it says of itself, that its libraries come from within, and
that its command serves a model with the Python that it was installed for.

    wheel_check.py --build FOLDER

deploy/check-wheel tries it with pip, in bare file systems.
"""

import argparse
import base64
import configparser
import csv
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "golden" / "tiny-llama"
JINJA = [pathlib.Path("/usr/lib/python3/dist-packages") / name for name in ("jinja2", "markupsafe")]
MOST_MIB = {False: 40, True: 160}  # of a wheel without CUDA and with it
SKIP = 77


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}"
    return done.stdout


def unpack(wheel, folder):
    """As pip does, with what it checks."""
    with zipfile.ZipFile(wheel) as archive:
        info, = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        recorded = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(archive.read(f"{info}/RECORD").decode()))}
        assert recorded.keys() == set(archive.namelist()), "RECORD lists other files"
        for entry in archive.infolist():
            data = archive.read(entry)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            if entry.filename != f"{info}/RECORD":
                assert recorded[entry.filename] == (f"sha256={digest}", str(len(data))), f"RECORD is wrong about {entry.filename}"
            path = pathlib.Path(archive.extract(entry, folder))
            path.chmod(0o755 if entry.external_attr >> 16 & 0o111 else 0o644)
    return folder / info


def check_metadata(wheel, info):
    metadata = (info / "METADATA").read_text()
    version = re.search(r"^Version: (\S+)$", metadata, re.MULTILINE)[1]
    has_cuda = "without CUDA" not in run(info.parent / "lockstep/bin/lockstep", "version")
    assert version.endswith("+cpu") != has_cuda, version
    assert ("Requires-Dist: nvidia-cublas==" in metadata) == has_cuda, metadata
    assert "Requires-Dist: jinja2" in metadata and "Requires-Dist: llguidance>=1.9,<1.10" in metadata, metadata
    tag = re.search(r"^Tag: (py3-none-manylinux_2_\d+_\w+)$", (info / "WHEEL").read_text(), re.MULTILINE)[1]
    assert wheel.name == f"lockstep-{version}-{tag}.whl", wheel.name
    assert (info / "licenses/LICENSE").is_file() and len(list((info / "licenses").iterdir())) > 10, "the notices of the libraries are missing"
    assert wheel.stat().st_size < MOST_MIB[has_cuda] << 20, f"{wheel.stat().st_size >> 20} MiB"


def lend_cuda(build, site):
    """Puts the toolkit's libraries where the worker looks for those of NVIDIA's wheels."""
    found = re.search(r"libcudart\S* => (/\S+)/", run("ldd", build / "bin/lockstep-worker"))
    path, = re.findall(r"\(RPATH\).*\[(.+)\]", run("readelf", "--dynamic", site / "lockstep/bin/lockstep-worker"))
    own, *others = path.split(":")
    assert own == "$ORIGIN/../lib" and bool(others) == bool(found), path
    for place in others:
        folder = site / re.fullmatch(r"\$ORIGIN/\.\./\.\./(nvidia/.+)", place)[1]
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.symlink_to(found[1])


def check_libraries(site):
    """No program finds a library outside, but for the C library."""
    for program in (site / "lockstep/bin").iterdir():
        if program.name in ("lockstep-constraint-engine", "lockstep-template-renderer"):
            continue
        for line in run("ldd", program).splitlines():
            own = os.path.normpath(line.split(" => ")[-1].split(" (")[0]).startswith(f"{site}/")
            system = re.match(r"\s*(linux-vdso|/lib64/ld-linux|/lib/ld-linux|lib(c|m|dl|pthread|rt|resolv)\.so)", line)
            assert own or system, f"{program.name}: {line.strip()} is not in the wheel"


def check_commands(info, python):
    """Each command runs, as the script that pip makes of its entry point."""
    entries = configparser.ConfigParser()
    entries.read(info / "entry_points.txt")
    scripts = {}
    for command, place in entries["console_scripts"].items():
        module, function = place.split(":")
        scripts[command] = [python, "-c", f"from {module} import {function}; {function}()"]
        said = run(*scripts[command], "version" if command == "lockstep" else "--version", env={"PYTHONPATH": str(info.parent)})
        assert said.startswith(f"{command} "), said
    assert scripts.keys() == {"lockstep", "lockstep-generate", "lockstep-router", "lockstep-worker"}
    return scripts


def check_serve(command, site, python, home):
    environment = {"PYTHONPATH": str(site), "HOME": str(home), "PATH": "/usr/bin:/bin"}
    server = subprocess.Popen([*command, "serve", str(MODEL), "--port", "0", "--device", "cpu"], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    try:
        said = ""
        for line in server.stdout:
            said += line
            address = re.search(r"http://(127\.0\.0\.1:\d+)/v1", line)
            if address:
                break
        else:
            raise AssertionError(f"lockstep serve ends:\n{said}" + "".join(log.read_text() for log in home.rglob("*.log")))
        # It takes the place of Python; its children are the servers.
        assert os.readlink(f"/proc/{server.pid}/exe") == str(site / "lockstep/bin/lockstep")
        children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        words = [word for child in children for word in pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")]
        assert f"--template-python={python}" in words, words
        body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}).encode()
        request = urllib.request.Request(f"http://{address[1]}/v1/chat/completions", body, {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as reply:
            assert json.load(reply)["choices"][0]["finish_reason"]
        server.send_signal(signal.SIGINT)
        server.communicate()
        assert server.returncode == 0, f"lockstep serve ends with {server.returncode}"
    finally:
        server.kill()
        server.wait()


def check(build, folder):
    run(sys.executable, ROOT / "deploy" / "wheel", build, "--out", folder / "out")
    wheel, = (folder / "out").iterdir()
    site, home = folder / "site", folder / "home"
    info = unpack(wheel, site)
    check_metadata(wheel, info)
    lend_cuda(build, site)
    check_libraries(site)
    # A Python of its own, which knows no package but those beside the wheel.
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    scripts = check_commands(info, python)
    for package in JINJA:
        shutil.copytree(package, site / package.name)
    home.mkdir()
    check_serve(scripts["lockstep"], site, python, home)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    options = parser.parse_args()
    if not shutil.which("dpkg-query") or not all(package.is_dir() for package in JINJA):
        print("no packages of Debian: skipped")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        check(options.build.resolve(), pathlib.Path(folder).resolve())
    print("the wheel is right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
