#!/usr/bin/env python3
"""Writes the tiny random checkpoints of tests/golden/tiny-*/ and their golden logits.

    python3 tests/golden/generate_tiny_checkpoints.py [NAME ...]

Needs torch, transformers (5.x), tokenizers and safetensors. Everything is seeded: the same versions
give the same files. tests/golden/README.md describes what is written.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import zlib

import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

FOLDER = pathlib.Path(__file__).resolve().parent

# The published pre-tokenizer patterns of the two families.
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

LLAMA3_SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                  "<|end_header_id|>", "<|eot_id|>"]
CHATML_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

LLAMA3_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
    "{{ message['content'] | trim }}{{ '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

TOKENIZER_CORPUS = [
    "The router decides what runs and the worker computes it, one step at a time.",
    "A step names the sequences that run and the number of tokens of each of them.",
    "When the answer is there, the blocks of the request go back to the pool.",
    "There are 128 blocks of 16 tokens, and 2,048 tokens fit into the cache.",
    "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }\n    return sum;\n",
    "def step(self, tokens):\n    return [self.next(token) for token in tokens]\n",
    "Die Antwort kommt Schritt für Schritt; l'été, on répond à l'ombre; ¿dónde está?",
    "Привет, мир. 你好,世界。 こんにちは世界 🙂",
]


# (name, prompt tokens, continuation tokens). The last one runs past original_max_positions in its
# prompt, the third one crosses it while it is continued.
PROMPTS = (("single", 1, 6), ("short", 7, 12), ("crossing", 26, 14), ("long", 86, 16))
# The same for a window of 32 tokens.
WINDOW_PROMPTS = (("short", 7, 12), ("crossing", 26, 14), ("long", 108, 20))


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """One folder: sizes, what config.json says beside them, and how the weights are stored."""

    family: str
    config: dict
    tied: bool
    num_shards: int = 1
    num_padding_ids: int = 0  # ids of the model that the tokenizer does not have
    prompts: tuple = PROMPTS

    @property
    def num_ids(self):
        return self.config["vocab_size"]

    @property
    def is_llama(self):
        return self.family == "llama"


def sizes(hidden, intermediate, layers, heads, kv_heads, vocab, max_positions):
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "max_position_embeddings": max_positions,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "use_cache": True,
    }


CHECKPOINTS = {
    # Both spellings of config.json occur: rope_theta + rope_scaling + torch_dtype, and transformers
    # 5's rope_parameters + dtype.
    "tiny-llama": Checkpoint(
        family="llama",
        tied=False,
        config=sizes(64, 176, 2, 4, 2, 384, 256) | {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "mlp_bias": False,
            "pretraining_tp": 1,
            "rms_norm_eps": 1e-05,
            "rope_theta": 500.0,
            "rope_scaling": {
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
                "rope_type": "llama3",
            },
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.45.0",
        },
    ),
    "tiny-llama-yarn": Checkpoint(
        family="llama",
        tied=True,
        config=sizes(48, 96, 2, 3, 1, 320, 128) | {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "attention_bias": True,
            "attention_dropout": 0.0,
            "head_dim": 16,
            "mlp_bias": True,
            "rms_norm_eps": 1e-06,
            "rope_parameters": {
                "rope_theta": 10000.0,
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 32,
                "beta_fast": 8.0,
                "beta_slow": 1.0,
            },
            "tie_word_embeddings": True,
            "dtype": "bfloat16",
            "transformers_version": "5.0.0",
        },
    ),
    "tiny-qwen2": Checkpoint(
        family="qwen2",
        tied=True,
        num_shards=2,
        config=sizes(64, 160, 3, 4, 2, 384, 256) | {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "attention_dropout": 0.0,
            "max_window_layers": 3,
            "rms_norm_eps": 1e-06,
            "rope_theta": 1000000.0,
            "sliding_window": 256,
            "use_sliding_window": False,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.43.1",
        },
    ),
    "tiny-qwen2-linear": Checkpoint(
        family="qwen2",
        tied=False,
        config=sizes(32, 80, 2, 2, 2, 320, 128) | {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "attention_dropout": 0.0,
            "layer_types": ["full_attention", "full_attention"],
            "max_window_layers": 2,
            "rms_norm_eps": 1e-06,
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 4.0},
            "sliding_window": None,
            "use_sliding_window": False,
            "tie_word_embeddings": False,
            "dtype": "bfloat16",
            "transformers_version": "5.0.0",
        },
    ),
    "tiny-qwen3": Checkpoint(
        family="qwen3",
        tied=False,
        num_padding_ids=4,
        config=sizes(64, 160, 2, 4, 2, 384, 256) | {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "head_dim": 32,
            "max_window_layers": 2,
            "rms_norm_eps": 1e-06,
            "rope_scaling": None,
            "rope_theta": 1000000.0,
            "sliding_window": None,
            "use_sliding_window": False,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.51.0",
        },
    ),
    # Layers 2 and 3 read a window of 32 tokens.
    "tiny-qwen3-window": Checkpoint(
        family="qwen3",
        tied=True,
        prompts=WINDOW_PROMPTS,
        config=sizes(48, 96, 4, 4, 2, 320, 256) | {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "head_dim": 16,
            "max_window_layers": 2,
            "rms_norm_eps": 1e-06,
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "sliding_window": 32,
            "use_sliding_window": True,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.51.0",
        },
    ),
}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def train_tokenizer(checkpoint):
    special = LLAMA3_SPECIAL if checkpoint.is_llama else CHATML_SPECIAL
    pattern = LLAMA3_PATTERN if checkpoint.is_llama else QWEN2_PATTERN
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=checkpoint.is_llama))
    if not checkpoint.is_llama:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    num_trained = checkpoint.num_ids - len(special) - checkpoint.num_padding_ids
    trainer = trainers.BpeTrainer(vocab_size=num_trained, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(TOKENIZER_CORPUS, trainer)
    if tokenizer.get_vocab_size() != num_trained:
        raise RuntimeError(f"the corpus gives {tokenizer.get_vocab_size()} tokens, not {num_trained}")
    tokenizer.add_special_tokens([tokenizers.AddedToken(text, special=True, normalized=False)
                                  for text in special])
    byte_level = processors.ByteLevel(trim_offsets=True)
    if checkpoint.is_llama:
        bos = special[0]
        tokenizer.post_processor = processors.Sequence([
            byte_level,
            processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1",
                                          special_tokens=[(bos, tokenizer.token_to_id(bos))]),
        ])
    else:
        tokenizer.post_processor = byte_level
    return tokenizer


def write_tokenizer(folder, checkpoint, tokenizer):
    special = LLAMA3_SPECIAL if checkpoint.is_llama else CHATML_SPECIAL
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(text)): {
                "content": text, "lstrip": False, "normalized": False, "rstrip": False,
                "single_word": False, "special": True,
            } for text in special
        },
        "bos_token": special[0] if checkpoint.is_llama else None,
        "chat_template": LLAMA3_TEMPLATE if checkpoint.is_llama else CHATML_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": special[-1],
        "model_max_length": checkpoint.config["max_position_embeddings"],
        "tokenizer_class": "PreTrainedTokenizerFast" if checkpoint.is_llama else "Qwen2Tokenizer",
    })


def write_configs(folder, checkpoint, tokenizer):
    if checkpoint.is_llama:
        bos = tokenizer.token_to_id("<|begin_of_text|>")
        ends = [tokenizer.token_to_id("<|end_of_text|>"), tokenizer.token_to_id("<|eot_id|>")]
    else:
        bos = tokenizer.token_to_id("<|endoftext|>")
        ends = [tokenizer.token_to_id("<|im_end|>"), bos]
    write_json(folder / "config.json", dict(sorted((checkpoint.config | {
        "bos_token_id": bos,
        "eos_token_id": ends[0],
    }).items())))
    write_json(folder / "generation_config.json", {
        "bos_token_id": bos,
        "do_sample": True,
        "eos_token_id": ends,
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.8,
        "transformers_version": checkpoint.config["transformers_version"],
    })


def random_weights(checkpoint, generator):
    """Names and shapes of the family's checkpoints, scaled so that attention is not uniform, the
    residual stream does not explode, a few channels are outliers, and logits have a std of 2 to 4."""
    config = checkpoint.config
    hidden, intermediate = config["hidden_size"], config["intermediate_size"]
    head_dim = config.get("head_dim", hidden // config["num_attention_heads"])
    q_size = config["num_attention_heads"] * head_dim
    kv_size = config["num_key_value_heads"] * head_dim
    qkv_bias = checkpoint.family == "qwen2" or config.get("attention_bias", False)
    output_bias = config.get("attention_bias", False)
    mlp_bias = config.get("mlp_bias", False)

    def normal(*shape, std):
        return (torch.randn(*shape, generator=generator) * std).to(torch.bfloat16)

    def norm_weight(size):
        weight = torch.exp(torch.randn(size, generator=generator) * 0.2)
        weight[torch.randint(size, (max(1, size // 32),), generator=generator)] *= 3.0
        return weight.to(torch.bfloat16)

    weights = {"model.embed_tokens.weight": normal(config["vocab_size"], hidden,
                                                   std=0.35 if checkpoint.tied else 1.0)}

    def linear(name, rows, columns, gain, bias):
        weights[name + ".weight"] = normal(rows, columns, std=gain / math.sqrt(columns))
        if bias:
            weights[name + ".bias"] = normal(rows, std=0.5)

    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        weights[prefix + "input_layernorm.weight"] = norm_weight(hidden)
        weights[prefix + "post_attention_layernorm.weight"] = norm_weight(hidden)
        linear(prefix + "self_attn.q_proj", q_size, hidden, 1.3, qkv_bias)
        linear(prefix + "self_attn.k_proj", kv_size, hidden, 1.3, qkv_bias)
        linear(prefix + "self_attn.v_proj", kv_size, hidden, 1.0, qkv_bias)
        linear(prefix + "self_attn.o_proj", hidden, q_size, 1.0, output_bias)
        if checkpoint.family == "qwen3":
            weights[prefix + "self_attn.q_norm.weight"] = norm_weight(head_dim)
            weights[prefix + "self_attn.k_norm.weight"] = norm_weight(head_dim)
        linear(prefix + "mlp.gate_proj", intermediate, hidden, 1.2, mlp_bias)
        linear(prefix + "mlp.up_proj", intermediate, hidden, 1.2, mlp_bias)
        linear(prefix + "mlp.down_proj", hidden, intermediate, 1.0, mlp_bias)
    weights["model.norm.weight"] = norm_weight(hidden)
    if not checkpoint.tied:
        weights["lm_head.weight"] = normal(config["vocab_size"], hidden, std=2.5 / math.sqrt(hidden))
    return weights


def save_safetensors(path, weights):
    safetensors.torch.save_file(weights, path, {"format": "pt"})
    path.chmod(0o644)


def write_weights(folder, checkpoint, weights):
    if checkpoint.num_shards == 1:
        save_safetensors(folder / "model.safetensors", weights)
        return
    names = list(weights)
    per_shard = math.ceil(len(names) / checkpoint.num_shards)
    weight_map = {}
    for shard in range(checkpoint.num_shards):
        file = f"model-{shard + 1:05d}-of-{checkpoint.num_shards:05d}.safetensors"
        part = {name: weights[name] for name in names[shard * per_shard:(shard + 1) * per_shard]}
        save_safetensors(folder / file, part)
        weight_map |= dict.fromkeys(part, file)
    write_json(folder / "model.safetensors.index.json", {
        "metadata": {"total_size": sum(w.numel() * w.element_size() for w in weights.values())},
        "weight_map": dict(sorted(weight_map.items())),
    })


def load(folder, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager").eval()
    if model.model.rotary_emb.inv_freq.dtype != torch.float32:
        raise RuntimeError("rotary frequencies are expected in fp32 in every run")
    return model


@torch.no_grad()
def all_logits(model, ids):
    return model(torch.tensor([ids])).logits[0].float()


def sample_continuation(model, prompt, count, generator):
    """Drawn at temperature 1, so that the continuation does not fall into a loop."""
    ids = list(prompt)
    for _ in range(count):
        probabilities = torch.softmax(all_logits(model, ids)[-1], dim=-1)
        ids.append(int(torch.multinomial(probabilities, 1, generator=generator)))
    return ids[len(prompt):]


def write_golden(folder, checkpoint, reference, rounded, generator):
    """The logits of `reference`, and how far those of `rounded`, the same in bf16, are from them."""
    prompts, rows = [], []
    for name, num_prompt, num_continuation in checkpoint.prompts:
        prompt = torch.randint(checkpoint.num_ids, (num_prompt,), generator=generator).tolist()
        continuation = sample_continuation(reference, prompt, num_continuation, generator)
        logits = all_logits(reference, prompt + continuation)
        error = (all_logits(rounded, prompt + continuation) - logits).abs()
        prompts.append({
            "name": name,
            "prompt_ids": prompt,
            "continuation_ids": continuation,
            "first_row": sum(len(block) for block in rows),
            "num_rows": len(logits),
            "bf16_max_error": [float(f"{e:.6g}") for e in error.amax(dim=1)],
            "bf16_rms_error": [float(f"{e:.6g}") for e in error.square().mean(dim=1).sqrt()],
        })
        rows.append(logits)

    table = torch.cat(rows)
    (folder / "golden.f32").write_bytes(table.numpy().astype("<f4").tobytes())
    (folder / "golden.json").write_text(dump_golden({
        "format": "lockstep-golden-logits-1",
        "generated_with": {"torch": torch.__version__, "transformers": transformers.__version__},
        "data_file": "golden.f32",
        "num_rows": len(table),
        "vocab_size": checkpoint.num_ids,
        "prompts": prompts,
    }))
    if table.std() < 1:
        raise RuntimeError(f"degenerate logits: std {table.std():.3f}")
    worst = max(max(p["bf16_max_error"]) for p in prompts)
    print(f"{folder.name}: logits std {table.std():.2f}, max {table.abs().max():.1f}, "
          f"largest bf16 error {worst:.3f}, "
          f"{sum(f.stat().st_size for f in folder.iterdir()):,} bytes")


def dump_golden(document):
    """JSON with one line for each number list."""
    lists = {}

    def hide(value):
        if isinstance(value, list) and value and not isinstance(value[0], dict):
            key = f"@{len(lists)}@"
            lists[f'"{key}"'] = json.dumps(value)
            return key
        if isinstance(value, list):
            return [hide(item) for item in value]
        if isinstance(value, dict):
            return {key: hide(item) for key, item in value.items()}
        return value

    text = json.dumps(hide(document), indent=2)
    for key, line in lists.items():
        text = text.replace(key, line)
    return text + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="all of them by default")
    names = parser.parse_args().names or list(CHECKPOINTS)
    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    for name in names:
        checkpoint = CHECKPOINTS[name]
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        folder = FOLDER / name
        folder.mkdir(exist_ok=True)
        tokenizer = train_tokenizer(checkpoint)
        write_tokenizer(folder, checkpoint, tokenizer)
        write_configs(folder, checkpoint, tokenizer)
        write_weights(folder, checkpoint, random_weights(checkpoint, generator))
        reference, rounded = load(folder, torch.float32), load(folder, torch.bfloat16)
        scaling = (checkpoint.config.get("rope_scaling") or checkpoint.config.get("rope_parameters") or {})
        if reference.model.rotary_emb.rope_type != scaling.get("rope_type", "default"):
            raise RuntimeError(f"transformers reads rope type {reference.model.rotary_emb.rope_type}")
        write_golden(folder, checkpoint, reference, rounded, generator)


if __name__ == "__main__":
    main()
