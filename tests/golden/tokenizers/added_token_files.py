#!/usr/bin/env python3
"""Writes added_token_files.json: model folders whose files disagree about added tokens, and what transformers reads.

Usage: added_token_files.py PYTHON4 PYTHON5 FOLDER

PYTHON4 and PYTHON5 are interpreters with transformers 4.57 and 5.24. The script runs itself once with each. Each case
has the "added_tokens" of tokenizer.json (the rest of it is "base") and the other files of the folder, as they are.
The answers "4" and "5" have the following. "5" is absent where it equals "4".
  size          number of ids, the largest plus one
  named         the ids of the named special tokens; null: there is none
  ids           of the texts, with special tokens parsed
  plain_ids     of the texts, with special tokens as plain text
  skipped       the ids of added tokens that skip_special_tokens leaves out
An answer {"error": ...} says that transformers refuses the folder.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TEXTS = [
    "hello<s>hello", "a <tool> b", "<tool>", "x<|im_end|> y", "<|im_end|><|im_end|>", "hello hello", " hello", "ahellob",
    "<extra>", "  <extra>  ", "<other> <pad>", "<|im_start|>user", "<s> <tool> <|im_end|> <extra> <other> <pad>", "",
    "e\u0301<e\u0301>\u00e9<\u00e9>", "</s><unk>", "[PAD][TOOL]", "<image>",
]
NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")


def token(content, special=False, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": special, **flags}


def listed(id, content, special=False, **flags):
    return {"id": id, **token(content, special, **flags)}


def named(content, **flags):
    return {"__type": "AddedToken", **token(content, True, **flags)}


def decoder(**entries):
    return {key.lstrip("_"): value for key, value in entries.items()}


S, TOOL = listed(261, "<s>", True), listed(262, "<tool>")
END = token("<|im_end|>", True)

# name, then what differs from the base.
CASES = {
    "nothing_else": {},
    "empty_config": {"config": {}},
    "config_agrees": {"config": {"added_tokens_decoder": decoder(_261=token("<s>", True), _262=token("<tool>"))}},
    "config_lists_fewer": {"config": {"added_tokens_decoder": decoder(_261=token("<s>", True))}},
    "config_lists_none": {"config": {"added_tokens_decoder": {}, "eos_token": "<s>"}},
    "config_makes_special": {"config": {"added_tokens_decoder": decoder(_262=token("<tool>", True))}},
    "config_makes_plain": {"config": {"added_tokens_decoder": decoder(_261=token("<s>", False))}},
    "config_makes_plain_but_names": {"config": {"added_tokens_decoder": decoder(_261=token("<s>", False)),
                                                "bos_token": "<s>"}},
    "config_strips_left": {"config": {"added_tokens_decoder": decoder(_262=token("<tool>", lstrip=True))}},
    "config_strips_right": {"config": {"added_tokens_decoder": decoder(_262=token("<tool>", rstrip=True))}},
    "config_single_word": {"config": {"added_tokens_decoder": decoder(_259=token("hello", single_word=True))}},
    "config_normalized": {"normalizer": "NFC", "config": {"added_tokens_decoder": decoder(
        _263=token("<e\u0301>", normalized=True), _264=token("<extra>", normalized=True))}},
    "config_not_normalized": {"normalizer": "NFC", "config": {"added_tokens_decoder": decoder(
        _263=token("<e\u0301>"), _264=token("<\u00e9>"))}},
    "config_adds_end": {"config": {"added_tokens_decoder": decoder(_263=END), "eos_token": "<|im_end|>"}},
    "config_adds_two_backwards": {"config": {"added_tokens_decoder": {
        "264": token("<|im_start|>", True), "263": END}, "eos_token": "<|im_end|>"}},
    "config_adds_with_a_gap": {"config": {"added_tokens_decoder": decoder(_300=END), "eos_token": "<|im_end|>"}},
    "config_adds_below": {"config": {"added_tokens_decoder": decoder(_7=END), "eos_token": "<|im_end|>"}},
    "config_has_another_id": {"config": {"added_tokens_decoder": decoder(_270=token("<tool>", True))}},
    "config_swaps": {"config": {"added_tokens_decoder": decoder(_261=token("<tool>"), _262=token("<s>", True))}},
    "config_marks_a_word": {"config": {"added_tokens_decoder": decoder(_259=token("hello"))}},
    "config_marks_a_special_word": {"config": {"added_tokens_decoder": decoder(_259=token("hello", True))}},
    "config_has_no_flags": {"config": {"added_tokens_decoder": decoder(_263={"content": "<extra>"})}},
    "config_has_only_special": {"config": {"added_tokens_decoder": decoder(_263={"content": "<extra>", "special": True})}},
    "config_entry_is_empty": {"config": {"added_tokens_decoder": decoder(_263=token(""), _264=token("<extra>"))}},
    "end_is_new": {"config": {"eos_token": "<|im_end|>"}},
    "end_is_new_object": {"config": {"eos_token": named("<|im_end|>", lstrip=True)}},
    "end_is_known": {"config": {"eos_token": "<tool>"}},
    "end_is_known_object": {"config": {"eos_token": named("<tool>", rstrip=True)}},
    "end_is_a_word": {"config": {"eos_token": "hello"}},
    "end_is_null": {"config": {"eos_token": None, "bos_token": "<s>"}},
    "end_is_empty": {"config": {"eos_token": ""}},
    "end_strips_in_the_file": {"added_tokens": [S, listed(262, "<tool>", True, lstrip=True)],
                               "config": {"eos_token": "<tool>"}},
    "end_strips_in_the_decoder": {"config": {"added_tokens_decoder": decoder(_262=token("<tool>", True, lstrip=True)),
                                             "eos_token": "<tool>"}},
    "end_object_and_decoder": {"config": {"added_tokens_decoder": decoder(_262=token("<tool>", True, lstrip=True)),
                                          "eos_token": named("<tool>", rstrip=True)}},
    "padding_is_new": {"config": {"eos_token": "<s>", "pad_token": "<pad>"}},
    "all_names_are_new": {"config": {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>", "bos_token": "<s>"}},
    "two_names_one_token": {"config": {"pad_token": "<|im_end|>", "eos_token": "<|im_end|>", "bos_token": "<|im_end|>"}},
    "more_tokens": {"config": {"additional_special_tokens": ["<extra>", "<tool>"]}},
    "more_token_objects": {"config": {"additional_special_tokens": [named("<extra>", lstrip=True), "<other>"]}},
    "more_tokens_and_decoder": {"config": {"added_tokens_decoder": decoder(_263=END),
                                           "additional_special_tokens": ["<|im_end|>", "<extra>"]}},
    "extra_tokens": {"config": {"extra_special_tokens": ["<extra>", "<tool>"]}},
    "extra_named_tokens": {"config": {"extra_special_tokens": {"image_token": "<image>"}}},
    "extra_named_none": {"config": {"extra_special_tokens": {}, "eos_token": "<s>"}},
    "image_token": {"config": {"image_token": "<image>"}},
    "map_names": {"map": {"eos_token": "<tool>", "bos_token": "<s>"}},
    "map_wins": {"config": {"eos_token": "<s>"}, "map": {"eos_token": "<tool>"}},
    "map_loses_to_decoder": {"config": {"eos_token": "<s>", "added_tokens_decoder": decoder(_261=token("<s>", True))},
                             "map": {"eos_token": "<tool>", "pad_token": "<pad>"}},
    "map_object": {"config": {}, "map": {"eos_token": {"content": "<|im_end|>", "lstrip": True, "rstrip": False,
                                                       "single_word": False, "normalized": False}}},
    "map_more_tokens": {"config": {"eos_token": "<s>"}, "map": {"additional_special_tokens": ["<extra>", "<tool>"]}},
    "map_extra_tokens": {"config": {"eos_token": "<s>"}, "map": {"extra_special_tokens": ["<extra>"]}},
    "map_without_config": {"map": {"eos_token": "<|im_end|>", "pad_token": "<pad>"}},
    "added_file": {"config": {"eos_token": "<s>"}, "added": {"<extra>": 263}},
    "added_file_two": {"config": {"eos_token": "<s>"}, "added": {"<other>": 264, "<extra>": 263}},
    "added_file_named": {"config": {"eos_token": "<|im_end|>"}, "added": {"<|im_end|>": 263}},
    "added_file_named_by_map": {"config": {}, "map": {"eos_token": "<|im_end|>"}, "added": {"<|im_end|>": 263}},
    "added_file_agrees": {"config": {}, "added": {"<tool>": 262, "<s>": 261}},
    "added_file_other_id": {"config": {}, "added": {"<extra>": 262}},
    "added_file_gap": {"config": {}, "added": {"<extra>": 280}},
    "added_file_loses_to_decoder": {"config": {"added_tokens_decoder": decoder(_263=END)}, "added": {"<extra>": 263}},
    "added_file_without_config": {"added": {"<extra>": 263}},
    "listed_twice": {"added_tokens": [S, TOOL, TOOL]},
    "listed_twice_later_special": {"added_tokens": [S, TOOL, listed(262, "<tool>", True)]},
    "listed_twice_later_plain": {"added_tokens": [S, listed(262, "<tool>", True), TOOL]},
    "listed_twice_other_flags": {"added_tokens": [S, TOOL, listed(262, "<tool>", lstrip=True)]},
    "listed_first_and_again_last": {"added_tokens": [S, TOOL, listed(263, "<extra>"), S]},
    "listed_twice_other_id": {"added_tokens": [S, TOOL, listed(263, "<tool>"), listed(264, "<extra>")]},
    "listed_with_other_ids": {"added_tokens": [listed(262, "<s>", True), listed(261, "<tool>")]},
    "listed_with_a_gap": {"added_tokens": [S, listed(270, "<tool>")]},
    "listed_backwards": {"added_tokens": [TOOL, S]},
    "listed_word": {"added_tokens": [S, TOOL, listed(259, "hello")]},
    "listed_word_other_id": {"added_tokens": [S, TOOL, listed(263, "hello")]},
    "listed_empty": {"added_tokens": [S, listed(262, ""), listed(262, "<tool>")]},
    "listed_none": {"added_tokens": []},
    "listed_none_config_adds": {"added_tokens": [], "config": {"added_tokens_decoder": decoder(
        _261=END, _262=token("<tool>")), "eos_token": "<|im_end|>"}},
}


def bytes_to_unicode():
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {**{byte: chr(byte) for byte in shown}, **{byte: chr(256 + i) for i, byte in enumerate(hidden)}}


def base():
    vocabulary = {char: byte for byte, char in sorted(bytes_to_unicode().items())}
    for word in ("he", "ll", "hell", "hello", "\u0120hello"):
        vocabulary[word] = len(vocabulary)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [S, TOOL], "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocabulary, "merges": ["h e", "l l", "he ll", "hell o", "\u0120 hello"]},
    }


def write_folder(folder, case):
    definition = base()
    definition["added_tokens"] = case.get("added_tokens", definition["added_tokens"])
    if "normalizer" in case:
        definition["normalizer"] = {"type": case["normalizer"]}
    files = {"tokenizer.json": definition, "tokenizer_config.json": case.get("config"),
             "special_tokens_map.json": case.get("map"), "added_tokens.json": case.get("added")}
    for name, content in files.items():
        if content is not None:
            (folder / name).write_text(json.dumps(content))


def answer(folder):
    from transformers import PreTrainedTokenizerFast

    try:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(str(folder))
    except Exception as error:  # whatever it is, transformers refuses the folder
        return {"error": type(error).__name__}
    backend = tokenizer.backend_tokenizer
    added = sorted(backend.get_added_tokens_decoder())
    ids = [tokenizer(text, add_special_tokens=False).input_ids for text in TEXTS]
    backend.encode_special_tokens = True
    plain_ids = [backend.encode(text, add_special_tokens=False).ids for text in TEXTS]
    return {
        "size": max(backend.get_vocab(with_added_tokens=True).values()) + 1,
        "named": {name: getattr(tokenizer, name + "_id") for name in NAMES},
        "ids": ids, "plain_ids": plain_ids,
        "skipped": [id for id in added if backend.decode([id], skip_special_tokens=True) == ""],
    }


def answers():
    result = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            write_folder(Path(folder), case)
            result[name] = answer(Path(folder))
    return result


def main():
    if sys.argv[1:] == ["--answers"]:
        json.dump(answers(), sys.stdout)
        return 0
    python4, python5, folder = sys.argv[1:]
    by_version = {version: json.loads(subprocess.run([python, __file__, "--answers"], check=True, text=True,
                                                     stdout=subprocess.PIPE).stdout)
                  for version, python in (("4", python4), ("5", python5))}
    cases = []
    for name, case in CASES.items():
        cases.append({"name": name, **case, "4": by_version["4"][name]})
        if by_version["5"][name] != by_version["4"][name]:
            cases[-1]["5"] = by_version["5"][name]
    lines = ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in cases)
    texts, definition = (json.dumps(value, separators=(",", ":")) for value in (TEXTS, base()))
    text = f'{{"texts":{texts},\n"base":{definition},\n"cases":[\n{lines}\n]}}\n'
    (Path(folder) / "added_token_files.json").write_text(text, newline="")
    differing = [case["name"] for case in cases if "5" in case]
    print(f"{len(cases)} cases, {len(text)} characters; the versions differ in {differing}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
