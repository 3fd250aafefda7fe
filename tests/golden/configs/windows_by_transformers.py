#!/usr/bin/env python3
"""Writes windows.json: which window each layer has, for combinations of keys of config.json.

Usage: windows_by_transformers.py PYTHON4 PYTHON5 FOLDER

PYTHON4 and PYTHON5 are interpreters with transformers 4.57 and 5.24. PYTHON5 has torch too. The script runs itself once
with each, and both must say the same. With PYTHON5 it also builds small models and reads the windows off their
attention weights, where a window is shorter than the text. So "W tokens" means: a token reads itself and the W - 1
tokens before it.
"""
import itertools
import json
import subprocess
import sys
from pathlib import Path

ABSENT = "absent"
SLIDING, FULL = "sliding_attention", "full_attention"
TEXT_TOKENS = 40

# Each case is a choice of one value of each key. The first keys change slowest.
QWEN_KEYS = {
    "max_position_embeddings": [64, 8192],
    "use_sliding_window": [ABSENT, False, True],
    "sliding_window": [ABSENT, None, 0, 8, 63, 64],
    "max_window_layers": [ABSENT, 0, 2, 4],
    "layer_types": [ABSENT, None, [FULL] * 4, [FULL, SLIDING, FULL, SLIDING], [SLIDING] * 4],
}
FAMILIES = [
    {"family": "qwen2", "num_layers": 4, "keys": QWEN_KEYS},
    {"family": "qwen3", "num_layers": 4, "keys": QWEN_KEYS},
    {
        "family": "ministral",
        "num_layers": 3,
        "keys": {
            "max_position_embeddings": [64, 8192],
            "sliding_window": [ABSENT, None, 0, 8, 64],
            "layer_types": [ABSENT, [FULL, SLIDING, FULL], [FULL] * 3],
        },
    },
    {
        "family": "gemma3_text",
        "num_layers": 7,
        "keys": {
            "max_position_embeddings": [64, 8192],
            "sliding_window": [ABSENT, None, 8, 64],
            "sliding_window_pattern": [ABSENT, 1, 2, 3],
            "layer_types": [ABSENT, [FULL, SLIDING] * 3 + [FULL]],
        },
    },
]
SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 8, "vocab_size": 32}


def cases(entry):
    for values in itertools.product(*entry["keys"].values()):
        yield {key: value for key, value in zip(entry["keys"], values) if value is not ABSENT}


def windows_of(entry, case):
    """The window of each layer, 0 for none, or "refused". A window that is not shorter than the context is none."""
    from transformers import AutoConfig

    # A family that this version does not have.
    try:
        AutoConfig.for_model(entry["family"])
    except ValueError:
        return None
    config = AutoConfig.for_model(entry["family"], num_hidden_layers=entry["num_layers"], **SIZES, **case)
    result = []
    for kind in config.layer_types:
        if kind == SLIDING and not config.sliding_window:
            return "refused"  # no mask is built for it, or one that leaves no key
        window = config.sliding_window if kind == SLIDING else 0
        result.append(0 if window >= config.max_position_embeddings else window)
    return result


def measured_windows(entry, case):
    """The same from the weights of a model's attention, for the last token of a text."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(entry["family"], num_hidden_layers=entry["num_layers"], **SIZES, **case,
                                  pad_token_id=0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        attentions = model(torch.arange(TEXT_TOKENS).unsqueeze(0) % 32, output_attentions=True).attentions
    result = []
    for weights in attentions:
        read = weights[0].amax(dim=0) > 0  # [query, key]
        window = int(read[-1].sum())
        for query in range(TEXT_TOKENS):
            expected = torch.zeros(TEXT_TOKENS, dtype=torch.bool)
            expected[max(0, query - window + 1):query + 1] = True
            if not torch.equal(read[query], expected):
                raise RuntimeError(f"{case}: token {query} does not read the {window} latest tokens")
        result.append(0 if window == TEXT_TOKENS else window)
    return result


def answers(measure):
    result = []
    for entry in FAMILIES:
        windows = []
        seen = {}
        for case in cases(entry):
            windows.append(windows_of(entry, case))
            shown = windows[-1]
            # Windows from the text's length on cannot be told from none. One model for each outcome and list is enough.
            kind = json.dumps([shown, case.get("layer_types"), case["max_position_embeddings"]])
            if not measure or shown in (None, "refused") or kind in seen:
                continue
            # Ministral's class builds a mask for the window even if no layer has one, and fails without a number.
            if entry["family"] == "ministral" and case.get("sliding_window", 1) is None:
                continue
            seen[kind] = True
            if measured_windows(entry, case) != [w if w < TEXT_TOKENS else 0 for w in shown]:
                raise RuntimeError(f"{entry['family']} {case}: the model does not do {shown}")
        result.append(windows)
    return result


def main():
    if sys.argv[1] == "--answers":
        json.dump(answers(measure=sys.argv[2] == "5"), sys.stdout)
        return 0
    python4, python5, folder = sys.argv[1:]
    old, new = (json.loads(subprocess.run([python, __file__, "--answers", version], check=True, text=True,
                                          stdout=subprocess.PIPE).stdout)
                for python, version in ((python4, "4"), (python5, "5")))
    blocks = []
    for entry, windows4, windows5 in zip(FAMILIES, old, new):
        for case, before, after in zip(cases(entry), windows4, windows5):
            if before is not None and before != after:
                raise RuntimeError(f"{entry['family']} {case}: 4.57 says {before}, 5 says {after}")
        head = json.dumps(entry)[:-1]
        blocks.append(head + ', "windows": [\n' + ",\n".join(json.dumps(w) for w in windows5) + "\n]}")
    (Path(folder) / "windows.json").write_text("[\n" + ",\n".join(blocks) + "\n]\n", newline="")
    print(", ".join(f"{entry['family']}: {len(windows)} cases" for entry, windows in zip(FAMILIES, new)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
