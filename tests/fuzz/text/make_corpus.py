#!/usr/bin/env python3
"""Writes the seed corpora. Usage: make_corpus.py FOLDER_OF_CORPORA GOLDEN_FOLDER"""
import copy
import json
import sys
from pathlib import Path

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
              "use_regex": True}
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
           r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

OWN_PATTERN = r"\p{Lu}?[\p{Ll}\s]+|\d{1,2}|[^a-c]+?(?=a)|(?i:AB)"


def added(token_id, content, **flags):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False,
            "rstrip": False,
            "normalized": False, "special": False, **flags}


def definitions():
    base = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(6, "<s>", special=True), added(7, "[a]", lstrip=True, rstrip=True)],
        "normalizer": None, "pre_tokenizer": BYTE_LEVEL, "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "dropout": None, "unk_token": "?",
                  "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": False,
                  "vocab": {"a": 0, "b": 1, "ab": 2, "?": 3, "aab": 4, "\u0120": 5},
                  "merges": ["a b", "a ab"]}}
    yield "bytes", base
    split = copy.deepcopy(base)
    split["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    split["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False},
        {**BYTE_LEVEL, "use_regex": False}]}
    split["model"]["merges"] = [["a", "b"], ["a", "ab"]]
    split["model"]["ignore_merges"] = True
    split["model"]["fuse_unk"] = True
    yield "split", split
    own = copy.deepcopy(split)
    own["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = OWN_PATTERN
    own["added_tokens"][0]["single_word"] = True
    own["added_tokens"][1]["normalized"] = True
    yield "own_pattern", own
    digits = copy.deepcopy(base)
    digits["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, {**BYTE_LEVEL, "add_prefix_space": True}]}
    digits["post_processor"] = {"type": "Sequence", "processors": [BYTE_LEVEL, {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}}]}
    yield "digits_template", digits


def string(text):
    return len(text).to_bytes(4, "little") + text


def renderer_frames():
    yield "text", b"K" + string(b"<s>user: Hi</s>")
    yield "empty", b"K" + string(b"")
    yield "error", b"E" + string(b"Conversation roles must alternate")
    yield "error_too_long", b"E" + string(b"x" * 600)
    yield "error_not_utf8", b"E" + string(b"\xff\xfe")
    yield "too_short", b"K" + (300).to_bytes(4, "little") + b"x"
    yield "too_long", b"K" + string(b"x") + b"y"


def main():
    corpora, golden = Path(sys.argv[1]), Path(sys.argv[2])
    for folder in ("tokenizer_json", "chat_template", "renderer_frames"):
        (corpora / folder).mkdir(parents=True, exist_ok=True)
    for name, definition in definitions():
        (corpora / "tokenizer_json" / f"{name}.json").write_text(json.dumps(definition))
    for name, payload in renderer_frames():
        (corpora / "renderer_frames" / name).write_bytes(payload)
    cases = json.loads((golden / "chat_templates.json").read_text())
    sources = list(dict.fromkeys(case["template"] for case in cases))[:12]
    for i, source in enumerate(sources):
        extra = '{"tools": [{"a": 1}], "enable_thinking": false}' if i % 2 else "{}"
        seed = source.encode() + b"\0" + extra.encode()
        (corpora / "chat_template" / f"{i:02}").write_bytes(seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
