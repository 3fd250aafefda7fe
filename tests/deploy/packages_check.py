"""Makes the packages that CPack makes, and tries what is in them. Nothing is installed.

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
PROGRAMS = ("lockstep", "lockstep-generate", "lockstep-router", "lockstep-worker")
SKIP = 77


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
    run("sh", "-n", folder / "control" / "postinst")
    for path in (folder / "control" / "conffiles").read_text().split():
        assert (root / path.lstrip("/")).is_file(), f"conffiles: the package has no {path}"
    fields = run("dpkg-deb", "--field", package)
    assert re.search(r"^Depends: .*libc6", fields, re.MULTILINE), fields
    libraries = list((root / "usr").rglob("*.so*"))
    assert not libraries, f"the distribution has these itself: {libraries}"
    for rules in ("prometheus/alerts.rules.yml", "grafana/overview.json"):
        assert (root / "usr/share/lockstep" / rules).is_file(), rules


def check_archive(build, folder):
    package = make(build, "TGZ", folder)
    with tarfile.open(package) as archive:
        archive.extractall(folder / "root")
    top, = (folder / "root").iterdir()
    check_programs(top / "bin")
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
