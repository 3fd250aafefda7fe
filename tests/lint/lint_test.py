#!/usr/bin/env python3
"""Plants one violation after the other in a temporary tree: each check must find its own."""

import json
import pathlib
import subprocess
import tempfile
import unittest
import unittest.mock

import comment_checks
import programs
import repository_checks
import results_checks
import source_checks


class LintTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.root = pathlib.Path(self._folder.name)

    def plant(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def messages(self, check):
        return [str(finding) for finding in check(self.root)]

    def assert_clean(self, check):
        self.assertEqual(self.messages(check), [])

    def assert_finds(self, check, *parts):
        """Exactly one finding, which contains all `parts`."""
        found = self.messages(check)
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])


class IncludesTest(LintTest):
    FORBIDDEN = {
        "router/engine/a.cc": "kernels/gemm/gemm.h",
        "router/serving/a.cc": "worker/model/spec.h",
        "router/text/a.h": "cuda_runtime.h",
        "router/core/scheduler.cc": "lockstep/worker/v1/worker.pb.h",
        "router/core/a.cc": "router/engine/engine.h",
        "router/core/b.h": "thread",
        "router/core/c.h": "common/runtime/mutex.h",
        "router/core/d.h": "absl/time/clock.h",
        "router/core/e.h": "sys/socket.h",
        "kernels/gemm/gemm.h": "worker/model/spec.h",
        "kernels/gemm/gemm_cpu.cc": "grpcpp/grpcpp.h",
        "kernels/norm/norm.h": "lockstep/worker/v1/worker.pb.h",
        "common/a.cc": "router/core/messages/step.h",
        "common/b.h": "google/protobuf/message.h",
        "worker/steps/a.cc": "router/core/messages/step.h",
        "worker/steps/b.cc": "cuda_runtime.h",
        "worker/model/a.cc": "worker/cuda/model.h",
        "worker/cpu/a.cc": "worker/cuda/model.h",
        "worker/cuda/a.cc": "worker/cpu/model.h",
        "router/grpc/a.cc": "router/http/gateway.h",
        "router/http/a.cc": "router/grpc/grpc_call.h",
        "router/front/a.cc": "router/serving/calls/api_context.h",
        "router/serving/b.cc": "router/http/gateway.h",
        "router/fleet/a.cc": "router/engine/engine.h",
        "router/workers/a.cc": "router/fleet/fleet.h",
        "router/workers/b.cc": "opentelemetry/trace_service.pb.h",
        "router/tracing/a.cc": "router/core/messages/step.h",
        "cli/common/a.cc": "cli/serve/serve.h",
        "cli/a.cc": "worker/model/spec.h",
        "cli/b.cc": "router/engine/engine.h",
        "cli/c.cc": "lockstep/worker/v1/worker.pb.h",
        "router/engine/c.cc": "cli/common/options.h",
    }
    ALLOWED = {
        "router/engine/a.cc": "lockstep/worker/v1/worker.pb.h",
        "router/engine/b.cc": "thread",
        "router/core/a.cc": "absl/time/time.h",
        "worker/steps/a.cc": "kernels/gemm/gemm.h",
        "worker/comm/b.cc": "nccl.h",
        "worker/cuda/b.cc": "cuda_runtime.h",
        "common/grpc/a.h": "grpcpp/grpcpp.h",
        "router/grpc/b.cc": "router/serving/calls/api_context.h",
        "router/http/b.cc": "router/serving/calls/api_context.h",
        "router/router_server.cc": "router/http/gateway.h",
        "router/tracing/b.cc": "opentelemetry/trace_service.pb.h",
        "router/front/b.cc": "router/limits/byte_budget.h",
        "cli/a.cc": "router/client/answer.h",
        "cli/b.cc": "lockstep/v1/generation.pb.h",
        "tests/integration/a_test.cc": "worker/model/spec.h",
    }

    def setUp(self):
        super().setUp()
        # Every header that is included is there: only the arrow is wrong.
        for header in [*self.FORBIDDEN.values(), *self.ALLOWED.values()]:
            self.plant(header, "#pragma once\n")

    def test_finds_each_wrong_arrow(self):
        for path, header in self.FORBIDDEN.items():
            with self.subTest(path=path, header=header):
                target = self.plant(path, f'#include <string>\n#include "{header}"\n')
                self.assert_finds(source_checks.check_includes, f"{path}:2:", header)
                target.write_text("")

    def test_lets_right_arrows_pass(self):
        for path, header in self.ALLOWED.items():
            self.plant(path, f'#include "{header}"\n')
        self.assert_clean(source_checks.check_includes)

    def test_finds_an_include_relative_to_its_own_folder(self):
        self.plant("worker/model/spec_reader.cc", '#include "spec.h"\n')
        self.assert_finds(source_checks.check_includes, "not a path from the root")


class RoomsTest(LintTest):
    def test_finds_a_circle_of_folders_and_says_who_ties_it(self):
        self.plant("router/a/x.h", '#pragma once\n#include "router/b/y.h"\n')
        self.plant("router/b/y.h", "#pragma once\n")
        self.plant("router/b/z.cc", '#include "router/c/z.h"\n')
        self.plant("router/c/z.h", "#pragma once\n")
        self.assert_clean(source_checks.check_rooms)
        self.plant("router/c/w.cc", '#include "router/a/x.h"\n')
        self.assert_finds(source_checks.check_rooms, "circle", "router/c/w.cc includes router/a/x.h")

    def test_finds_a_folder_that_is_too_full(self):
        for i in range(source_checks.MAX_FOLDER_FILES):
            self.plant(f"tests/a/file_{i}.cc", "")
        self.assert_clean(source_checks.check_rooms)
        self.plant("tests/a/one_more.cc", "")
        self.assert_finds(source_checks.check_rooms, "tests/a:0", "25 source files")


class TableTest(LintTest):
    HEAD = "# A\n\n" + source_checks.TABLE_HEAD + "\n|---|---|---|\n"

    def setUp(self):
        super().setUp()
        rules = (("router/core", ("router/core", "common")), ("router/fleet", ("router/core", "common", "lockstep/worker")),
                 ("router/grpc", ("router/core", "common", "lockstep/worker", "router/fleet")), ("common", ("common",)))
        patched = unittest.mock.patch.object(source_checks, "ALLOWED_OWN", rules)
        patched.start()
        self.addCleanup(patched.stop)

    def plant_table(self, *rows):
        self.plant("docs/architecture.md", self.HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows))

    def test_equal_tables_pass(self):
        self.plant_table(("`common/`, `common/json/`", "ids", "`common`"),
                         ("`router/core/`", "the scheduler", "`common` without `runtime`"),
                         ("`router/fleet/`", "`x`", "the same, and `router/core`, messages of steps"),
                         ("`router/grpc/`", "", "what `router/fleet` includes"), ("`tests/`", "", "everything"))
        self.assert_clean(source_checks.check_table)

    def test_finds_what_only_one_of_them_says(self):
        rows = [("`common/`", "ids", "`common`"), ("`router/core/`", "", "`common`"),
                ("`router/fleet/`", "", "the same, and `router/core`, messages of steps"),
                ("`router/grpc/`", "", "the same, and `router/fleet`")]
        self.plant_table(*rows)
        self.assert_clean(source_checks.check_table)
        self.plant_table(*rows[:2], ("`router/fleet/`", "", "`router/core`, `common`, messages of steps, `router/http`"),
                         rows[3][:2] + ("`router/core`, `common`, messages of steps, `router/fleet`",))
        self.assert_finds(source_checks.check_table, "docs/architecture.md:7:", "says that router/fleet/ includes router/http")
        self.plant_table(*rows[:3], rows[3][:2] + ("`router/core`, `common`, messages of steps",))
        self.assert_finds(source_checks.check_table, "docs/architecture.md:8:", "not say that router/grpc/ includes router/fleet")
        self.plant_table(*rows[:3])
        self.assert_finds(source_checks.check_table, "lacks router/grpc/")


class CommitsTest(LintTest):
    def git(self, *arguments, root=None):
        done = subprocess.run(["git", "-C", str(root or self.root), "-c", "user.name=a", "-c", "user.email=a@b",
                               "-c", "protocol.file.allow=always", *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, message):
        self.git("commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "--message", message)
        return self.git("rev-parse", "HEAD")

    def check(self, root):
        return repository_checks.check_commits(root)

    def start(self, message="whatever it was"):
        self.git("init", "--quiet", "--initial-branch=main")
        patched = unittest.mock.patch.object(repository_checks, "SUBJECTS_SINCE", self.commit(message))
        patched.start()
        self.addCleanup(patched.stop)

    def test_finds_each_wrong_subject(self):
        self.start()
        self.commit("router, docs: what changed\n\nReasons.")
        self.commit('Revert "router, docs: what changed"')
        self.assert_clean(self.check)
        for message, part in (("what changed", "does not begin with a room"), ("wip stuff: a", "does not begin"),
                              ("router:no space", "does not begin"), ("router: " + "x" * 65, "73 columns"),
                              ("router: a\nand more", "no blank line")):
            with self.subTest(message=message):
                self.commit(message)
                self.assert_finds(self.check, part)
                self.git("reset", "--quiet", "--hard", "HEAD~1")

    def test_merges_are_exempt(self):
        self.start()
        self.git("switch", "--quiet", "--create", "other")
        self.commit("router: a")
        self.git("switch", "--quiet", "main")
        self.commit("router: b")
        self.git("merge", "--quiet", "--no-ff", "other", "--message", "Merge branch other")
        self.assert_clean(self.check)

    def test_a_shallow_clone_is_checked_as_far_as_it_goes(self):
        self.start()
        self.commit("router: a")
        self.commit("b")
        shallow = self.root / "shallow"
        self.git("clone", "--quiet", "--depth", "2", f"file://{self.root}", str(shallow))
        found = [str(finding) for finding in self.check(shallow)]
        self.assertEqual(len(found), 1, found)
        self.assertIn('"b" does not begin', found[0])

    def test_says_where_there_is_no_history(self):
        self.assert_finds(self.check, "warning", "there is no .git here")
        self.git("init", "--quiet")
        self.commit("whatever it was")
        self.assert_finds(self.check, "warning", "is not in this history")


class PathsTest(LintTest):
    def test_finds_a_path_that_is_gone(self):
        self.plant("common/json/json.h", "#pragma once\n")
        self.plant("docs/a.md", "See `common/json/json.h`, `common/json/`, `common/json/*.h` and `and/or`.\n")
        self.assert_clean(repository_checks.check_paths)
        self.plant("docs/b.md", "\nSee `common/json.h`.\n")
        self.assert_finds(repository_checks.check_paths, "docs/b.md:2", "common/json.h")


class ConstructsTest(LintTest):
    def test_finds_each_construct(self):
        for code in ('auto* x = getenv("HOME");', "std::mutex m;", "absl::Mutex m;",
                     "std::lock_guard<M> l(m);", "std::this_thread::sleep_for(t);", "absl::SleepFor(t);",
                     "ABSL_FLAG(int, n, 1, \"\");", 'asm volatile("nop");', "using namespace std;",
                     "GTEST_SKIP() << 1;", "TEST(A, DISABLED_B) {}", "// TO" "DO: later"):
            with self.subTest(code=code):
                target = self.plant("router/engine/a.cc", f"\n{code}\n")
                self.assert_finds(source_checks.check_constructs, "router/engine/a.cc:2: error")
                target.unlink()

    def test_finds_bit_functions_in_what_kernels_include(self):
        self.plant("kernels/a/a.cu", '#include "kernels/a/a.h"\n')
        self.plant("kernels/a/a.h", '#pragma once\n#include "kernels/a/b.h"\n')
        self.plant("kernels/a/b.h", "#pragma once\nint n = std::countr_zero(8u);\n")
        self.assert_finds(source_checks.check_constructs, "kernels/a/b.h:2: error", "std::countr_zero")
        self.plant("kernels/a/a.cu", "")
        self.assert_clean(source_checks.check_constructs)

    def test_finds_a_header_without_a_guard(self):
        self.plant("common/a.h", "int x;\n")
        self.assert_finds(source_checks.check_constructs, "#pragma once")

    def test_lets_exceptions_comments_and_literals_pass(self):
        self.plant("common/runtime/mutex.h", "#pragma once\nstd::mutex m;\n")
        self.plant("kernels/core/ptx/a.cu", 'asm("nop");\n')
        self.plant("tests/rigs/a/main.cc", 'ABSL_FLAG(int, n, 1, "");\n')
        self.plant("tests/kernels/a_cuda_test.cc", "GTEST_SKIP();\n")
        self.plant("router/a.cc", '// std::mutex\n/* getenv(\n std::mutex */ const char* k = "getenv(";\n'
                   'auto r = R"x(std::mutex)x"; int n = 1\'000;\n')
        self.assert_clean(source_checks.check_constructs)


class SizesTest(LintTest):
    def test_finds_a_file_that_is_too_long(self):
        for num_lines, name in ((401, "common/a.cc"), (201, "common/a.h"), (201, "kernels/a.cuh")):
            with self.subTest(num_lines=num_lines, name=name):
                target = self.plant(name, "int x;\n" * num_lines)
                self.assert_finds(source_checks.check_sizes, "error", f"{num_lines} lines")
                target.unlink()

    def test_finds_a_long_function_and_many_parameters(self):
        body = "  Call();\n" * 60
        self.plant("common/a.cc", "namespace x {\n\nint Long(int a,\n         int b) {\n" + body + "}\n\n"
                   "void Wide(A a, B<int, int> b, C c, D d, E e, F f) {\n  Call(a, b);\n}\n\n}  // namespace x\n")
        found = self.messages(source_checks.check_sizes)
        self.assertEqual(len(found), 2, found)
        self.assertIn("a.cc:3: error: Long has 63 lines", found[0])
        self.assertIn("Wide has 6 parameters", found[1])

    def test_finds_long_lines(self):
        self.plant("common/a.cc", "int a;\n" + ("// " + "x" * 98 + "\n") * 2)
        self.assert_finds(source_checks.check_sizes, "a.cc:2: error: 2 lines are longer than 100")

    def test_keeps_the_parameters_of_listed_functions_only(self):
        kept = {("common/a.cc", "Wide"): "a library calls it"}
        wide = "(A a, B b, C c, D d, E e, F f) {\n}\n\n"
        self.plant("common/a.cc", "void Wide" + wide + "void Other" + wide)
        self.plant("common/b.cc", "void Wide" + wide)
        self.assertEqual([f"{finding.path}:{finding.line}" for finding in source_checks.check_sizes(self.root, kept)],
                         ["common/a.cc:4", "common/b.cc:1"])
        self.assertEqual(list(source_checks.check_kept(self.root, kept)), [])

    def test_finds_an_exception_that_nothing_needs(self):
        kept = {("common/a.cc", "Narrow"): "", ("common/a.cc", "Gone"): "", ("common/gone.cc", "Wide"): ""}
        self.plant("common/a.cc", "void Narrow(A a) {\n}\n")
        self.assertEqual([str(finding.path) for finding in source_checks.check_kept(self.root, kept)],
                         ["common/a.cc", "common/a.cc", "common/gone.cc"])

    def test_the_exceptions_are_few_and_have_reasons(self):
        self.assertLess(len(source_checks.KEPT_PARAMETERS), 10)
        self.assertTrue(all(source_checks.KEPT_PARAMETERS.values()))

    def test_lets_ordinary_code_pass(self):
        self.plant("common/a.cc", "namespace x {\nnamespace {\n\nstruct S {\n  int a;\n};\n" + "\nvoid F(int a) {\n"
                   "  if (a) {\n    G();\n  }\n}\n" * 20 + "\n}  // namespace\n}  // namespace x\n")
        self.assert_clean(source_checks.check_sizes)


class VoiceTest(LintTest):
    PLAIN = "// Closes the socket.\n\n"

    def test_finds_a_room_with_too_many_riddles(self):
        self.plant("router/http/a.h", self.PLAIN * 97 + "void F();  // whoever comes\n")
        self.plant("router/http/b/c.cc", "// Closes the one\n// that waits.\n")
        self.assert_clean(comment_checks.check_voice)
        self.plant("router/http/d.cc", "\n// Nobody reads it.\n")
        self.assert_finds(comment_checks.check_voice, "router/http:0: error: 3 riddling words in 101 comment lines",
                          'router/http/a.h:195 "whoever", router/http/b/c.cc:1 "the one that", router/http/d.cc:2')

    def test_each_room_counts_for_itself(self):
        self.plant("router/http/a.h", self.PLAIN * 500)
        for path, room in (("router/main.cc", "router"), ("router/core/kv/pool.h", "router/core")):
            with self.subTest(path=path):
                target = self.plant(path, self.PLAIN * 40 + "// Whatever comes.\n")
                self.assert_finds(comment_checks.check_voice, f"{room}:0: error: 1 riddling words in 41 comment lines")
                target.unlink()

    def test_counts_comments_only(self):
        self.plant("router/a.cc", 'f("// whoever");\nf(R"(// whoever\n// whom)");\nint nobody;\n// Plain.\n')
        self.plant("worker/a.cc", "// Whoever comes.\n")
        self.assert_clean(comment_checks.check_voice)

    def test_the_end_of_a_namespace_is_no_comment(self):
        self.plant("router/a.cc", self.PLAIN * 49 + "// Whom?\n" + "}  // namespace\n}  // namespace x\n")
        self.assert_clean(comment_checks.check_voice)
        self.plant("router/a.cc", self.PLAIN * 48 + "// Whom?\n" + "}  // namespace\n}  // namespace x\n")
        self.assert_finds(comment_checks.check_voice, "in 49 comment lines")


class BuiltTest(LintTest):
    def check(self, root):
        return source_checks.check_built(root, root / "build/compile_commands.json")

    def test_finds_a_source_that_nothing_builds(self):
        self.plant("build/compile_commands.json", json.dumps(
            [{"file": str(self.plant(f"router/core/{name}", ""))} for name in ("a.cc", "sub/b.cc")]))
        self.plant("router/core/optional.cc", "")
        self.plant("router/core/CMakeLists.txt", "if(x)\n  target_sources(y PRIVATE optional.cc)\nendif()\n")
        self.assert_clean(self.check)
        self.plant("router/core/orphan_a.cc", "")
        self.assert_finds(self.check, "router/core/orphan_a.cc")

    def test_a_folder_above_may_name_a_source_with_its_folder(self):
        self.plant("build/compile_commands.json", "[]")
        self.plant("kernels/gemm/tile/ring.cu", "")
        self.plant("kernels/gemm/cuda.cmake", "sources(ring.cu)\n")
        self.assert_finds(self.check, "kernels/gemm/tile/ring.cu")
        self.plant("kernels/gemm/cuda.cmake", "sources(tile/ring.cu)\n")
        self.assert_clean(self.check)

    def test_cuda_sources_of_a_family_are_found_by_name(self):
        self.plant("build/compile_commands.json", "[]")
        self.plant("kernels/norm/rms_norm_cuda.cu", "")
        self.assert_finds(self.check, "kernels/norm/rms_norm_cuda.cu")
        self.plant("kernels/device/CMakeLists.txt", "set(LOCKSTEP_CUDA_FAMILIES norm rope)\n")
        self.assert_clean(self.check)
        self.plant("kernels/norm/rms_norm.cu", "")
        self.assert_finds(self.check, "kernels/norm/rms_norm.cu")

    def test_looks_into_the_units_of_a_unity_build(self):
        source = self.plant("router/core/a.cc", "")
        unit = self.plant("build/CMakeFiles/core.dir/Unity/unity_0_cxx.cxx", f'#include "{source}"\n')
        self.plant("build/compile_commands.json", json.dumps([{"file": str(unit)}]))
        self.assert_clean(self.check)

    def test_asks_for_a_configured_tree(self):
        self.assert_finds(self.check, "configure the tree first")


class RepositoryTest(LintTest):
    def plant_layout(self):
        for name in repository_checks.TOP_LEVEL:
            self.plant(name, "")

    def test_finds_a_missing_top_level_entry(self):
        self.plant_layout()
        self.assert_clean(repository_checks.check_layout)
        (self.root / "LICENSE").unlink()
        self.assert_finds(repository_checks.check_layout, "LICENSE", "missing")

    def test_finds_a_tracked_extra_top_level_entry(self):
        self.plant_layout()
        self.plant("scripts/a.sh", "")
        for command in (["init", "--quiet"], ["add", "--all"]):
            subprocess.run(["git", "-C", str(self.root), *command], check=True, capture_output=True)
        self.assert_finds(repository_checks.check_layout, "scripts", "does not belong")

    def test_finds_broken_links_and_anchors(self):
        self.plant("docs/b.md", "# Two words: here\n")
        for link, found in (("b.md", 0), ("b.md#two-words-here", 0), ("../docs/b.md", 0), ("missing.md", 1),
                            ("b.md#nowhere", 1)):
            with self.subTest(link=link):
                self.plant("docs/a.md", f"See [it]({link}) and `[code](x.md)`.\n\n```\n[code](x.md)\n```\n")
                self.assertEqual(len(self.messages(repository_checks.check_links)), found)

    def test_finds_prose_that_is_too_wide(self):
        wide = "word " * 20 + "word"
        self.plant("docs/a.md", f"# A\n\n{wide[:100]}\n\n| {wide} |\n\n```\n{wide}\n```\n\n    {wide}\n\n"
                   f"`{wide}` is code\n- [{wide}](a.md) is a link\n")
        self.assert_clean(repository_checks.check_widths)
        for line in (wide, f"- a\n  {wide}", f"- a\n\n    {wide}", f"text\n    {wide}", f"see `{wide}`", f"## {wide}"):
            with self.subTest(line=line):
                self.plant("docs/b.md", f"# B\n\n{line}\n")
                self.assert_finds(repository_checks.check_widths, "docs/b.md", "columns; prose has at most 100")

    def test_finds_documents_that_riddle(self):
        plain = "The worker refuses a step that is too large.\n" * 1000
        self.plant("docs/a.md", plain + "Whoever asks.\nA step of\n  which nothing remains.\n`whose` and one that.\n")
        self.assert_clean(repository_checks.check_docs_voice)
        diary = self.plant("bench/results/diary.md", "Whoever asks.\n")
        self.assert_finds(repository_checks.check_docs_voice, "diary.md:1:", "Whoever")
        diary.write_text(plain)
        self.plant("docs/b.md", "# B\n\nA queue, whose end\n\n```\nwhose\n```\n")
        found = self.messages(repository_checks.check_docs_voice)
        self.assertEqual([message.split(": error")[0] for message in found],
                         ["docs/a.md:1001", "docs/a.md:1002", "docs/a.md:1004", "docs/b.md:3"])
        self.assertIn('"of which" makes a riddle', found[1])

    def test_finds_a_fuzzer_without_a_corpus(self):
        self.plant("tests/fuzz/text/CMakeLists.txt",
                   "lockstep_fuzzer(full SOURCES a.cc CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/full)\n"
                   "lockstep_fuzzer(empty SOURCES b.cc\n                DEPS x\n"
                   "                CORPUS ${CMAKE_SOURCE_DIR}/tests/fuzz/text/corpus/empty)\n")
        self.plant("tests/fuzz/text/corpus/full/seed", "x")
        self.assert_finds(repository_checks.check_corpora, "CMakeLists.txt:2:", "empty")

    def test_finds_broken_scripts(self):
        good = "#!/usr/bin/env bash\nset -euo pipefail\n"
        for path, text, mode, expected in (("deploy/a", good + "if true; then\n", 0o755, "syntax error"),
                                           ("deploy/a", good, 0o644, "not executable"),
                                           ("deploy/a", "#!/usr/bin/env bash\n", 0o755, "pipefail"),
                                           ("deploy/a.py", "def f(:\n", 0o644, "does not compile")):
            with self.subTest(expected=expected):
                target = self.plant(path, text)
                target.chmod(mode)
                self.assert_finds(repository_checks.check_scripts, expected)
                target.unlink()


class ResultsTest(LintTest):
    TABLE = ("import pathlib\n"
             "for path in sorted(pathlib.Path(__file__).parent.glob('*.json')):\n"
             "    print(f'## {path.stem}\\n\\n| case | unit | a | b |\\n|---|---|---:|---:|\\n{path.read_text()}')\n")
    PAGE = "# P\n\n| | a | b | times |\n|---|---:|---:|---:|\n{row}\n\n{below}\n"
    BELOW = "Commit 0123abc, 2026-01-31 ([kept](../bench/results/tables.md#kept))."

    def setUp(self):
        super().setUp()
        self.plant("bench/results/table", self.TABLE)
        self.plant("bench/results/kept.json", "| decode:1x512 | ms | 1.5 | 3.45e+03 |")
        self.plant("bench/results/tables.md", subprocess.run(
            ["python3", str(self.root / "bench/results/table")], capture_output=True, text=True, check=True).stdout)
        self.plant("bench/results/chart", "print('<svg/>')\n")
        self.plant("docs/images/beside-vllm.svg", "<svg/>\n")
        self.plant("bench/results/diary.md", "89 kills, 54,911 requests.\n")
        self.plant("README.md", "# L\n\n99\n\n## Three proofs\n\n54,911 of Qwen3-8B ([it](77.md)).\n\n## Two\n\n98\n")
        self.page("| one | 1.5 | 3,450 | 2300 |")

    def page(self, row, below=BELOW):
        self.plant("docs/performance.md", self.PAGE.format(row=row, below=below))

    def test_lets_kept_figures_and_their_ratios_pass(self):
        self.assert_clean(results_checks.check_results)
        self.page("| 8B on 4 cards | 1.5 | | |")
        self.assert_clean(results_checks.check_results)

    def test_finds_an_appendix_that_lacks_a_result(self):
        self.plant("bench/results/more.json", "| decode:8x512 | ms | 2.5 | 4.5 |")
        self.assert_finds(results_checks.check_results, "tables.md", "is not what bench/results/table --all prints")

    def test_finds_a_chart_that_was_not_drawn_anew(self):
        self.plant("bench/results/chart", "print('<svg>6,392</svg>')\n")
        self.assert_finds(results_checks.check_results, "beside-vllm.svg", "is not what bench/results/chart prints")
        self.plant("bench/results/chart", "import sys\nsys.exit('no result')\n")
        self.assert_finds(results_checks.check_results, "bench/results/chart", "no result")

    def test_finds_figures_that_are_not_kept(self):
        for row, figure in (("| one | 1.6 | | |", "1.6"), ("| one | 1.5 | 3,450 | 2301 |", "2301"),
                            ("| one | 512 | | |", "512"), ("| one | 1.5 | | 1.0 |", "1.0")):
            with self.subTest(row=row):
                self.page(row)
                self.assert_finds(results_checks.check_results, "performance.md:5:", f"{figure} is no figure of kept")

    def test_finds_proofs_with_other_figures(self):
        self.plant("README.md", "## Three proofs\n\n89 kills, 54,912 requests.\n")
        self.assert_finds(results_checks.check_results, "README.md:3:", "54,912 stands neither")
        self.plant("README.md", "## Proofs\n")
        self.assert_finds(results_checks.check_results, "README.md", "no section Three proofs")

    def test_finds_a_table_without_its_commit(self):
        for below in ("Commit 0123abc.", "On 2026-01-31.", "Text. " + self.BELOW):
            with self.subTest(below=below):
                self.page("| one | 1.5 | | |", below)
                self.assert_finds(results_checks.check_results, "performance.md:3:", "does not say its commit and day")


class ProgramsTest(unittest.TestCase):
    SCRAPE = ("# TYPE lockstep_router_requests_total counter\n"
              'lockstep_router_requests_total{model="m",code="OK"} 1\n'
              'lockstep_router_requests_total{model="m",code="a \\" b"} 0\n'
              "# TYPE lockstep_worker_step_seconds histogram\n"
              'lockstep_worker_step_seconds_bucket{part="gpu",le="+Inf"} 1\n'
              'lockstep_worker_step_seconds_sum{part="gpu"} 0.5\n'
              "# TYPE lockstep_worker_kv_blocks gauge\nlockstep_worker_kv_blocks 7\n")
    DOCUMENT = ("| `lockstep_router_requests_total` | counter | `code` | x |\n"
                "| `lockstep_worker_step_seconds` | histogram | `part`: gpu | x |\n"
                "| `lockstep_worker_kv_blocks` | gauge | | x |\n")

    def differences(self, document):
        return list(programs.metric_differences(programs.metrics_in_scrape(self.SCRAPE),
                                                programs.metrics_in_document(document)))

    def test_lets_a_true_table_of_metrics_pass(self):
        self.assertEqual(self.differences(self.DOCUMENT), [])
        self.assertEqual(programs.metrics_in_scrape(self.SCRAPE).keys(),
                         programs.metrics_in_document(self.DOCUMENT).keys())

    def test_finds_wrong_kinds_labels_and_values(self):
        for true, wrong, expected in (("| gauge |", "| counter |", "is a gauge, but documented as counter"),
                                      ("`code`", "", "label code exists, but is not documented"),
                                      ("`code`", "`code`, `state`", "label state is documented, but does not exist"),
                                      ("`part`: gpu", "`part`: gpu, host", "part host is documented, but does not"),
                                      ("`part`: gpu", "`part`: host; `x`", "part gpu exists, but is not")):
            with self.subTest(expected=expected):
                found = self.differences(self.DOCUMENT.replace(true, wrong))
                self.assertTrue(any(expected in line for line in found), found)

    def test_reads_the_table_of_threads(self):
        self.assertEqual(programs.threads_in_document("| router | `text-0`, `text-1`, ... | a | b |\n"
                                                      "| both | `admin` | a | b |\n| router | gRPC's own | a | b |\n"),
                         {"router text-N", "router admin", "worker admin"})


if __name__ == "__main__":
    unittest.main()
