#!/usr/bin/env python3
"""Writes token_offsets.json: texts, and where Hugging Face's tokenizers say that each of their tokens begins.

Usage: token_offsets.py FOLDER

The tokenizers are NAME.json in FOLDER, which generate.py wrote, without the tokens around a text. Offsets are in
characters of the text as it came, before it is normalised. Run with tokenizers 0.23.
"""
import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer

from special_texts import FAMILIES, SPELLINGS, text_of

SEED = 29
TEXTS_PER_FAMILY = 250
COMPOSED = [
    "e\u0301", "caf\u00e9", "cafe\u0301s", "\u1100\u1161\u11a8", "\u2126", "\u212b", "a\u0323\u0302", "\u0929\u093c", "o\u0308\u0304",
    "\U0001f468\u200d\U0001f469", "\ufb01", "\u00a0x", "\u2000y", "\u304b\u3099",
]


def main():
    folder = Path(sys.argv[1])
    families = {}
    for family in FAMILIES:
        rng = random.Random(f"{SEED} {family}")
        tokenizer = Tokenizer.from_file(str(folder / f"{family}.json"))
        own = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.content in SPELLINGS]
        texts = {}  # each once
        while len(texts) < TEXTS_PER_FAMILY:
            text = "".join(rng.choice((text_of(own, rng), rng.choice(COMPOSED))) for _ in range(rng.randint(1, 3)))
            texts.setdefault(text, [begin for begin, _ in tokenizer.encode(text, add_special_tokens=False).offsets])
        families[family] = list(texts.items())
    data = json.dumps(families, ensure_ascii=True, separators=(",", ":")).replace("]],", "]],\n")
    (folder / "token_offsets.json").write_text(data + "\n", newline="")
    print(f"{len(data)} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
