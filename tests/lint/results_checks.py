"""Checks that documents show the kept results of benchmarks as they are."""

import itertools
import pathlib
import re
import subprocess
import sys

from tree import Finding, read

FOLDER = pathlib.Path("bench/results")
TABLES = FOLDER / "tables.md"
CHART = pathlib.Path("docs/images/beside-vllm.svg")
PAGE = pathlib.Path("docs/performance.md")
README = pathlib.Path("README.md")
MEASURED = re.compile(r"Commit [0-9a-f]{7}, \d{4}-\d\d-\d\d\b")
FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
PROOF_FIGURE = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*(?![\w-])")  # not the 8 of 8B, nor the 200 of H200


def made(root, script, target, *arguments):
    """Whether `target` is what `script` prints; a finding if not."""
    printed = subprocess.run([sys.executable, str(root / script), *arguments], capture_output=True, text=True,
                             check=False)
    if printed.returncode != 0:
        yield Finding(script, 0, printed.stderr.strip().splitlines()[-1])
    elif not (root / target).exists() or read(root, target) != printed.stdout:
        yield Finding(target, 0, f"is not what {' '.join([str(script), *arguments])} prints; run it again")


def check_results(root):
    """Every kept result stands in the appendix. The page for users and the chart show them as they are."""
    yield from made(root, FOLDER / "table", TABLES, "--all")
    yield from made(root, FOLDER / "chart", CHART)
    if (root / TABLES).exists():
        yield from check_page(root)
    yield from check_proofs(root)


def measured_figures(section):
    """The figures of a section's tables: what stands behind the case, and its unit or server."""
    rows = [line.split("|", 3)[3] for line in section.splitlines() if line.startswith("| ")]
    return {float(figure) for row in rows for figure in FIGURE.findall(row)}


def is_ratio(figure, others):
    """Whether a cell like 1.14 is a quotient of two figures of its row, rounded as the cell is."""
    decimals = len(figure.partition(".")[2])
    return any(other and round(one / other, decimals) == float(figure)
               for one, other in itertools.permutations(others, 2))


def check_page(root):
    """A table is of one commit and day. Where its results are kept, each figure is theirs, or a ratio of two."""
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", read(root, TABLES), re.MULTILINE | re.DOTALL))
    kept_figures = {name.replace(".", ""): measured_figures(text) for name, text in sections.items()}
    blocks = re.split(r"\n{2,}", read(root, PAGE))
    line = 1
    for block, below in zip(blocks, blocks[1:] + [""]):
        if block.startswith("|"):
            if not MEASURED.match(below):
                yield Finding(PAGE, line, "the table does not say its commit and day right below")
            names = re.findall(r"tables\.md#(\S+?)\)", below)
            kept = set().union(*(kept_figures.get(name, set()) for name in names))
            for number, row in enumerate(block.splitlines()[2:] if kept else [], start=line + 2):
                figures = [figure.replace(",", "") for figure in FIGURE.findall(row.split("|", 2)[2])]
                known = [float(figure) for figure in figures if float(figure) in kept]
                for figure in figures:
                    if float(figure) not in kept and not is_ratio(figure, known):
                        yield Finding(PAGE, number, f"{figure} is no figure of {', '.join(names)}")
        line += block.count("\n") + 2


def check_proofs(root):
    """A figure of the README's proofs stands in the page for users or in the diary, written alike."""
    text = read(root, README)
    start = text.find("## Three proofs\n")
    if start < 0:
        yield Finding(README, 0, "has no section Three proofs")
        return
    proofs = re.sub(r"\]\([^)\n]*\)", "]", text[start:].split("\n## ", 1)[0])
    kept = set(PROOF_FIGURE.findall(read(root, PAGE) + read(root, FOLDER / "diary.md")))
    for match in PROOF_FIGURE.finditer(proofs):
        if match.group() not in kept:
            line = text.count("\n", 0, start) + proofs.count("\n", 0, match.start()) + 1
            yield Finding(README, line, f"{match.group()} stands neither in {PAGE} nor in the diary")
