#!/usr/bin/env python3
"""Checks of the source tree that no compiler does.

    python3 tests/lint/lint.py [--root FOLDER] [--build FOLDER] [--without CHECK] [CHECK ...]

Without names all checks run. Errors give exit code 1; warnings are printed only.
"""

import argparse
import pathlib
import sys

import comment_checks
import repository_checks
import results_checks
import source_checks

CHECKS = {
    "includes": source_checks.check_includes,
    "rooms": source_checks.check_rooms,
    "table": source_checks.check_table,
    "constructs": source_checks.check_constructs,
    "sizes": source_checks.check_sizes,
    "kept": source_checks.check_kept,
    "voice": comment_checks.check_voice,
    "built": None,  # needs the build folder as well
    "layout": repository_checks.check_layout,
    "commits": repository_checks.check_commits,
    "links": repository_checks.check_links,
    "docs_voice": repository_checks.check_docs_voice,
    "widths": repository_checks.check_widths,
    "paths": repository_checks.check_paths,
    "results": results_checks.check_results,
    "corpora": repository_checks.check_corpora,
    "scripts": repository_checks.check_scripts,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--build", type=pathlib.Path, help="build folder, build/dev by default")
    parser.add_argument("--without", default=[], action="append", metavar="CHECK", help="leaves one out")
    parser.add_argument("--quiet", action="store_true", help="counts warnings, and prints errors only")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)}")
    arguments = parser.parse_args()
    unknown = {*arguments.checks, *arguments.without} - set(CHECKS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(CHECKS)}")

    build = arguments.build or arguments.root / "build" / "dev"
    CHECKS["built"] = lambda root: source_checks.check_built(root, build / "compile_commands.json")

    num_errors = num_warnings = 0
    for name in arguments.checks or CHECKS:
        if name in arguments.without:
            continue
        for finding in CHECKS[name](arguments.root):
            if not (arguments.quiet and finding.is_warning):
                print(finding)
            num_warnings += finding.is_warning
            num_errors += not finding.is_warning
    print(f"{num_errors} errors, {num_warnings} warnings")
    return 1 if num_errors else 0


if __name__ == "__main__":
    sys.exit(main())
