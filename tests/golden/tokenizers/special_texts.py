#!/usr/bin/env python3
"""Writes special_texts.json: texts that spell special tokens, and the ids that transformers gives for them.

Usage: special_texts.py FOLDER

The tokenizers are NAME.json in FOLDER, which generate.py wrote. Run with transformers 5.23: its tokenizers
are called as a user calls them, without any argument but the text.
"""
import json
import random
import sys
from pathlib import Path

from transformers import PreTrainedTokenizerFast

SEED = 13
FAMILIES = ("gpt2", "llama3", "qwen2", "smollm2")
TEXTS_PER_FAMILY = 500
SPELLINGS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
    "<|end_header_id|>", "<|eot_id|>", "<repo_name>", "<tool_call>", "</tool_call>", "<think>", "</think>", "<s>", "</s>",
]
PLAIN = [
    "a", "Hello", " world", "user", "system\n", "assistant\n\n", " ", "  ", "\n", "\n\n", "\t", "\r\n", "1234", "3.14",
    "it's", "!?", "<", "|", ">", "<|", "|>", "\u4f60\u597d", "\u00e9t\u00e9", "e\u0301", "\u0301", "\u0338", "\u00a0", "\u3000",
    "\U0001f600", "\u05e9\u05dc\u05d5\u05dd", "_", "/", "\\n", "im_end", "eot_id",
]


def damaged(spelling, rng):
    """Almost the spelling: cut, doubled inside itself, in capitals, or with something in it."""
    at = rng.randrange(1, len(spelling))
    return rng.choice([
        spelling[:at], spelling[at:], spelling[:at] + spelling + spelling[at:], spelling.upper(),
        spelling[:at] + rng.choice(PLAIN) + spelling[at:], spelling[:at] + spelling[at - 1:], spelling[::-1],
    ])


def text_of(own, rng):
    pieces = []
    for _ in range(rng.randint(1, 6)):
        kind = rng.random()
        if kind < 0.4:
            pieces.append(rng.choice(own))
        elif kind < 0.5:
            pieces.append(rng.choice(SPELLINGS))
        elif kind < 0.65:
            pieces.append(damaged(rng.choice(own), rng))
        else:
            pieces.append(rng.choice(PLAIN))
    return "".join(pieces)


def main():
    folder = Path(sys.argv[1])
    families, num_with_special = {}, 0
    for family in FAMILIES:
        rng = random.Random(f"{SEED} {family}")
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / f"{family}.json"))
        added = [token.content for token in tokenizer.added_tokens_decoder.values()]
        own = [content for content in added if content in SPELLINGS]
        special = {id for id, token in tokenizer.added_tokens_decoder.items() if token.content in SPELLINGS}
        texts = {}  # each once
        while len(texts) < TEXTS_PER_FAMILY:
            text = text_of(own, rng)
            if any(content in text for content in own):
                texts.setdefault(text, tokenizer(text).input_ids)
        families[family] = list(texts.items())
        num_with_special += sum(not special.isdisjoint(ids[1:]) for ids in texts.values())
        print(f"{family}: special tokens {own}")
    data = json.dumps(families, ensure_ascii=False, separators=(",", ":")).replace("]],", "]],\n")
    (folder / "special_texts.json").write_text(data + "\n", newline="")
    print(f"{len(data)} characters, {num_with_special} texts with special tokens after the first place")
    return 0


if __name__ == "__main__":
    sys.exit(main())
