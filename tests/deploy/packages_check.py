"""Makes the packages that CPack makes, and tries what is in them: a router and a worker run from their unpacked folder. Nothing is
installed.

    packages_check.py --build FOLDER
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "golden" / "tiny-llama"
PROGRAMS = ("lockstep", "lockstep-generate", "lockstep-router", "lockstep-worker")
# In share/ of both packages.
DOCUMENTS = ("lockstep/prometheus/alerts.rules.yml", "lockstep/prometheus/prometheus.yml", "lockstep/grafana/overview.json", "doc/lockstep/LICENSE",
             "doc/lockstep/docs/operations.md", "doc/lockstep/docs/examples/make_certificates", "doc/lockstep/docs/images/page.png")
SKIP = 77

sys.path.insert(0, str(ROOT / "tests" / "support"))
from server_process import PATIENCE, Server  # noqa: E402


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}"
    return done.stdout


def make(build, generator, folder):
    run("cpack", "-G", generator, "--config", build / "CPackConfig.cmake", "-B", folder)
    package, = [path for path in folder.iterdir() if path.suffix in (".deb", ".gz")]
    return package


def check_programs(binaries):
    for name in PROGRAMS:
        words = ("version",) if name == "lockstep" else ("--version",)
        said = run(binaries / name, *words)
        assert "lockstep" in said and re.search(r"\d+\.\d+\.\d+", said), f"{name} says {said!r}"
    addresses = ("--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0")
    with Server(binaries / "lockstep-worker", f"--model={MODEL}", "--threads=1", *addresses) as worker, \
            Server(binaries / "lockstep-router", f"--model={MODEL}", f"--worker={worker.addresses['grpc']}", *addresses) as router:
        # A chat needs the template renderer, which must lie beside the router.
        said = run(binaries / "lockstep-generate", "--router", router.addresses["grpc"], "--wait-seconds", PATIENCE, "--chat", "user:Hello",
                   "--max-tokens", "4", "--json")
        assert '"finish_reason"' in said, said


def check_documents(share):
    for name in DOCUMENTS:
        assert (share / name).is_file(), f"the package has no {name}"


def check_scripts(control, folder):
    """The scripts of the package, with programs in place of the real ones that write down how they were called."""
    for kind in ("postinst", "prerm", "postrm"):
        run("sh", "-n", control / kind)
        assert (control / kind).stat().st_mode & 0o777 == 0o755, kind
    stubs, calls = folder / "stubs", folder / "calls"
    stubs.mkdir()
    for name in ("getent", "useradd", "systemctl"):
        result = {"getent": "$USER_MISSING", "systemctl": "${SYSTEMCTL_RESULT:-0}"}.get(name, "0")
        (stubs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{calls}\nexit "{result}"\n')
        (stubs / name).chmod(0o755)
    # postinst makes the user if there is none.
    for action, missing, made in (("configure", 2, True), ("configure", 0, False), ("abort-upgrade", 2, False)):
        calls.write_text("")
        run("sh", control / "postinst", action, env={"PATH": f"{stubs}:/usr/bin:/bin", "USER_MISSING": str(missing)})
        assert ("useradd --system" in calls.read_text()) == made, f"postinst {action}: {calls.read_text()}"


def check_removal(control, folder):
    """A removal stops the services, an update does not, and only a purge removes links: those that lead nowhere. A systemctl that fails
    stops none of that. `folder` is the root of a system."""
    wants = folder / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (folder / "run/systemd/system").mkdir(parents=True)
    links = [wants / name for name in ("lockstep-router.service", "lockstep-worker@0.service", "lockstep-worker@1.service", "other.service")]
    alive = links[2]
    for link in links:
        link.symlink_to(control if link == alive else folder / "none")

    def call(script, *arguments, result):
        calls = folder / "calls"
        calls.write_text("")
        run("sh", control / script, *arguments, env={"PATH": f"{folder / 'stubs'}:/usr/bin:/bin", "DPKG_ROOT": str(folder), "SYSTEMCTL_RESULT": result})
        return calls.read_text()

    reload = "systemctl daemon-reload\n"
    for result in ("0", "1"):
        stopped = call("prerm", "remove", result=result)
        assert stopped == "systemctl stop lockstep-router.service lockstep-worker@*.service\n", f"prerm remove: {stopped}"
        assert call("prerm", "upgrade", "0.2.0", result=result) == "", "an update stops something"
        for action in ("remove", "upgrade"):
            assert call("postrm", action, result=result) == reload, f"postrm {action}"
            assert all(link.is_symlink() for link in links), f"postrm {action} removes links"
    assert call("postrm", "purge", result="1") == reload
    assert [link for link in links if link.is_symlink()] == [alive, links[3]], "a purge removes the links of our units that lead nowhere"


def check_deb(build, folder):
    package = make(build, "DEB", folder)
    root = folder / "root"
    run("dpkg-deb", "--extract", package, root)
    run("dpkg-deb", "--control", package, folder / "control")
    check_programs(root / "usr" / "bin")
    for unit in (root / "usr/lib/systemd/system").glob("*.service"):
        for program in re.findall(r"^ExecStart\w*=(\S+)", unit.read_text(), re.MULTILINE):
            assert (root / program.lstrip("/")).exists(), f"{unit.name}: the package has no {program}"
        environment, = re.findall(r"^EnvironmentFile=(\S+)", unit.read_text(), re.MULTILINE)
        assert environment in (folder / "control" / "conffiles").read_text().split(), f"{unit.name}: {environment} is no conffile"
        user, = re.findall(r"^User=(\S+)", unit.read_text(), re.MULTILINE)
        assert f" {user}" in (folder / "control" / "postinst").read_text(), f"{unit.name}: nothing makes the user {user}"
    check_scripts(folder / "control", folder)
    check_removal(folder / "control", folder)
    check_documents(root / "usr" / "share")
    for path in (folder / "control" / "conffiles").read_text().split():
        assert (root / path.lstrip("/")).is_file(), f"conffiles: the package has no {path}"
    fields = run("dpkg-deb", "--field", package)
    assert re.search(r"^Depends: .*\bpasswd\b", fields, re.MULTILINE), fields
    for library in ("libc6", "libgrpc++", "libssl", "python3-jinja2"):
        assert re.search(rf"^Depends: .*{re.escape(library)}", fields, re.MULTILINE), f"no dependency on {library}: {fields}"
    libraries = list((root / "usr").rglob("*.so*"))
    assert not libraries, f"the distribution has these itself: {libraries}"


def check_archive(build, folder):
    package = make(build, "TGZ", folder)
    with tarfile.open(package) as archive:
        archive.extractall(folder / "root")
    top, = (folder / "root").iterdir()
    check_programs(top / "bin")
    check_documents(top / "share")
    assert (top / "share/lockstep/systemd/lockstep-router.service").is_file()
    for name in PROGRAMS:
        for line in run("ldd", top / "bin" / name).splitlines():
            library = line.split()[0]
            own = f"{top}/bin/../lib/" in line or f"{top}/lib/" in line
            system = re.match(r"(linux-vdso|/lib|lib(c|m|dl|pthread|rt|resolv)\.so|libcu|libnv)", library)
            assert own or system, f"{name}: {line.strip()} is not in the archive"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    options = parser.parse_args()
    if not shutil.which("dpkg-deb"):
        print("no dpkg-deb: skipped")
        return SKIP
    for check in (check_deb, check_archive):
        with tempfile.TemporaryDirectory() as folder:
            check(options.build.resolve(), pathlib.Path(folder))
    print("the .deb and the .tar.gz are right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
