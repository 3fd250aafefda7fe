"""What every check needs: findings, and the files of a source tree."""

import dataclasses
import pathlib
import re
import subprocess

CPP_FOLDERS = ("cli", "common", "router", "worker", "kernels", "tests", "bench")
CPP_SUFFIXES = (".h", ".cc", ".cu", ".cuh")
IGNORED_FOLDERS = {".git", "build", ".models", "__pycache__"}


@dataclasses.dataclass(frozen=True)
class Finding:
    path: pathlib.Path  # relative to the root of the tree
    line: int           # 1-based; 0 if the finding is about the whole file
    message: str
    is_warning: bool = False

    def __str__(self):
        kind = "warning" if self.is_warning else "error"
        return f"{self.path}:{self.line}: {kind}: {self.message}"


def files(root, *suffixes, folders=(".",)):
    """Paths below `folders`, relative to `root`, sorted; generated and ignored folders are left out."""
    found = set()
    for folder in folders:
        for path in (root / folder).rglob("*"):
            relative = path.relative_to(root)
            if IGNORED_FOLDERS.isdisjoint(relative.parts) and path.is_file():
                if not suffixes or path.suffix in suffixes:
                    found.add(relative)
    return sorted(found)


def cpp_files(root):
    return files(root, *CPP_SUFFIXES, folders=CPP_FOLDERS)


def read(root, path):
    return (root / path).read_text(encoding="utf-8")


def numbered_lines(root, path):
    return enumerate(read(root, path).splitlines(), start=1)


def without_comments_and_strings(text):
    """The same text with comments and the contents of literals blanked, line breaks kept."""
    pattern = re.compile(
        r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
        re.DOTALL)

    def blank(match):
        if match.group().startswith("'") and match.start() > 0 and text[match.start() - 1].isalnum():
            return match.group()  # a digit separator as in 1'000
        return re.sub(r"[^\n]", " ", match.group())

    return pattern.sub(blank, text)


def tracked_top_level(root):
    """Top-level names that git tracks, or None where `root` is not the top of a git work tree."""
    if not (root / ".git").exists():
        return None
    listing = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        return None
    return {line.split("/", 1)[0] for line in listing.stdout.splitlines()}
