#!/usr/bin/env python3
"""Writes the golden data of the tokenizer tests, with Hugging Face `tokenizers` as the reference.

Usage: generate.py FOLDER [GGUF]

Into FOLDER go:
  strings.bin     the corpus: each string as varint(number of bytes), bytes
  NAME.json       a tokenizer trained here, with the published pre-tokenizer of its family
  NAME.ids        cases: varint(string), flags, varint(number of ids), ids as varints
                  flags: 1 special tokens added around the text, 2 those in the text parsed,
                  4 refused (no ids follow)
  smollm2_gguf.ids  cases for the vocabulary of a SmolLM2 GGUF file, if one is given. Its conversion
                  by transformers loses the single-digit rule, so it is put together here.

Strings on which the library's normaliser (of an old Unicode version) differs from Unicode are left
out. Run with tokenizers 0.23.
"""
import json
import random
import sys
import unicodedata
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

from corpus import make_corpus

SEED = 20240611
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
ADD_SPECIAL, PARSE_SPECIAL, REFUSED = 1, 2, 4


def special(content, **flags):
    return AddedToken(content, special=True, normalized=False, **flags)


def plain(content, **flags):
    return AddedToken(content, special=False, **flags)


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated", invert=False), byte_level(False)])


def train(strings, pre_tokenizer, num_merges, normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + num_merges, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(strings, trainer)
    return tokenizer


def gpt2(strings):
    tokenizer = train(strings, byte_level(True), 1500)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens([special("<|endoftext|>")])
    # The older spelling of merges.
    definition = json.loads(tokenizer.to_str())
    definition["model"]["merges"] = [" ".join(pair) for pair in definition["model"]["merges"]]
    return json.dumps(definition, ensure_ascii=False)


def llama3(strings):
    tokenizer = train(strings, split_then_bytes(LLAMA3_PATTERN), 1800)
    definition = json.loads(tokenizer.to_str())
    model = definition["model"]
    model["ignore_merges"] = True
    # Words that no merge leads to: only ignore_merges finds them.
    for word in ("\u0120antidisestablishment", "\u0120Paris", "quux",
                 "\u0120\u0120\u0120\u0120\u0120"):
        if word not in model["vocab"]:
            model["vocab"][word] = len(model["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(definition))
    tokenizer.add_tokens([
        special(content) for content in (
            "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
            "<|eot_id|>")])
    bos = "<|begin_of_text|>"
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1",
            special_tokens=[(bos, tokenizer.token_to_id(bos))])])
    return tokenizer.to_str()


def qwen2(strings):
    tokenizer = train(strings, split_then_bytes(QWEN2_PATTERN), 1500, normalizers.NFC())
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens([
        special("<|endoftext|>"), special("<|im_start|>"), special("<|im_end|>"),
        plain("<tool_call>", normalized=False), plain("</tool_call>", normalized=False),
        plain("<think>", normalized=False), plain("</think>", normalized=False),
        plain("caf\u0065\u0301", normalized=True)])
    return tokenizer.to_str()


def added_tokens(strings):
    """Every flag of an added token. Tokens that take white space along do not give it back."""
    tokenizer = train(strings, byte_level(True), 200, normalizers.Sequence([normalizers.NFC()]))
    tokenizer.add_tokens([
        special("<|endoftext|>"), special("[MASK]", lstrip=True), special("[TAIL]", rstrip=True),
        special("<|im_start|>"), plain("<|im_", normalized=False), plain("  ", normalized=False),
        plain("solo", single_word=True, normalized=False),
        plain("\u00e9t\u00e9", single_word=True, lstrip=True, rstrip=True)])
    return tokenizer.to_str()


def own_pattern(strings):
    """A pattern that is not scanned by hand, in the manner of GPT-4o's."""
    upper, lower = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
    ending = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    pattern = "|".join([
        rf"[^\r\n\p{{L}}\p{{N}}]?[{upper}]*[{lower}]+{ending}",
        rf"[^\r\n\p{{L}}\p{{N}}]?[{upper}]+[{lower}]*{ending}", r"\p{Han}+", r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
    return train(strings, split_then_bytes(pattern), 200).to_str()


def smollm2(strings):
    pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level(True)])
    tokenizer = train(strings, pre_tokenizer, 1500)
    tokenizer.add_tokens([
        special("<|endoftext|>"), special("<|im_start|>"), special("<|im_end|>"),
        special("<repo_name>")])
    return tokenizer.to_str()


def from_gguf(path):
    """The tokenizer of a GGUF file whose pre-tokenizer is `smollm`, and the bytes that it lacks."""
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level(True)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([special(t) for t, kind in zip(tokens, types) if kind == 3])
    alphabet = {b: pre_tokenizers.ByteLevel(False, False, False).pre_tokenize_str(chr(b))[0][0]
                for b in range(128)}
    missing = {b for b, spelled in alphabet.items() if spelled not in set(tokens)}
    # Above ASCII a lead byte shows through its character.
    for character in ("\U00040000", "\U00080000", "\U000c0000", "\U00100000"):
        lead = character.encode()[0]
        spelled = pre_tokenizers.ByteLevel(False, False, False).pre_tokenize_str(character)[0][0]
        if spelled[0] not in set(tokens):
            missing.add(lead)
    return tokenizer, missing


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


def has_mark(text):
    """Whether something like an added token may be in the text."""
    return any(mark in text for mark in ("<", "[", "solo", "caf", "t\u00e9", "te\u0301"))


def every_string(index, text):
    return True


def marked_string(index, text):
    return has_mark(text)


def some_string(index, text):
    """A quarter, of the characters that Debian 12's PCRE2 (Unicode 14) knows."""
    return index % 4 == 0 and all(unicodedata.category(c) != "Cn" for c in text)


def encode_cases(tokenizer, strings, missing=frozenset(), keep=every_string):
    """`missing`: bytes that the vocabulary lacks. `keep`: which strings to take."""
    out = bytearray()

    def add(index, flags):
        text = strings[index]
        if missing & set(text.encode()):
            out.extend(varint(index) + bytes([flags | REFUSED]))
            return
        tokenizer.encode_special_tokens = not flags & PARSE_SPECIAL
        ids = tokenizer.encode(text, add_special_tokens=bool(flags & ADD_SPECIAL)).ids
        out.extend(varint(index) + bytes([flags]) + varint(len(ids)))
        for token in ids:
            out.extend(varint(token))

    for index, text in enumerate(strings):
        if not keep(index, text):
            continue
        add(index, ADD_SPECIAL if index % 8 == 0 else 0)
        if has_mark(text):
            add(index, PARSE_SPECIAL)
    return bytes(out)


def normalises_alike(text):
    return normalizers.NFC().normalize_str(text) == unicodedata.normalize("NFC", text)


def main():
    folder = Path(sys.argv[1])
    rng = random.Random(SEED)
    strings = [text for text in make_corpus(rng) if normalises_alike(text)]
    data = b"".join(varint(len(text.encode())) + text.encode() for text in strings)
    (folder / "strings.bin").write_bytes(data)
    print(f"{len(strings)} strings, {len(data)} bytes")
    for make, keep in ((gpt2, every_string), (llama3, every_string), (qwen2, every_string),
                       (smollm2, every_string), (added_tokens, marked_string),
                       (own_pattern, some_string)):
        definition = make(strings)
        (folder / f"{make.__name__}.json").write_text(definition)
        cases = encode_cases(Tokenizer.from_str(definition), strings, keep=keep)
        (folder / f"{make.__name__}.ids").write_bytes(cases)
        print(f"{make.__name__}: definition {len(definition)} characters, ids {len(cases)} bytes")
    if len(sys.argv) > 2:
        tokenizer, missing = from_gguf(sys.argv[2])
        cases = encode_cases(tokenizer, strings, missing=missing)
        (folder / "smollm2_gguf.ids").write_bytes(cases)
        print(f"smollm2_gguf: ids {len(cases)} bytes, missing bytes {sorted(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
