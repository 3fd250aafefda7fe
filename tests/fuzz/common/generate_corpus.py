#!/usr/bin/env python3
"""Writes the seed corpora of this folder's fuzz targets: corpus/{gguf,safetensors,model_config,
quantization_config}/.

Small files that reach every branch of the readers: valid ones of each kind, and valid ones with one
thing broken. Needs the standard library only:  python3 generate_corpus.py
"""

import json
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"

# GGUF value types.
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def scalar(kind, value):
    return text(value) if kind == STRING else struct.pack("<" + FORMATS[kind], value)


def entry(key, kind, value, element=None):
    if kind == ARRAY:
        encoded = struct.pack("<IQ", element, len(value)) + b"".join(scalar(element, item) for item in value)
    else:
        encoded = scalar(kind, value)
    return text(key) + struct.pack("<I", kind) + encoded


def tensor(name, dimensions, kind, offset):
    return text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset)


def gguf(entries, tensors=(), data=b"", version=3, alignment=32):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries) + b"".join(tensors)
    return head + b"\0" * (-len(head) % alignment) + data


def architecture(name):
    return [
        entry("general.architecture", STRING, name),
        entry(f"{name}.context_length", U32, 64),
        entry(f"{name}.embedding_length", U32, 8),
        entry(f"{name}.block_count", U32, 1),
        entry(f"{name}.feed_forward_length", U32, 16),
        entry(f"{name}.attention.head_count", U32, 2),
        entry(f"{name}.attention.head_count_kv", U32, 1),
        entry(f"{name}.attention.layer_norm_rms_epsilon", F32, 1e-5),
        entry(f"{name}.rope.freq_base", F32, 1e4),
        entry("tokenizer.ggml.tokens", ARRAY, ["<|im_end|>", "a", "b"], STRING),
        entry("tokenizer.ggml.token_type", ARRAY, [3, 1, 1], I32),
        entry("tokenizer.ggml.eos_token_id", U32, 0),
        entry("tokenizer.ggml.bos_token_id", U32, 1),
    ]


def gguf_seeds():
    kinds = [entry(f"scalar.{kind}", kind, 1) for kind in FORMATS]
    arrays = [entry(f"array.{kind}", ARRAY, [0, 1], kind) for kind in FORMATS]
    yarn = [
        entry("qwen2.rope.scaling.type", STRING, "yarn"),
        entry("qwen2.rope.scaling.factor", F32, 4.0),
        entry("qwen2.rope.scaling.original_context_length", U32, 16),
        entry("qwen2.rope.scaling.yarn_beta_fast", F32, 32.0),
        entry("qwen2.rope.scaling.yarn_ext_factor", F32, 1.0),
    ]
    sampling = [
        entry("general.sampling.temp", F32, 0.5),
        entry("general.sampling.top_k", I32, 40),
        entry("general.sampling.top_p", F32, 0.9),
        entry("tokenizer.ggml.eot_token_id", U32, 2),
    ]
    qwen3 = [entry("qwen3.attention.key_length", U32, 8), entry("qwen3.rope.dimension_count", U32, 8)]
    # One tensor of every type that has a known block: (number of elements, bytes).
    blocks = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
              10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 30: (1, 2)}
    tensors, data = [], b""
    for kind, (elements, size) in blocks.items():
        data += b"\0" * (-len(data) % 32)
        tensors.append(tensor(f"t{kind}", [elements], kind, len(data)))
        data += bytes(i % 251 for i in range(size))
    valid = gguf(architecture("llama"), [tensor("rope_freqs.weight", [2], 0, 0)], struct.pack("<2f", 1, 8))
    seeds = {
        "llama": valid,
        "llama_v2_output": gguf(architecture("llama"), [tensor("output.weight", [4, 2], 1, 0)], bytes(16), version=2),
        "qwen2_yarn": gguf(architecture("qwen2") + yarn),
        "qwen3_sampling": gguf(architecture("qwen3") + qwen3 + sampling),
        "kinds": gguf(kinds + arrays + [entry("s", STRING, "x"), entry("e", ARRAY, [], STRING)]),
        "types": gguf([], tensors, data),
        "alignment_8": gguf([entry("general.alignment", U32, 8)], [tensor("a", [1], 0, 0), tensor("b", [1], 0, 8)],
                            bytes(12), alignment=8),
        "nested_array": gguf([text("n") + struct.pack("<IIQIQ", ARRAY, ARRAY, 1, U8, 0)]),
        "twice": gguf([entry("a", U8, 1), entry("a", U8, 2)]),
        "overlap": gguf([], [tensor("a", [16], 0, 0), tensor("b", [8], 0, 32)], bytes(64)),
        "outside": gguf([], [tensor("a", [1 << 62, 2], 0, 0)], bytes(64)),
        "huge_counts": b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60),
        "huge_string": gguf([text("k") + struct.pack("<IQ", STRING, 1 << 62)]),
        "cut": valid[: len(valid) // 2],
        "empty": b"",
    }
    return seeds


def safetensors(header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def safetensors_seeds():
    def one(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    sizes = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
             "F8_E4M3": 1, "F8_E5M2": 1}
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, size in sizes.items():
        header[name] = one(name, [2], offset, offset + 2 * size)
        offset += 2 * size
    t = one("U8", [2], 0, 2)
    return {
        "dtypes": safetensors(header, bytes(offset)),
        "none": safetensors({}),
        "padded": safetensors(b'{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}    ', b"x"),
        "scalar_and_empty": safetensors({"s": one("F32", [], 0, 4), "e": one("F32", [3, 0], 4, 4)}, bytes(4)),
        "overlap": safetensors({"a": t, "b": one("U8", [2], 1, 3)}, bytes(3)),
        "hole": safetensors({"a": t, "b": one("U8", [1], 3, 4)}, bytes(4)),
        "outside": safetensors({"a": one("U8", [9], 0, 9)}, bytes(2)),
        "wrong_size": safetensors({"a": one("F32", [2], 0, 2)}, bytes(2)),
        "overflow": safetensors({"a": one("F64", [1 << 62, 1 << 62], 0, 0)}),
        "unknown_member": safetensors({"a": dict(t, x=1)}, bytes(2)),
        "twice": safetensors(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":1}'),
        "metadata": safetensors({"__metadata__": {"a": 1}}),
        "deep": safetensors(b'{"a":[[[[[[1]]]]]]}'),
        "bad_utf8": safetensors(b'{"\xff":1}'),
        "long_length": struct.pack("<Q", 1 << 40) + b"{}",
        "short": b"1234",
    }


def model_config_seeds():
    def config(name, kind, **changes):
        return dict({"architectures": [name], "model_type": kind, "hidden_size": 8, "intermediate_size": 16,
                     "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32,
                     "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu"}, **changes)

    def llama(**changes):
        return config("LlamaForCausalLM", "llama", **changes)

    llama3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 16, "rope_type": "llama3"}
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 32, "beta_slow": 1,
            "mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 1.1, "truncate": False}
    generation = {"eos_token_id": [3, 2], "do_sample": True, "temperature": 0.7, "top_p": 0.9, "top_k": 50,
                  "min_p": 0.1, "repetition_penalty": 1.1, "num_beams": 1}
    pairs = {
        "llama": (llama(rope_theta=1e4, eos_token_id=2, bos_token_id=1, tie_word_embeddings=True), generation),
        "llama3": (llama(rope_theta=5e5, rope_scaling=llama3, attention_bias=True, mlp_bias=True), {}),
        "llama3_v5": (llama(rope_parameters=dict(llama3, rope_theta=5e5), dtype="bfloat16"), None),
        "linear": (llama(rope_scaling={"type": "linear", "factor": 2}, head_dim=None), {"do_sample": False}),
        "qwen2": (config("Qwen2ForCausalLM", "qwen2", use_sliding_window=False, sliding_window=32, max_window_layers=1,
                         rope_scaling=yarn, layer_types=["full_attention"] * 2), generation),
        "qwen3": (config("Qwen3ForCausalLM", "qwen3", head_dim=8, attention_bias=False,
                         rope_parameters={"rope_type": "default", "rope_theta": 1e6}), {"eos_token_id": 5}),
        "windows": (config("Qwen3ForCausalLM", "qwen3", head_dim=8, use_sliding_window=True, sliding_window=16,
                           max_window_layers=1), None),
        "window_types": (config("Qwen2ForCausalLM", "qwen2", use_sliding_window=True, sliding_window=16,
                                layer_types=["sliding_attention", "full_attention"]), None),
        "unknown_key": (llama(some_key={"a": [1, 2]}), None),
        "unknown_architecture": (config("OtherForCausalLM", "other"), None),
        "dynamic": (llama(rope_scaling={"type": "dynamic", "factor": 2}), None),
        "sliding": (llama(layer_types=["sliding_attention"] * 2), None),
        "beams": (llama(), {"num_beams": 4}),
        "bad_values": (llama(num_key_value_heads=3, head_dim=3, rms_norm_eps=-1, eos_token_id=[99]), {"top_p": 7}),
    }
    seeds = {}
    for name, (first, second) in pairs.items():
        seeds[name] = json.dumps(first).encode() + (b"" if second is None else b"\0" + json.dumps(second).encode())
    seeds["twice"] = b'{"hidden_size":1,"hidden_size":2}'
    seeds["deep"] = b"[" * 100
    seeds["broken"] = b'{"architectures": ["Llama'
    return seeds


def quantization_config_seeds():
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
    activations = {"num_bits": 8, "type": "float", "dynamic": True, "strategy": "token"}
    groups = {"a": {"targets": ["Linear"], "weights": weights},
              "b": {"targets": ["re:.*down", "x.y"], "format": "float-quantized", "input_activations": activations,
                    "weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}}}
    configs = {
        "compressed": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups,
                       "ignore": ["lm_head", "re:(a|b)+$"], "kv_cache_scheme": {"num_bits": 8, "type": "float"}},
        "gptq": {"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": True, "lm_head": True,
                 "dynamic": {"-:.*up": {}, "+:.*down": {"bits": 8, "group_size": 32}},
                 "modules_in_block_to_quantize": [["mlp.up_proj"]]},
        "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True,
                "modules_to_not_convert": ["visual"]},
        "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic",
                "modules_to_not_convert": ["model.layers.*.gate"]},
        "modelopt": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*gate*"], "group_size": 16,
                     "kv_cache_quant_algo": "FP8"},
        "mxfp4": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
        "unknown_key": {"quant_method": "fp8", "some_key": [1]},
        "unknown_method": {"quant_method": "other"},
    }
    seeds = {name: json.dumps({"quantization_config": value}).encode() for name, value in configs.items()}
    seeds["named"] = seeds["compressed"] + b"\0model.layers.1.mlp.down_proj"
    seeds["older"] = json.dumps({"compression_config": configs["compressed"]}).encode()
    return seeds


def main():
    for target, seeds in (("gguf", gguf_seeds()), ("safetensors", safetensors_seeds()),
                          ("model_config", model_config_seeds()),
                          ("quantization_config", quantization_config_seeds())):
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
