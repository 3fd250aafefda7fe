#!/usr/bin/env python3
"""What deploy/check looks at: the commit to compare with, the files that changed, the sources that clang-tidy reads."""

import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import tempfile
import time
import unittest
import unittest.mock

PATH = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "check"
loader = importlib.machinery.SourceFileLoader("deploy_check", str(PATH))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(check)


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def plant(self, path, text="int x;\n"):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target


class ChangedTest(CheckTest):
    def git(self, *arguments):
        done = subprocess.run(["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
                              check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, path):
        self.plant(path)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "x")
        return self.git("rev-parse", "HEAD")

    def start(self, branch):
        self.git("init", "--quiet", f"--initial-branch={branch}")
        return self.commit("router/a.cc")

    def changed(self, base):
        return [path.as_posix() for path in check.changed_files(self.root, base)]

    def test_a_branch_is_compared_with_where_it_left_main(self):
        left = self.start("main")
        self.git("switch", "--quiet", "--create", "other")
        self.commit("router/b.cc")
        self.plant("router/c.h")
        self.plant("docs/c.md")
        self.git("rm", "--quiet", "router/a.cc")
        self.assertEqual(check.base_commit(self.root), (left, "main"))
        self.assertEqual(self.changed(left), ["router/b.cc", "router/c.h"])

    def test_main_is_compared_with_itself_or_with_the_commit_before(self):
        first = self.start("main")
        self.assertEqual(check.base_commit(self.root, on_main_the_last=True)[0], None)
        second = self.commit("router/b.cc")
        self.assertEqual(check.base_commit(self.root)[0], second)
        self.assertEqual(self.changed(second), [])
        self.assertEqual(check.base_commit(self.root, on_main_the_last=True)[0], first)
        self.assertEqual(self.changed(first), ["router/b.cc"])
        self.assertEqual(check.base_commit(self.root, since="HEAD~1"), (first, "HEAD~1"))
        self.assertIn("there is no commit nowhere", check.base_commit(self.root, since="nowhere")[1])

    def test_without_main_and_without_a_repository(self):
        self.assertEqual(check.base_commit(self.root), (None, "there is no git repository"))
        first = self.start("other")
        self.assertEqual(check.base_commit(self.root)[0], None)
        self.commit("router/b.cc")
        self.assertEqual(check.base_commit(self.root)[0], first)


class TidyTest(CheckTest):
    def setUp(self):
        super().setUp()
        sources = [self.plant(f"router/{name}.cc", f'#include "router/{name}.h"\n') for name in "abc"]
        unit = self.plant("build/check/Unity/unity_0_cxx.cxx", "".join(f'#include "{source}"\n' for source in sources))
        alone = self.plant("router/alone.cc", '#include "router/shared.h"\n')
        generated = self.plant("build/check/generated.cc")
        self.commands = self.plant("build/check/compile_commands.json", json.dumps(
            [{"directory": "/", "file": str(file), "command": f"c++ -DX -c {file}"}
             for file in (unit, alone, generated, self.plant("kernels/a.cu"))]))
        for header in ("a", "b", "shared", "lonely"):
            self.plant(f"router/{header}.h")

    def units(self, *paths):
        units, unseen = check.units_of(self.root, check.read_units(self.commands), [pathlib.Path(path) for path in paths])
        names = [[str(source.relative_to(self.root)) for source in unit.sources] for unit in units]
        return names, [str(path) for path in unseen]

    def test_sources_of_one_target_are_read_together_and_only_those_that_changed(self):
        self.assertEqual(self.units("router/a.cc", "router/c.cc", "router/alone.cc"),
                         ([["router/a.cc", "router/c.cc"], ["router/alone.cc"]], []))
        self.assertEqual(self.units("router/gone.cc"), ([], []))

    def test_a_header_is_seen_through_its_own_source_or_one_that_includes_it(self):
        self.assertEqual(self.units("router/b.h"), ([["router/b.cc"]], []))
        self.assertEqual(self.units("router/shared.h"), ([["router/alone.cc"]], []))
        self.assertEqual(self.units("router/lonely.h"), ([], ["router/lonely.h"]))

    def test_a_unit_has_the_flags_of_its_target(self):
        units, _ = check.units_of(self.root, check.read_units(self.commands), [pathlib.Path("router/b.cc")])
        file, = check.write_units(self.root / "build/check/tidy", units)
        command, = json.loads((self.root / "build/check/tidy/compile_commands.json").read_text())
        self.assertEqual(command, {"directory": "/", "file": str(file), "command": f"c++ -DX -c {file}"})
        self.assertIn(f'#include "{self.root}/router/b.cc"', file.read_text())
        self.assertNotIn("router/a.cc", file.read_text())

    def run_tidy(self, tool, seconds, *paths):
        script = self.plant("tool", f"#!/bin/sh\n{tool}\n")
        script.chmod(0o755)
        with unittest.mock.patch.object(check, "TIDY", str(script)), \
                unittest.mock.patch.object(check, "configure", lambda root: root / "build/check"):
            return check.check_tidy(self.root, [pathlib.Path(path) for path in paths], time.monotonic() + seconds)

    def test_what_the_tool_finds_fails_the_check(self):
        self.assertTrue(self.run_tidy("exit 0", 60, "router/a.cc", "router/alone.cc"))
        self.assertFalse(self.run_tidy("grep -q router/a.cc $4 && exit 1", 60, "router/a.cc", "router/alone.cc"))
        self.assertTrue(self.run_tidy("exit 1", 60, "tests/a.cc", "kernels/a.cu"), "nothing for clang-tidy")

    def test_what_no_time_is_left_for_is_named(self):
        with unittest.mock.patch("builtins.print") as printed:
            self.assertTrue(self.run_tidy("exit 1", -1, "router/a.cc"))
        self.assertIn(unittest.mock.call("tidy: no time was left for", "router/a.cc"), printed.mock_calls)


class FormatTest(CheckTest):
    def test_what_the_tool_finds_fails_the_check(self):
        paths = [self.plant(f"router/{name}.cc").relative_to(self.root) for name in "abc"]
        script = self.plant("tool", '#!/bin/sh\n[ "$1" = -i ] && echo "int y;" > $2 && exit\ngrep -q y $3\n')
        script.chmod(0o755)
        with unittest.mock.patch.object(check, "FORMAT", str(script)):
            self.assertFalse(check.check_format(self.root, paths, fix=False))
            self.assertTrue(check.check_format(self.root, paths, fix=True))
            self.assertTrue(check.check_format(self.root, paths, fix=False))


if __name__ == "__main__":
    unittest.main()
