#!/usr/bin/env python3
"""Writes the tiny random GPT-2 checkpoints of tests/golden/tiny-gpt2*/ and their golden logits.

    python3 tests/golden/generate_tiny_gpt2.py

Needs the same packages as generate_tiny_checkpoints.py, and writes files of the same kinds. Seeded as well.
"""

import math
import zlib

import safetensors.torch
import torch
import transformers

import generate_tiny_checkpoints as tiny

SIZES = {"n_embd": 64, "n_head": 4, "n_layer": 2}

# tiny-gpt2: names and types as transformers writes them today. tiny-gpt2-older: as the first files of
# the family are, and with a vocabulary that no power of two divides.
CHECKPOINTS = {
    "tiny-gpt2": SIZES | {
        "vocab_size": 384,
        "n_positions": 256,
        "n_inner": 160,
        "activation_function": "gelu_new",
        "add_cross_attention": False,
        "attn_pdrop": 0.1,
        "embd_pdrop": 0.1,
        "layer_norm_epsilon": 1e-05,
        "reorder_and_upcast_attn": False,
        "resid_pdrop": 0.1,
        "scale_attn_by_inverse_layer_idx": False,
        "scale_attn_weights": True,
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
        "transformers_version": "5.0.0",
    },
    "tiny-gpt2-older": SIZES | {
        "vocab_size": 321,
        "n_positions": 128,
        "n_ctx": 128,
        "activation_function": "gelu_new",
        "attn_pdrop": 0.1,
        "embd_pdrop": 0.1,
        "layer_norm_epsilon": 1e-05,
        "resid_pdrop": 0.1,
        "summary_activation": None,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "transformers_version": "4.20.0",
    },
}


def random_weights(config, generator):
    hidden, inner = config["n_embd"], config.get("n_inner") or 4 * config["n_embd"]

    def normal(*shape, std):
        return torch.randn(*shape, generator=generator) * std

    weights = {"wte.weight": normal(config["vocab_size"], hidden, std=0.35),
               "wpe.weight": normal(config["n_positions"], hidden, std=0.2)}

    def norm(name):
        weight = torch.exp(normal(hidden, std=0.2))
        weight[torch.randint(hidden, (2,), generator=generator)] *= 3.0
        weights[name + ".weight"] = weight
        weights[name + ".bias"] = normal(hidden, std=0.3)

    def conv1d(name, inputs, outputs, gain):
        weights[name + ".weight"] = normal(inputs, outputs, std=gain / math.sqrt(inputs))
        weights[name + ".bias"] = normal(outputs, std=0.3)

    for layer in range(config["n_layer"]):
        prefix = f"h.{layer}."
        norm(prefix + "ln_1")
        conv1d(prefix + "attn.c_attn", hidden, 3 * hidden, 1.2)
        conv1d(prefix + "attn.c_proj", hidden, hidden, 1.0)
        norm(prefix + "ln_2")
        conv1d(prefix + "mlp.c_fc", hidden, inner, 1.2)
        conv1d(prefix + "mlp.c_proj", inner, hidden, 1.0)
    norm("ln_f")
    return weights


def as_today(weights):
    return {"transformer." + name: value.to(torch.bfloat16) for name, value in weights.items()}


def as_once(weights, config):
    """fp32, without a prefix, and with the mask that every layer kept."""
    size = config["n_positions"]
    for layer in range(config["n_layer"]):
        mask = torch.tril(torch.ones(size, size)).view(1, 1, size, size)
        weights[f"h.{layer}.attn.bias"] = mask
        weights[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    return weights


def main():
    for name, config in CHECKPOINTS.items():
        folder = tiny.FOLDER / name
        folder.mkdir(exist_ok=True)
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        weights = random_weights(config, generator)
        older = name.endswith("older")
        safetensors.torch.save_file(as_once(weights, config) if older else as_today(weights),
                                    folder / "model.safetensors", {"format": "pt"})
        (folder / "model.safetensors").chmod(0o644)
        tiny.write_json(folder / "config.json", dict(sorted((config | {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "bos_token_id": config["vocab_size"] - 1,
            "eos_token_id": config["vocab_size"] - 1,
            "initializer_range": 0.02,
            "use_cache": True,
        }).items())))
        reference, rounded = (
            transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
            for dtype in (torch.float32, torch.bfloat16))
        tiny.write_golden(folder, config["vocab_size"], reference, rounded, generator)


if __name__ == "__main__":
    main()
