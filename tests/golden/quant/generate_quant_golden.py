#!/usr/bin/env python3
"""Writes quant.safetensors: blocks of every GGUF type that we dequantise, and their values by the
Python package `gguf`, which follows ggml's reference formulas.

For a type T: "T.blocks" (U8) and "T.values" (F32). The blocks are
  - quantised Gaussian data with outliers, where the package can quantise to T;
  - random bits with scales of ordinary size;
  - edge cases: all bits set, all clear, subnormal, largest and negative scales.

Needs numpy, gguf and safetensors:  python3 generate_quant_golden.py
"""

import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from safetensors.numpy import save_file

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
# Byte offsets of the fp16 fields in a block.
HALF_FIELDS = {
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
EDGE_HALVES = [0x0001, 0x83FF, 0x7BFF, 0xFBFF, 0x0000, 0x8000]


def quantised_blocks(rng, qtype, block_elements):
    data = rng.standard_normal((1, 4 * max(block_elements, 8))).astype(np.float32)
    data[0, ::29] *= 40.0
    try:
        return quants.quantize(data, qtype).view(np.uint8).ravel()
    except NotImplementedError:
        return np.empty(0, np.uint8)


def random_blocks(rng, name, block_bytes, num_blocks):
    blocks = rng.integers(0, 256, (num_blocks, block_bytes), dtype=np.uint8)
    for field in HALF_FIELDS.get(name, []):
        halves = rng.standard_normal(num_blocks).astype(np.float16)
        blocks[:, field : field + 2] = halves.view(np.uint8).reshape(num_blocks, 2)
    return blocks.ravel()


def edge_blocks(name, block_bytes):
    blocks = []
    for index, half in enumerate(EDGE_HALVES):
        block = np.full(block_bytes, 0xFF if index % 2 == 0 else 0x00, np.uint8)
        for field in HALF_FIELDS[name]:
            block[field : field + 2] = np.frombuffer(np.uint16(half).tobytes(), np.uint8)
        blocks.append(block)
    return np.concatenate(blocks)


def main():
    rng = np.random.default_rng(20240607)
    tensors = {}
    for name in TYPES:
        qtype = GGMLQuantizationType[name]
        block_elements, block_bytes = GGML_QUANT_SIZES[qtype]
        blocks = [quantised_blocks(rng, qtype, block_elements)]
        if name in HALF_FIELDS:
            blocks.append(random_blocks(rng, name, block_bytes, 3))
            blocks.append(edge_blocks(name, block_bytes))
        packed = np.concatenate(blocks)
        values = quants.dequantize(packed.copy(), qtype).astype(np.float32).ravel()
        assert np.isfinite(values).all(), name
        tensors[f"{name}.blocks"] = packed
        tensors[f"{name}.values"] = values
    save_file(tensors, pathlib.Path(__file__).with_name("quant.safetensors"))


if __name__ == "__main__":
    main()
