#!/usr/bin/env python3
"""Writes tests/golden/smollm2/: what transformers in fp32 computes from the SmolLM2 GGUF file.

    python3 tests/golden/generate_smollm2_reference.py [MODEL.gguf]

Needs torch, transformers (5.x), tokenizers and gguf; takes some minutes on two cores.
tests/golden/README.md describes what is written.
"""

import hashlib
import json
import pathlib
import sys

import gguf
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers

FOLDER = pathlib.Path(__file__).resolve().parent
DEFAULT_MODEL = FOLDER.parents[1] / ".models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
NUM_POSITIONS = 64
NUM_SUBSET_IDS = 64
CONTROL_TOKEN_TYPE = 3

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def chat(*turns):
    """ChatML as the model's template renders it; `turns` alternate between user and assistant."""
    text = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
    for index, turn in enumerate(turns):
        role = "assistant" if index % 2 else "user"
        text += f"<|im_start|>{role}\n{turn}<|im_end|>\n"
    return text + "<|im_start|>assistant\n"


LONG_TEXT = (
    "A lighthouse stood on a rock two miles from the harbour. Every evening the keeper climbed the "
    "one hundred and ninety-six steps, cleaned the lamp, wound the clockwork that turned the lens, "
    "and wrote one line into the book: the date, the weather, the ships that had passed. On the "
    "first of March the line read: calm, clear, four ships. On the second: fog, no ships. On the "
    "third: strong wind from the west, two ships, one of them without a light. The keeper noted its "
    "course and lit the second lamp, which was lit only when a vessel was in danger. Down in the "
    "harbour people saw the two lights and knew what to do: the pilot launched his boat, the smith "
    "rang the bell, and the children carried blankets to the quay. By midnight the ship had been "
    "brought in. Its name was Perseverance, it came from Bergen, and it carried timber and a cargo "
    "of clocks, all of which had stopped at the same minute. The captain could not explain it. He "
    "said that the compass had failed first, then the lamps, then the clocks, and that after this "
    "nobody on board had dared to sleep. The keeper wrote all this down as well. Years later, when "
    "the lighthouse was given an electric lamp and the last keeper left, the book was found on the "
    "table, open at the third of March. "
)

GERMAN_TEXT = (
    "Der Fluss entspringt in den Bergen, fließt durch drei Städte und mündet nach 212 Kilometern in "
    "die Nordsee. Im Frühjahr führt er viel Wasser, im Sommer kann man ihn zu Fuß überqueren."
)
FRENCH_TEXT = (
    "Le boulanger se lève à trois heures, allume le four et prépare la pâte. À six heures, l'odeur du "
    "pain chaud emplit déjà toute la rue, et les premiers clients attendent devant la porte."
)
SPANISH_TEXT = (
    "El tren sale a las 7:45 de la mañana. ¿Quién viaja hoy? Una niña con su abuela, dos músicos y un "
    "señor que siempre se sienta junto a la ventana."
)
RUSSIAN_TEXT = "Зимой река замерзает, и дети катаются на коньках. "
GREEK_TEXT = "Η θάλασσα είναι ήρεμη και ο ουρανός γαλανός. "
CHINESE_TEXT = "春天来了,花开了,小鸟在树上唱歌。"

MONTHS = (
    "January, February, March, April, May, June, July, August, September, October, November, December. "
    "Those are the twelve months of the year, and four of them have thirty days."
)

POEM = (
    "The wind came down the hill tonight\nand knocked at every door,\nit blew the candle out for "
    "spite\nand danced across the floor.\n"
)

C_ACCESSORS = "".join(
    f"int get_{name}(const Box* box) {{\n  return box->{name};\n}}\n\n"
    f"void set_{name}(Box* box, int {name}) {{\n  box->{name} = {name};\n}}\n\n"
    for name in ("width", "height"))

PYTHON_CLASS = (
    "class Counter:\n    def __init__(self):\n        self.count = 0\n\n"
    "    def increment(self):\n        self.count += 1\n\n"
    "    def decrement(self):\n        self.count -= 1\n\n"
)

HTML_ROWS = "<table>\n" + "".join(
    f"  <tr><td>{day}</td><td>{degrees} degrees</td><td>sunny</td></tr>\n"
    for day, degrees in (("Monday", 17), ("Tuesday", 18), ("Wednesday", 19), ("Thursday", 20))
) + "</table>\n"

JSON_RECORDS = "[\n" + "".join(
    f'  {{"id": {index}, "name": "user{index}", "active": true, "tags": []}},\n' for index in range(1, 9))


def again(text, num_words):
    """The text twice, then its first words: the model goes on copying."""
    start = " ".join(text.split(" ")[:num_words])
    return f"{text}\n{text}\n{start}"


# (name, text). Chat prompts spell out the special tokens. Most of these let the model be sure of what
# follows, so that a wrong best token is an error and not a toss-up; the free ones are less sure.
PROMPTS = [
    ("chat-capital", chat("What is the capital of France?")),
    ("chat-list", chat("List the planets of the solar system in order, one per line.")),
    ("chat-code", chat("Write a Python function that returns the factorial of n.")),
    ("chat-repeat", chat("Repeat this poem three times:\n\n" + POEM, POEM + POEM + POEM,
                         "Once more, please.")),
    ("chat-turns", chat("Name the months.", MONTHS, "Again, please.", MONTHS, "And again, please.")),
    ("english-story", "Once upon a time, in a village at the foot of a mountain, there lived"),
    ("english-science", "Water boils at 100 degrees Celsius at sea level because"),
    ("english-long", LONG_TEXT + "\n\n" + LONG_TEXT[:60]),
    ("english-poem", again(POEM, 9)),
    ("english-weekdays", "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, Monday, Tuesday,"),
    ("code-python", again(PYTHON_CLASS * 2, 10)),
    ("code-c", again(C_ACCESSORS, 4)),
    ("code-html", again(HTML_ROWS, 6)),
    ("code-json", again(JSON_RECORDS + "]\n", 4)),
    ("numbers", again("".join(f"{n} squared is {n * n}.\n" for n in range(1, 12)), 4)),
    ("french", again(FRENCH_TEXT, 8)),
    ("german", again(GERMAN_TEXT, 8)),
    ("spanish", again(SPANISH_TEXT, 8)),
    ("russian-greek", (RUSSIAN_TEXT + GREEK_TEXT) * 3),
    ("chinese", CHINESE_TEXT * 5),
]


class SmolTokenizer:
    """The `smollm` pre-tokenizer over the file's own vocabulary: single digits first, then GPT-2."""

    def __init__(self, reader):
        tokens = reader.fields["tokenizer.ggml.tokens"].contents()
        kinds = reader.fields["tokenizer.ggml.token_type"].contents()
        merges = [tuple(m.split(" ")) for m in reader.fields["tokenizer.ggml.merges"].contents()]
        vocabulary = {text: index for index, text in enumerate(tokens)}
        self._tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ])
        self._tokenizer.decoder = decoders.ByteLevel()
        self._tokenizer.add_special_tokens([
            tokenizers.AddedToken(text, special=True, normalized=False)
            for text, kind in zip(tokens, kinds) if kind == CONTROL_TOKEN_TYPE
        ])

    def encode(self, text):
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        if self.decode(ids) != text:
            raise RuntimeError(f"no round trip: {text!r}")
        return ids

    def decode(self, ids):
        return self._tokenizer.decode(ids, skip_special_tokens=False)


def load(path, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=dtype, attn_implementation="eager",
        quantization_config=transformers.GgufConfig(dequantize=True)).eval()
    if model.dtype != dtype or model.model.rotary_emb.inv_freq.dtype != torch.float32:
        raise RuntimeError(f"loaded as {model.dtype}, rope {model.model.rotary_emb.inv_freq.dtype}")
    return model


@torch.no_grad()
def all_logits(model, ids):
    return model(torch.tensor([ids])).logits[0].float()


@torch.no_grad()
def greedy_continuation(model, prompt):
    ids, cache, step = [], None, prompt
    while len(ids) < NUM_POSITIONS:
        output = model(torch.tensor([step]), past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        ids.append(int(output.logits[0, -1].argmax()))
        step = ids[-1:]
    return ids


def sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record(reference, rounded, subset, prompt):
    """Rows of one prompt, [NUM_POSITIONS, columns of README.md], and the greedy continuation."""
    continuation = greedy_continuation(reference, prompt)
    # The last continuation token is predicted by the last row and is not an input.
    ids = prompt + continuation[:-1]
    logits = all_logits(reference, ids)[len(prompt) - 1:]
    best = logits.topk(2, dim=1)
    if best.indices[:, 0].tolist() != continuation:
        raise RuntimeError("prefill and decode of the fp32 model disagree (a near tie): change the prompt")
    error = (all_logits(rounded, ids)[len(prompt) - 1:] - logits).abs()[:, subset]
    rows = torch.cat([
        best.indices.to(torch.int32).view(torch.float32),
        best.values,
        logits.logsumexp(dim=1, keepdim=True),
        error.amax(dim=1, keepdim=True),
        error.square().mean(dim=1, keepdim=True).sqrt(),
        logits[:, subset],
    ], dim=1)
    return rows, continuation


def main():
    path = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DEFAULT_MODEL
    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    tokenizer = SmolTokenizer(gguf.GGUFReader(str(path)))
    reference, rounded = load(path, torch.float32), load(path, torch.bfloat16)
    vocab_size = reference.config.vocab_size
    subset = torch.randperm(vocab_size, generator=torch.Generator().manual_seed(20))
    subset = subset[:NUM_SUBSET_IDS].sort().values

    prompts, blocks = [], []
    for name, text in PROMPTS:
        ids = tokenizer.encode(text)
        rows, continuation = record(reference, rounded, subset, ids)
        gap, error = rows[:, 2] - rows[:, 3], rows[:, 5]
        print(f"{name:20} {len(ids):4} tokens, gap > 2x bf16 error at {int((gap > 2 * error).sum())} of "
              f"{NUM_POSITIONS}, largest bf16 error {error.max():.3f}: "
              f"{tokenizer.decode(continuation)[:60]!r}", flush=True)
        prompts.append({
            "name": name,
            "text": text,
            "prompt_ids": ids,
            "continuation_ids": continuation,
            "first_row": len(blocks) * NUM_POSITIONS,
        })
        blocks.append(rows)

    table = torch.cat(blocks)
    folder = FOLDER / "smollm2"
    folder.mkdir(exist_ok=True)
    (folder / "reference.bin").write_bytes(table.numpy().astype("<f4").tobytes())
    header = {
        "format": "lockstep-golden-top-1",
        "generated_with": {"torch": torch.__version__, "transformers": transformers.__version__},
        "model_file": path.name,
        "model_sha256": sha256(path),
        "data_file": "reference.bin",
        "num_rows": len(table),
        "num_columns": table.shape[1],
        "positions_per_prompt": NUM_POSITIONS,
        "vocab_size": vocab_size,
        "subset_ids": subset.tolist(),
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in header.items()]
    entries = ",\n".join("    " + json.dumps(prompt, ensure_ascii=False) for prompt in prompts)
    (folder / "reference.json").write_text(
        "{\n" + "\n".join(lines) + '\n  "prompts": [\n' + entries + "\n  ]\n}\n", encoding="utf-8")

    gap = table[:, 2] - table[:, 3]
    for factor in (0.1, 0.5, 1, 2):
        share = (gap > 2 * factor * table[:, 5]).float().mean()
        print(f"positions whose gap exceeds 2 x {factor} x the bf16 error: {100 * share:.1f} %")


if __name__ == "__main__":
    main()
