"""Checks of the repository around the code: layout, commits, documents, corpora, scripts."""

import pathlib
import re
import subprocess

from tree import Finding, files, numbered_lines, read, tracked_top_level
from voice_words import RIDDLE

# --- layout ---

TOP_LEVEL = {
    "CMakeLists.txt", "proto", "router", "worker", "kernels", "common", "cli", "deploy", "tests", "bench", "docs",
    "README.md", "LICENSE", "CMakePresets.json", "quickstart", "test",
    "CONTRIBUTING.md", ".ci", ".clang-format", ".clang-tidy", ".clangd", ".editorconfig", ".gitignore",
}


def check_layout(root):
    for name in sorted(TOP_LEVEL):
        if not (root / name).exists():
            yield Finding(pathlib.Path(name), 0, "missing at the top of the repository")
    for name in sorted((tracked_top_level(root) or TOP_LEVEL) - TOP_LEVEL):
        yield Finding(pathlib.Path(name), 0, "does not belong at the top of the repository")


# --- subjects of commits ---

# The check is younger than the repository: it looks at what came after this commit.
SUBJECTS_SINCE = "238bb31ab747b3b392231b17391ca6244cd2b29c"
SUBJECT_COLUMNS = 72
SUBJECT = re.compile(r"[\w./-]+(, [\w./-]+)*: \S|Revert \"")


def new_commits(root):
    """[(short hash, message)] of the commits to check, and why there are none to check, or None."""
    def git(*arguments):
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)

    if not (root / ".git").exists():
        return [], "there is no .git here"
    if git("merge-base", "--is-ancestor", SUBJECTS_SINCE, "HEAD").returncode == 0:
        commits = f"{SUBJECTS_SINCE}..HEAD"
    elif git("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        commits = "HEAD"  # all that is there is newer
    else:
        return [], f"commit {SUBJECTS_SINCE[:10]} is not in this history"
    log = git("log", "--no-merges", "--format=%h%n%B%x00", commits)
    if log.returncode != 0:
        return [], log.stderr.strip()
    entries = (entry.lstrip("\n").partition("\n") for entry in log.stdout.split("\0"))
    return [(short, message) for short, _, message in entries if short], None


def check_commits(root):
    """A subject says `room: what changed` in 72 columns, and a blank line parts it from the reasons."""
    commits, problem = new_commits(root)
    if problem:
        yield Finding(pathlib.Path("."), 0, f"subjects of commits were not checked: {problem}", is_warning=True)
    for short, message in commits:
        subject, *rest = message.splitlines() or [""]
        where = pathlib.Path(f"commit {short}")
        if not SUBJECT.match(subject):
            yield Finding(where, 1, f'"{subject}" does not begin with a room, as in "router: what changed"')
        if len(subject) > SUBJECT_COLUMNS:
            yield Finding(where, 1, f'"{subject}" has {len(subject)} columns, more than {SUBJECT_COLUMNS}')
        if rest and rest[0].strip():
            yield Finding(where, 2, "no blank line follows the subject")


# --- links in documents ---

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def anchors(markdown):
    """The anchors of a document's headings, spelled as GitHub does."""
    found = set()
    for heading in re.findall(r"^#+\s+(.*?)\s*#*$", markdown, re.MULTILINE):
        text = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        found.add(text.replace(" ", "-"))
    return found


def check_links(root):
    for path in files(root, ".md"):
        inside_code = False
        for number, line in numbered_lines(root, path):
            if line.lstrip().startswith("```"):
                inside_code = not inside_code
            if inside_code:
                continue
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                linked = (root / path.parent / file) if file else root / path
                if not linked.exists():
                    yield Finding(path, number, f"the link {target} leads nowhere")
                elif anchor and linked.suffix == ".md" and anchor not in anchors(linked.read_text("utf-8")):
                    yield Finding(path, number, f"{linked.name} has no heading for #{anchor}")


# --- the width of documents ---

MAX_PROSE_COLUMNS = 100
UNBREAKABLE = re.compile(r"`+[^`]*`+|!?\[(?:`[^`]*`|[^\]])*\]\([^)\s]*\)")


def prose_lines(markdown):
    """(number, line) of a document without tables, fenced and indented code. A list's continuation is prose."""
    inside_fence = inside_code = inside_list = False
    after_blank = True
    for number, line in enumerate(markdown.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            inside_fence = not inside_fence
        elif not inside_fence and line.strip():
            indented = line.startswith("    ")
            inside_code = indented and not inside_list and (inside_code or after_blank)
            if not indented:
                inside_list = bool(re.match(r" {0,3}(?:[-*+]|\d+[.)]) ", line)) or (inside_list and line[0] == " ")
            if not inside_code and not line.lstrip().startswith("|"):
                yield number, line
        after_blank = not line.strip()


def check_widths(root):
    """Prose ends at column 100, unless a link or a piece of code cannot be broken before."""
    for path in files(root, ".md"):
        for number, line in prose_lines(read(root, path)):
            if len(line) <= MAX_PROSE_COLUMNS:
                continue
            start = len(line) - len(re.sub(r"^[\s>]*(?:(?:[-*+]|\d+[.)]|#+)\s+)*", "", line))
            solid = UNBREAKABLE.sub(lambda match: "x" * len(match.group()), line)
            if " " in solid[start:MAX_PROSE_COLUMNS + 1]:
                yield Finding(path, number, f"{len(line)} columns; prose has at most {MAX_PROSE_COLUMNS}")


# --- the voice of documents ---

MAX_RIDDLES_PER_1000_LINES = 3
DIARY = pathlib.Path("bench/results/diary.md")  # as long as half of all other pages, so it counts by itself


def check_docs_voice(root):
    """Documents have few riddling words (voice_words.py). Beyond the limit each one is a finding."""
    pages = files(root, ".md")
    yield from riddles_of(root, [page for page in pages if page != DIARY])
    yield from riddles_of(root, [page for page in pages if page == DIARY])


def riddles_of(root, pages):
    findings = []
    num_lines = 0
    for path in pages:
        text = read(root, path)
        num_lines += len(text.splitlines())
        prose = re.sub(r"^```.*?^```|`[^`\n]*`", lambda code: re.sub(r"[^\n]", " ", code.group()), text,
                       flags=re.MULTILINE | re.DOTALL)
        for match in RIDDLE.finditer(prose):
            word = " ".join(match.group().split())
            findings.append(Finding(path, prose.count("\n", 0, match.start()) + 1,
                                    f'"{word}" makes a riddle: name the person or thing, and put the subject first'))
    if len(findings) * 1000 > MAX_RIDDLES_PER_1000_LINES * num_lines:
        yield from findings


# --- paths of the sources in documents ---

SOURCE_PATH = re.compile(r"`((?:\w+/)+[\w.*-]*)`")
PATH_ROOTS = ("bench", "cli", "common", "deploy", "docs", "kernels", "proto", "router", "tests", "worker")


def check_paths(root):
    """A path in backticks that begins with a folder of ours exists. Decisions tell of their time, and are left out."""
    for path in files(root, ".md"):
        if path.is_relative_to("docs/decisions"):
            continue
        for number, line in numbered_lines(root, path):
            for target in SOURCE_PATH.findall(line):
                if target.split("/")[0] in PATH_ROOTS and not any(root.glob(target.rstrip("/"))):
                    yield Finding(path, number, f"there is no {target}")


# --- fuzz corpora ---

def check_corpora(root):
    """Every lockstep_fuzzer() names a seed corpus, and the folder holds files."""
    for path in files(root, ".txt", folders=("tests/fuzz",)):
        if path.name != "CMakeLists.txt":
            continue
        text = read(root, path)
        for match in re.finditer(r"^\s*lockstep_fuzzer\(\s*(\w+)(.*?)\)\s*$", text, re.MULTILINE | re.DOTALL):
            name, arguments = match.groups()
            line = text[:match.start(1)].count("\n") + 1
            corpus = re.search(r"\bCORPUS\s+(\S+)", arguments)
            if not corpus:
                yield Finding(path, line, f"{name} has no CORPUS")
                continue
            folder = corpus.group(1)
            for variable, value in (("CMAKE_SOURCE_DIR", "."), ("CMAKE_CURRENT_SOURCE_DIR", path.parent.as_posix())):
                folder = folder.replace("${" + variable + "}", value)
            if not files(root, folders=(folder,)):
                yield Finding(path, line, f"the seed corpus {folder} of {name} is empty")


# --- scripts ---

def check_scripts(root):
    """Scripts parse, can be executed, and stop at the first error."""
    for path in files(root):
        if path.suffix == ".py":
            try:
                compile(read(root, path), str(path), "exec")
            except SyntaxError as error:
                yield Finding(path, error.lineno or 0, f"does not compile: {error.msg}")
            continue
        if path.suffix or not (root / path).read_bytes().startswith(b"#!/usr/bin/env bash"):
            continue
        parsed = subprocess.run(["bash", "-n", str(root / path)], capture_output=True, text=True, check=False)
        if parsed.returncode != 0:
            yield Finding(path, 0, parsed.stderr.strip())
        if not (root / path).stat().st_mode & 0o100:
            yield Finding(path, 0, "is not executable")
        if not re.search(r"^set -e?uo pipefail$", read(root, path), re.MULTILINE):
            yield Finding(path, 0, "does not say set -euo pipefail")
