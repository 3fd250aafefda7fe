#!/usr/bin/env python3
"""Writes tests/golden/smollm2/logprobs.json: how likely transformers finds every token of some texts.

    python3 tests/golden/generate_smollm2_logprobs.py [MODEL.gguf]

In fp32, and the mean error of a plain bf16 run. Needs what generate_smollm2_reference.py needs; the texts
are some of its prompts. tests/golden/README.md describes what is written.
"""

import json
import pathlib
import sys

import gguf
import torch
import transformers

import generate_smollm2_reference as reference


# Prose and chats. The model copies most of the code, and is sure of it.
KINDS = ("chat-", "english-", "french", "german")


@torch.no_grad()
def prompt_logprobs(model, ids):
    """Of every token but the first, given those before it."""
    logprobs = reference.all_logits(model, ids).log_softmax(dim=1)[:-1]
    return logprobs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def main():
    path = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else reference.DEFAULT_MODEL
    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    tokenizer = reference.SmolTokenizer(gguf.GGUFReader(str(path)))
    exact_model, bf16_model = reference.load(path, torch.float32), reference.load(path, torch.bfloat16)
    prompts, errors = [], []
    for name, text in reference.PROMPTS:
        if not name.startswith(KINDS):
            continue
        ids = tokenizer.encode(text)
        exact = prompt_logprobs(exact_model, ids)
        errors.append((prompt_logprobs(bf16_model, ids) - exact).abs())
        prompts.append({"name": name, "ids": ids, "logprobs": [float(f"{value:.6g}") for value in exact]})
        print(f"{name:20} {len(ids):4} tokens, bf16 {errors[-1].mean():.4f}", flush=True)
    error = torch.cat(errors)
    header = {
        "format": "lockstep-golden-logprobs-1",
        "generated_with": {"torch": torch.__version__, "transformers": transformers.__version__},
        "model_file": path.name,
        "model_sha256": reference.sha256(path),
        "num_logprobs": len(error),
        "bf16_mean_error": float(f"{error.mean():.6g}"),
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in header.items()]
    entries = ",\n".join("    " + json.dumps(prompt) for prompt in prompts)
    (reference.FOLDER / "smollm2" / "logprobs.json").write_text(
        "{\n" + "\n".join(lines) + '\n  "prompts": [\n' + entries + "\n  ]\n}\n", encoding="utf-8")
    print(f"{len(error)} log-probabilities, mean error of bf16 {error.mean():.5f}")


if __name__ == "__main__":
    main()
