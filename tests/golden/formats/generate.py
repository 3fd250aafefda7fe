#!/usr/bin/env python3
"""Writes decode.safetensors and quantize.safetensors: small random weights in every published layout
that kernels/formats reads, and what independent decoders and quantisers make of them.

decode.safetensors, for a case C: the tensors of the layout, as "C.weight_packed", and "C.values", the
weights in bf16. Integer codes take their scales in bf16 (docs/formats.md), so the decoders get bf16
scales. An integer code of the value 0 is +0 here, whatever the sign of its scale; decoders make -0 of
some. tests/kernels/formats has a table of the cases' schemes.

quantize.safetensors, for a case C: "C.weight", and "C.codes", "C.scales" and "C.zeros" as
compressed-tensors computes them from minima and maxima.

Needs: pip install torch numpy safetensors gguf compressed-tensors==0.20.0 transformers==5.24.0
       pip install --no-deps auto-gptq==0.7.1 autoawq==0.2.9
The last two need a GPU to be imported as packages, so single files of theirs are loaded.
"""

import importlib.util
import pathlib
import unittest.mock

import gguf
import numpy as np
import torch
from compressed_tensors.compressors.mxfp4.base import MXFP4PackedCompressor
from compressed_tensors.compressors.naive_quantized.base import NaiveQuantizationCompressor
from compressed_tensors.compressors.nvfp4.base import NVFP4PackedCompressor
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import quantize
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

FOLDER = pathlib.Path(__file__).parent
BF16 = torch.bfloat16


def load_file_of(package, path):
    """A module of a package that is not imported itself."""
    folder = pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), folder / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


awq_packing = load_file_of("awq", "utils/packing_utils.py")
auto_gptq = load_file_of("auto_gptq", "nn_modules/qlinear/qlinear_cuda.py")


class Cases:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.tensors = {}

    def integers(self, low, high, shape, dtype=torch.int32):
        return torch.randint(low, high, shape, generator=self.generator, dtype=torch.int64).to(dtype)

    def words(self, shape):
        return self.integers(-(2**31), 2**31, shape)

    def scales(self, shape, dtype):
        """Of ordinary size, some negative, and the edge cases: zeros and the smallest ones."""
        scales = torch.randn(shape, generator=self.generator) * 0.05
        flat = scales.view(-1)
        edges = torch.tensor([0.0, -0.0, 2.0**-24, 2.0**-14, 1.0, 0.1, 1000.0])
        count = min(len(edges), flat.numel() // 2)
        flat[torch.randperm(flat.numel(), generator=self.generator)[:count]] = edges[:count]
        return scales.to(dtype)

    def e4m3(self, shape):
        """Every code but the two NaNs."""
        codes = self.integers(0, 254, shape, torch.uint8)
        codes = torch.where(codes >= 0x7F, codes + 1, codes)
        return codes.view(torch.float8_e4m3fn)

    def add(self, case, tensors, values):
        if not case.startswith(("fp8", "nvfp4", "mxfp4")):
            values = values + 0.0  # -0 + 0 is +0
        assert values.dtype == BF16 and torch.isfinite(values.float()).all(), case
        for name, tensor in {**tensors, "values": values}.items():
            self.tensors[f"{case}.{name}"] = tensor.contiguous().clone()


def scheme_of(**arguments):
    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments))


def scale_shape(n, k, strategy, group=None, block=None):
    return {
        "tensor": [1],
        "channel": [n, 1],
        "group": [n, k // group if group else 0],
        "block": [-(-n // block[0]), -(-k // block[1])] if block else [],
    }[strategy]


def decompress(compressor, tensors, scheme, scale_dtype):
    """compressed-tensors computes in the dtype of the scales."""
    state = {**tensors, "weight_scale": tensors["weight_scale"].to(scale_dtype)}
    return compressor.decompress(state, scheme)["weight"].to(BF16)


def add_pack_quantized(cases, case, n, k, bits, strategy, group, symmetric, scale_dtype):
    scheme = scheme_of(num_bits=bits, type="int", symmetric=symmetric, strategy=strategy, group_size=group)
    half = 1 << (bits - 1)
    codes = cases.integers(-half, half, (n, k), torch.int8)
    shape = scale_shape(n, k, strategy, group)
    tensors = {
        "weight_packed": pack_to_int32(codes, bits),
        "weight_scale": cases.scales(shape, scale_dtype),
        "weight_shape": torch.tensor([n, k]),
    }
    if not symmetric:
        zeros = cases.integers(-half, half, shape, torch.int8)
        tensors["weight_zero_point"] = pack_to_int32(zeros, bits, packed_dim=0)
    cases.add(case, tensors, decompress(PackedQuantizationCompressor, tensors, scheme, BF16))


def add_pack_quantized_ordered(cases, case, n, k, group):
    """weight_g_idx, which newer versions of compressed-tensors no longer read."""
    codes = cases.integers(-8, 8, (n, k), torch.int8)
    zeros = cases.integers(-8, 8, (n, k // group), torch.int8)
    scale = cases.scales((n, k // group), torch.float16)
    g_idx = (torch.randperm(k, generator=cases.generator) // group).to(torch.int32)
    tensors = {
        "weight_packed": pack_to_int32(codes, 4),
        "weight_scale": scale,
        "weight_shape": torch.tensor([n, k]),
        "weight_zero_point": pack_to_int32(zeros, 4, packed_dim=0),
        "weight_g_idx": g_idx,
    }
    columns = g_idx.long()
    cases.add(case, tensors, (codes - zeros[:, columns]).to(BF16) * scale.to(BF16)[:, columns])


def add_int_quantized(cases, case, n, k, strategy, group, symmetric):
    scheme = scheme_of(num_bits=8, type="int", symmetric=symmetric, strategy=strategy, group_size=group)
    shape = scale_shape(n, k, strategy, group)
    tensors = {
        "weight": cases.integers(-128, 128, (n, k), torch.int8),
        "weight_scale": cases.scales(shape, BF16),
    }
    if not symmetric:
        tensors["weight_zero_point"] = cases.integers(-128, 128, shape, torch.int8)
    cases.add(case, tensors, decompress(NaiveQuantizationCompressor, tensors, scheme, BF16))


def add_float_quantized(cases, case, n, k, strategy, scale_dtype, group=None, block=None,
                        scale_name="weight_scale"):
    scheme = scheme_of(num_bits=8, type="float", strategy=strategy, group_size=group, block_structure=block)
    tensors = {
        "weight": cases.e4m3((n, k)),
        "weight_scale": cases.scales(scale_shape(n, k, strategy, group, block), scale_dtype),
    }
    values = decompress(NaiveQuantizationCompressor, tensors, scheme, torch.float32)
    tensors[scale_name] = tensors.pop("weight_scale")
    cases.add(case, tensors, values)


def add_awq(cases, case, n, k, group):
    rows = k if group == -1 else group
    qweight, qzeros = cases.words((k, n // 8)), cases.words((k // rows, n // 8))
    scales = cases.scales((k // rows, n), torch.float16)
    values = awq_packing.dequantize_gemm(qweight, qzeros, scales.to(BF16), 4, rows)
    cases.add(case, {"qweight": qweight, "qzeros": qzeros, "scales": scales}, values.t())


def pack_along_rows(codes, bits):
    per_word = 32 // bits
    words = codes.long().reshape(codes.shape[0], -1, per_word) << (bits * torch.arange(per_word))
    words = words.sum(-1) & 0xFFFFFFFF
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def add_gptq(cases, case, n, k, bits, group, ordered):
    """The same weights twice: version 1 and, as case + "_v2", version 2 of the format."""
    rows = k if group == -1 else group
    groups = -(-k // rows)
    layer = auto_gptq.QuantLinear(bits, group, k, n, bias=False, weight_dtype=BF16)
    zeros = cases.integers(1, 2**bits, (groups, n))  # version 1 has no room for 0
    scales = cases.scales((groups, n), torch.float16)
    g_idx = torch.arange(k) // rows
    if ordered:
        g_idx = g_idx[torch.randperm(k, generator=cases.generator)]
    layer.qweight = cases.words((k * bits // 32, n))
    layer.qzeros = pack_along_rows(zeros - 1, bits)
    layer.scales = scales.to(BF16)
    layer.g_idx = g_idx.to(torch.int32)
    # A product with the identity would lose the signs of zeros.
    with unittest.mock.patch.object(torch, "matmul", side_effect=torch.matmul) as product:
        layer(torch.eye(k, dtype=BF16))
    values = product.call_args.args[1].t()
    tensors = {"qweight": layer.qweight, "scales": scales, "g_idx": layer.g_idx}
    cases.add(case, {**tensors, "qzeros": layer.qzeros}, values)
    cases.add(case + "_v2", {**tensors, "qzeros": pack_along_rows(zeros, bits)}, values)


def add_q8_0(cases, case, n, k):
    blocks = cases.integers(0, 256, (n * k // 32, 34), torch.uint8).numpy()
    halves = cases.scales((blocks.shape[0],), torch.float16).numpy()
    blocks[:, :2] = halves.view(np.uint8).reshape(-1, 2)
    blocks[0, 2:] = 0x80  # the smallest code
    values = gguf.quants.dequantize(blocks.reshape(n, -1).copy(), gguf.GGMLQuantizationType.Q8_0)
    cases.add(case, {"blocks": torch.from_numpy(blocks.ravel().copy())},
              torch.from_numpy(values).reshape(n, k).to(BF16))


def add_nvfp4(cases, case, n, k):
    scheme = scheme_of(num_bits=4, type="float", strategy="tensor_group", group_size=16,
                       scale_dtype=torch.float8_e4m3fn)
    tensors = {
        "weight_packed": cases.integers(0, 256, (n, k // 2), torch.uint8),
        "weight_scale": cases.e4m3((n, k // 16)),
        "weight_global_scale": torch.tensor([2688.0 / 0.37]),
    }
    values = NVFP4PackedCompressor.decompress(dict(tensors), scheme)["weight"]
    cases.add(case, tensors, values)
    # ModelOpt multiplies. The codes' values are those of a scale of 1.
    ones = {**tensors, "weight_scale": torch.ones(n, k // 16).to(torch.float8_e4m3fn),
            "weight_global_scale": torch.ones(1)}
    codes = NVFP4PackedCompressor.decompress(ones, scheme)["weight"].float()
    global_scale = torch.tensor(0.37 / 2688.0)
    scales = (tensors["weight_scale"].float() * global_scale).repeat_interleave(16, dim=1)
    cases.add(case + "_modelopt", {"weight": tensors["weight_packed"], "weight_scale": tensors["weight_scale"],
                                   "weight_scale_2": global_scale}, (codes * scales).to(BF16))


def add_mxfp4(cases, case, n, k):
    scheme = scheme_of(num_bits=4, type="float", strategy="group", group_size=32)
    tensors = {
        "weight_packed": cases.integers(0, 256, (n, k // 2), torch.uint8),
        "weight_scale": cases.integers(100, 140, (n, k // 32), torch.uint8),
    }
    cases.add(case, tensors, MXFP4PackedCompressor.decompress(dict(tensors), scheme)["weight"].to(BF16))


def add_mxfp4_experts(cases, case, experts, n, k):
    blocks = cases.integers(0, 256, (experts, n, k // 32, 16), torch.uint8)
    scales = cases.integers(100, 140, (experts, n, k // 32), torch.uint8)
    values = convert_moe_packed_tensors(blocks, scales)  # [experts, k, n]
    cases.add(case, {"blocks": blocks, "scales": scales}, values.transpose(1, 2))


def add_quantized(cases, case, n, k, dtype, **arguments):
    args = QuantizationArgs(**arguments)
    weight = torch.randn((n, k), generator=cases.generator).to(dtype)
    weight[0] = 0  # a scale of 0
    weight[1, ::3] *= 100
    weight[2] = weight[2].abs()
    weight[3] = -weight[3].abs()
    weight[4, :8] = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0**-40, 7.5]).to(dtype)
    weight[5] *= 2.0**-60
    if args.strategy == "block":
        rows, columns = args.block_structure
        padded = torch.nn.functional.pad(weight, (0, -k % columns, 0, -n % rows))
        grouped = padded.reshape(padded.shape[0] // rows, rows, -1, columns).transpose(1, 2).flatten(-2)
    elif args.strategy == "tensor":
        grouped = weight.reshape(1, -1)
    else:
        grouped = weight.reshape(n, -1, args.group_size if args.strategy == "group" else k)
    scales, zeros = calculate_qparams(grouped.amin(-1), grouped.amax(-1), args)
    codes = quantize(weight, scales, zeros, args)
    if args.type == "float":
        codes = codes.to(torch.float8_e4m3fn).view(torch.uint8)
    else:
        half = 1 << (args.num_bits - 1)
        codes = (codes.float() + half).to(torch.uint8)
        cases.tensors[f"{case}.zeros"] = (zeros.float() + half).to(torch.uint8).contiguous()
    cases.tensors[f"{case}.weight"] = weight
    cases.tensors[f"{case}.codes"] = codes.contiguous()
    cases.tensors[f"{case}.scales"] = scales.float().contiguous()


def write_decode():
    cases = Cases(20240608)
    add_pack_quantized(cases, "w4_g32_sym", 24, 128, 4, "group", 32, True, torch.float16)
    add_pack_quantized(cases, "w4_g64_asym", 24, 128, 4, "group", 64, False, torch.float16)
    add_pack_quantized(cases, "w4_g128_sym", 16, 256, 4, "group", 128, True, BF16)
    add_pack_quantized(cases, "w4_channel_asym", 13, 100, 4, "channel", None, False, torch.float32)
    add_pack_quantized(cases, "w4_tensor_sym", 9, 33, 4, "tensor", None, True, BF16)
    add_pack_quantized(cases, "w8_g32_asym", 10, 96, 8, "group", 32, False, torch.float16)
    add_pack_quantized(cases, "w8_channel_sym", 16, 50, 8, "channel", None, True, BF16)
    add_pack_quantized_ordered(cases, "w4_ordered", 12, 128, 32)
    add_int_quantized(cases, "int8_channel_sym", 16, 40, "channel", None, True)
    add_int_quantized(cases, "int8_g32_asym", 16, 96, "group", 32, False)
    add_float_quantized(cases, "fp8_channel", 16, 72, "channel", BF16)
    add_float_quantized(cases, "fp8_tensor", 16, 40, "tensor", torch.float32)
    add_float_quantized(cases, "fp8_g32", 8, 64, "group", torch.float32, group=32)
    add_float_quantized(cases, "fp8_block", 40, 72, "block", torch.float32, block=[16, 32],
                        scale_name="weight_scale_inv")
    add_float_quantized(cases, "fp8_block_bf16", 130, 140, "block", BF16, block=[128, 128],
                        scale_name="weight_scale_inv")
    add_awq(cases, "awq_g32", 24, 128, 32)
    add_awq(cases, "awq_channel", 8, 40, -1)
    add_gptq(cases, "gptq_g32", 24, 128, 4, 32, False)
    add_gptq(cases, "gptq_ordered", 24, 128, 4, 32, True)
    add_gptq(cases, "gptq_channel", 8, 64, 4, -1, False)
    add_gptq(cases, "gptq_int8", 12, 64, 8, 32, True)
    add_q8_0(cases, "q8_0", 12, 96)
    add_nvfp4(cases, "nvfp4", 12, 64)
    add_mxfp4(cases, "mxfp4", 12, 96)
    add_mxfp4_experts(cases, "mxfp4_experts", 3, 8, 64)
    save_file(cases.tensors, FOLDER / "decode.safetensors")


def write_quantize():
    cases = Cases(20240609)
    f32 = torch.float32
    for name, dtype in (("bf16", BF16), ("f32", f32)):
        add_quantized(cases, f"w4_g32_sym_{name}", 16, 128, dtype, num_bits=4, strategy="group", group_size=32)
        add_quantized(cases, f"w4_g32_asym_{name}", 16, 128, dtype, num_bits=4, strategy="group",
                      group_size=32, symmetric=False)
        add_quantized(cases, f"w8_channel_sym_{name}", 16, 100, dtype, num_bits=8, strategy="channel")
        add_quantized(cases, f"w8_channel_asym_{name}", 16, 100, dtype, num_bits=8, strategy="channel",
                      symmetric=False)
        add_quantized(cases, f"fp8_channel_{name}", 16, 100, dtype, type="float", strategy="channel")
        add_quantized(cases, f"fp8_tensor_{name}", 16, 100, dtype, type="float", strategy="tensor")
        add_quantized(cases, f"fp8_block_{name}", 40, 72, dtype, type="float", strategy="block",
                      block_structure=[16, 32])
    add_quantized(cases, "w4_g32_asym_f32_scales_bf16", 16, 128, f32, num_bits=4, strategy="group",
                  group_size=32, symmetric=False, scale_dtype=BF16)
    save_file(cases.tensors, FOLDER / "quantize.safetensors")


if __name__ == "__main__":
    write_decode()
    write_quantize()
