#!/usr/bin/env python3
"""Writes template_files.json: files of model folders, and the templates and special tokens that transformers finds there.

Usage: template_files.py FOLDER PYTHON4

Run with transformers 5.24. PYTHON4 is a Python with transformers 4.57. A token that only one of the two shows to templates is
expected as well; a case in which they differ otherwise is left out and printed.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = ["<unk>", "<s>", "</s>", "<pad>", "<sep>", "<cls>", "<mask>", "<|endoftext|>", "<|im_end|>", "<img>", "<a>", "<b>"]
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
    "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {word: place for place, word in enumerate(WORDS)}, "unk_token": "<unk>"}}
FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}


def token(content):
    return {"__type": "AddedToken", "content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": True}


ALL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "sep_token": "<sep>", "cls_token": "<cls>",
       "mask_token": "<mask>"}
DECODER = {"added_tokens_decoder": {"1": {**token("<s>"), "__type": None}}}
DECODER["added_tokens_decoder"]["1"].pop("__type")
CASES = [
    {"tokenizer_config.json": {**FAST}},
    {"tokenizer_config.json": {**FAST, **ALL, "chat_template": "one"}},
    {"tokenizer_config.json": {**FAST, "bos_token": token("<s>"), "eos_token": token("</s>"), "pad_token": None}},
    {"tokenizer_config.json": {**FAST, "additional_special_tokens": ["<a>", "<b>"], "eos_token": "</s>"}},
    {"tokenizer_config.json": {**FAST, "additional_special_tokens": [token("<a>")]}},
    {"tokenizer_config.json": {**FAST, "additional_special_tokens": []}},
    {"tokenizer_config.json": {**FAST, "extra_special_tokens": {"image_token": "<img>", "boa_token": "<a>"}}},
    {"tokenizer_config.json": {**FAST, "image_token": "<img>", "add_bos_token": True, "model_max_length": 5}},
    {"tokenizer_config.json": {**FAST, "chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]}},
    {"tokenizer_config.json": {**FAST, "chat_template": [{"name": "rag", "template": "r"}]}},
    {"tokenizer_config.json": {**FAST, "chat_template": "config"}, "chat_template.jinja": "file"},
    {"tokenizer_config.json": {**FAST, "chat_template": "config"}, "additional_chat_templates/tool_use.jinja": "tools"},
    {"tokenizer_config.json": {**FAST, "chat_template": "config"}, "chat_template.jinja": "file",
     "additional_chat_templates/tool_use.jinja": "tools", "additional_chat_templates/notes.txt": "no"},
    {"tokenizer_config.json": {**FAST}, "special_tokens_map.json": ALL},
    {"tokenizer_config.json": {**FAST, "eos_token": "<a>"}, "special_tokens_map.json": {"eos_token": "</s>"}},
    {"tokenizer_config.json": {**FAST, "eos_token": "<a>"}, "special_tokens_map.json": {"eos_token": token("</s>"), "pad_token": "<pad>"}},
    {"tokenizer_config.json": {**FAST, **DECODER, "eos_token": "<a>"}, "special_tokens_map.json": {"eos_token": "</s>", "pad_token": "<pad>"}},
    {"tokenizer_config.json": {**FAST, "chat_template": "Où 🙂\n"}},
    {"tokenizer_config.json": {**FAST}, "chat_template.jinja": "line\n\n"},
]


def results():
    """[[templates by name, special tokens] or None] of every case, by transformers."""
    from transformers import PreTrainedTokenizerFast
    found = []
    for files in CASES:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in {**files, "tokenizer.json": TOKENIZER}.items():
                path = Path(folder, name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
            try:
                tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
            except Exception as error:
                print(error, file=sys.stderr)
                found.append(None)
                continue
            templates = tokenizer.chat_template or {}
            found.append([{"default": templates} if isinstance(templates, str) else templates, tokenizer.special_tokens_map])
    return found


def main():
    if sys.argv[1] == "--results":
        print(json.dumps(results()))
        return 0
    folder, older = sys.argv[1:]
    others = json.loads(subprocess.run([older, __file__, "--results"], stdout=subprocess.PIPE, check=True).stdout.splitlines()[-1])
    cases = []
    for files, mine, other in zip(CASES, results(), others):
        agree = mine and other and mine[0] == other[0] and all(mine[1].get(key, value) == value for key, value in other[1].items())
        if not agree:
            print(f"transformers 4 and 5 differ: {files}\n  {other}\n  {mine}")
            continue
        texts = {name: content if isinstance(content, str) else json.dumps(content) for name, content in files.items()}
        cases.append({"files": texts, "templates": mine[0], "tokens": {**other[1], **mine[1]}})
    text = json.dumps(cases, ensure_ascii=False, indent=0)
    (Path(folder) / "template_files.json").write_text(text, encoding="utf-8", newline="")
    print(f"{len(cases)} cases, {len(text)} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
