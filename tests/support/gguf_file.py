"""A GGUF file of a small Llama, for tests that need one."""

import json
import struct

STRING, ARRAY, UINT32, INT32, FLOAT32, BF16 = 8, 9, 4, 5, 6, 30
NORMAL, CONTROL = 1, 3
ALIGNMENT = 32
TENSORS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER_TENSORS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
                 "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
                 "mlp.down_proj": "ffn_down"}


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, data):
    return string(key) + struct.pack("<I", kind) + data


def strings(key, values):
    return entry(key, ARRAY, struct.pack("<IQ", STRING, len(values)) + b"".join(map(string, values)))


def tensor_name(name):
    name, _, suffix = name.rpartition(".")
    if name in TENSORS:
        return f"{TENSORS[name]}.{suffix}"
    _, _, layer, part = name.split(".", 3)
    return f"blk.{layer}.{LAYER_TENSORS[part]}.{suffix}"


def metadata_of(folder):
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids = {**tokenizer["model"]["vocab"], **special}
    tokens = [f"[PAD{i}]" for i in range(config["vocab_size"])]
    for token, number in ids.items():
        tokens[number] = token
    types = [CONTROL if token in special else NORMAL for token in tokens]
    numbers = {"llama.context_length": config["max_position_embeddings"], "llama.embedding_length": config["hidden_size"],
               "llama.block_count": config["num_hidden_layers"], "llama.feed_forward_length": config["intermediate_size"],
               "llama.attention.head_count": config["num_attention_heads"], "llama.attention.head_count_kv": config["num_key_value_heads"],
               "tokenizer.ggml.bos_token_id": config["bos_token_id"], "tokenizer.ggml.eos_token_id": config["eos_token_id"]}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    return [entry("general.architecture", STRING, string("llama")),
            *(entry(key, UINT32, struct.pack("<I", number)) for key, number in numbers.items()),
            entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, struct.pack("<f", config["rms_norm_eps"])),
            entry("llama.rope.freq_base", FLOAT32, struct.pack("<f", config["rope_theta"])),
            entry("tokenizer.ggml.model", STRING, string("gpt2")), entry("tokenizer.ggml.pre", STRING, string("llama-bpe")),
            strings("tokenizer.ggml.tokens", tokens), strings("tokenizer.ggml.merges", merges),
            entry("tokenizer.ggml.token_type", ARRAY, struct.pack("<IQ", INT32, len(types)) + struct.pack(f"<{len(types)}i", *types))]


def write_gguf(folder, path):
    """Writes the Llama of a Hugging Face folder with weights in BF16 as a GGUF file. Positions are neither scaled nor interleaved, so its
    answers are not those of the folder."""
    checkpoint = (folder / "model.safetensors").read_bytes()
    header_bytes, = struct.unpack_from("<Q", checkpoint)
    header = json.loads(checkpoint[8:8 + header_bytes])
    header.pop("__metadata__", None)
    entries, data = b"", b""
    for name, tensor in header.items():
        assert tensor["dtype"] == "BF16", f"{name} is {tensor['dtype']}"
        begin, end = (8 + header_bytes + offset for offset in tensor["data_offsets"])
        shape = tensor["shape"][::-1]
        entries += string(tensor_name(name)) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, BF16, len(data))
        data += checkpoint[begin:end] + bytes(-(end - begin) % ALIGNMENT)
    metadata = metadata_of(folder)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(header), len(metadata)) + b"".join(metadata) + entries
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)
