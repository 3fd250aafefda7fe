"""A plugin of pytest: which of vLLM's tests must pass, from selection.txt, and a summary of what became of them.

A line of selection.txt is `FILE::TEST` or `FILE::TEST[PARAMETERS]`, a colon and a verdict. `pass`: api.md promises what the test asks for.
Otherwise a reason, whose first word is its kind: `extension` (a feature that api.md refuses or does not have), `flag` (a flag of vLLM's
server), `model` (the test holds for its own model only), `internal` (it looks into vLLM's classes), `differs` (api.md says otherwise).
A line with parameters goes before one without.
"""

import collections
import pathlib

VERSION = "0.33.0"
SELECTION = pathlib.Path(__file__).with_name("selection.txt")
KINDS = ("pass", "extension", "flag", "model", "internal", "differs")
FILES = (
    "openai/chat_completion/test_chat.py",
    "openai/chat_completion/test_chat_completion.py",
    "openai/chat_completion/test_chat_echo.py",
    "openai/chat_completion/test_chat_logit_bias_validation.py",
    "openai/chat_completion/test_completion_with_function_calling.py",
    "openai/chat_completion/test_enable_force_include_usage.py",
    "openai/chat_completion/test_extra_content_fields.py",
    "openai/chat_completion/test_include_reasoning.py",
    "openai/chat_completion/test_logprob_token_ids.py",
    "openai/chat_completion/test_root_path.py",
    "openai/completion/test_completion.py",
    "openai/completion/test_completion_text_offset.py",
    "openai/completion/test_prompt_validation.py",
    "openai/completion/test_token_in_token_out.py",
    "openai/models/test_models.py",
    "openai/test_chunked_prompt.py",
    "openai/test_openai_schema.py",
    "openai/test_return_token_ids.py",
    "openai/test_return_tokens_as_ids.py",
    "serve/instrumentator/test_basic.py",
    "serve/tokenize/test_tokenization.py",
)


def read_selection():
    """{test: verdict}; raises ValueError for a line that is none."""
    verdicts = {}
    for number, line in enumerate(SELECTION.read_text().splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        test, separator, verdict = line.partition(": ")
        kind = verdict.partition(" ")[0]
        if not separator or kind not in KINDS or (kind != "pass") != (" " in verdict):
            raise ValueError(f"{SELECTION}:{number}: expected TEST: pass, or a kind of {KINDS[1:]} and a reason")
        if test in verdicts:
            raise ValueError(f"{SELECTION}:{number}: {test} is there twice")
        verdicts[test] = verdict
    return verdicts


def name_of(item):
    return item.nodeid.partition("tests/entrypoints/")[2]


class Summary:
    def __init__(self):
        self.verdicts = read_selection()
        self.outcomes = {}
        self.unknown = []
        self.excluded = collections.Counter()

    def pytest_collection_modifyitems(self, config, items):
        selected, excluded = [], []
        for item in items:
            name = name_of(item)
            verdict = self.verdicts.get(name) or self.verdicts.get(name.partition("[")[0])
            if verdict is None:
                self.unknown.append(name)
            if verdict == "pass" or config.getoption("--everything"):
                selected.append(item)
                continue
            if verdict is not None:
                self.excluded[verdict.partition(" ")[0]] += 1
            excluded.append(item)
        config.hook.pytest_deselected(items=excluded)
        items[:] = selected

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed or report.skipped:
            name = report.nodeid.partition("tests/entrypoints/")[2]
            failed = report.failed or self.outcomes.get(name) == "failed"
            self.outcomes[name] = "failed" if failed else report.outcome

    def pytest_terminal_summary(self, terminalreporter):
        counts = collections.Counter(self.outcomes.values())
        excluded = ", ".join(f"{count} {kind}" for kind, count in sorted(self.excluded.items()))
        terminalreporter.write_line(f"vLLM {VERSION}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped by vLLM; "
                                    f"not selected: {excluded or 'none'}")
        for name in self.unknown:
            terminalreporter.write_line(f"without a line in {SELECTION.name}: {name}")

    def pytest_sessionfinish(self, session):
        if self.unknown:
            session.exitstatus = 1


def pytest_addoption(parser):
    parser.addoption("--everything", action="store_true", help="runs the tests that are not selected too")


def pytest_configure(config):
    config.pluginmanager.register(Summary(), "lockstep-selection")
