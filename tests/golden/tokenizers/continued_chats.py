#!/usr/bin/env python3
"""Writes continued_chats.json: chats whose last message is left open, rendered by transformers.

Usage: continued_chats.py FOLDER [GGUF]

Run with transformers 5.23. The templates are those of chat_templates.py and, if a GGUF file is given,
its own.
"""
import json
import sys
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

from chat_templates import FAMILIES

USER = {"role": "user", "content": "Name a colour."}
LAST = [
    "Red", "Red, then", "Red, then ", "  Red\n\n", "\u3000Red\u00a0", "", " \n", "Red<|im_end|>", "Red<|im_",
    "<think>\nIt is easy.\n</think>\n\nRed", "<think>\nIt is", "Name a colour.", "caf\u00e9 \u4f60\u597d", "{{ 'x' }}",
    "CONTINUE_FINAL_MESSAGE",
]
# The same text more than once, so that the end is not where it appears first.
TALKS = [
    [USER, None],
    [{"role": "system", "content": "Be brief."}, USER, {"role": "assistant", "content": "Red"}, USER, None],
    [USER, {"role": "assistant", "content": "Red, then "}, {"role": "user", "content": "Red"}, None],
]


def template_of(path):
    from gguf import GGUFReader
    return GGUFReader(path).fields["tokenizer.chat_template"].contents()


def main():
    templates = list(FAMILIES.values()) + [template_of(path) for path in sys.argv[2:3]]
    chats = [[turn or {"role": "assistant", "content": last} for turn in talk] for talk in TALKS for last in LAST]
    # A question may be left open as well.
    chats += [[{"role": "user", "content": text}] for text in ("What is", "What is ", " ")]
    cases, num_errors = [], 0
    for number, template in enumerate(templates):
        for chat in chats:
            case = {"template": number, "messages": [[turn["role"], turn["content"]] for turn in chat]}
            try:
                rendered, _ = render_jinja_template(
                    [chat], chat_template=template, continue_final_message=True, add_generation_prompt=False,
                    bos_token="<s>", eos_token="<|im_end|>", date_string="26 Jul 2024")
                case["expected"] = rendered[0]
            except ValueError:
                case["expected"] = None
                num_errors += 1
            cases.append(case)
    text = json.dumps({"templates": templates, "cases": cases}, ensure_ascii=False, indent=0)
    (Path(sys.argv[1]) / "continued_chats.json").write_text(text, newline="")
    print(f"{len(cases)} cases, {num_errors} of them errors, {len(text)} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
