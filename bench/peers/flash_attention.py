"""FlashAttention-3, as vLLM ships it, on the cases of lockstep-attention-cuda-benchmark and in its form of output.

    flash_attention.py [PART OF A CASE'S NAME]

32 query heads, 8 KV heads, of 128 unless the name says otherwise; decode from pages of 16 tokens in random order, prefill from whole rows. Calls are timed in CUDA graphs; those of decode rotate
through caches that together exceed the second-level cache.
"""

import json
import sys

import torch
from vllm.vllm_flash_attn import flash_attn_varlen_func, get_scheduler_metadata

HEADS, KV_HEADS, HEAD_DIM, PAGE_TOKENS = 32, 8, 128, 16
ROTATION_BYTES = 200 << 20
DECODE_SHAPES = [(1, 512), (1, 2048), (1, 8192), (8, 512), (32, 512), (32, 2048), (128, 512), (128, 2048), (128, 8192)]
DECODE_CASES = {
    **{f"paged_decode:{batch}x{context}": [context] * batch for batch, context in DECODE_SHAPES},
    "paged_decode_ragged:128": [256 + i * 37 % 513 for i in range(128)],
}
# Name: (new tokens, tokens cached before them) of each sequence, head size.
PREFILL_CASES = {
    **{f"prefill:{n}": ([(n, 0)], HEAD_DIM) for n in (1024, 2048, 4096, 8192, 16384)},
    **{f"prefill_d{dim}:{n}": ([(n, 0)], dim) for dim in (64, 256) for n in (1024, 4096, 16384)},
    "prefill_cached:8192": ([(819, 7373)], HEAD_DIM),
    "prefill_uniform:32x512": ([(512, 0)] * 32, HEAD_DIM),
    "prefill_ragged:32": ([(8192, 0)] + [(16 * i + 9, 0) for i in range(1, 32)], HEAD_DIM),
}
CALLS = 20
REPLAYS = 7


def gaussian(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def int32(values):
    return torch.tensor(values, device="cuda", dtype=torch.int32)


def median_us(call):
    """call(i) enqueues call i of a graph; the median time of one over the replays."""
    call(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(CALLS):
            call(i)
    times = []
    for replay in range(REPLAYS + 2):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if replay >= 2:
            times.append(begin.elapsed_time(end) * 1e3 / CALLS)
    return sorted(times)[REPLAYS // 2]


def report(case, us, **more):
    print(json.dumps({"case": case, "unit": "us", "median": round(us, 2), **more}), flush=True)


def decode(case, contexts):
    batch, context = len(contexts), max(contexts)
    pages_of_row = -(-context // PAGE_TOKENS)
    num_pages = batch * pages_of_row
    kv_bytes = sum(contexts) * KV_HEADS * HEAD_DIM * 4
    num_sets = min(ROTATION_BYTES // kv_bytes + 1, CALLS)
    sets = [[gaussian(num_pages, PAGE_TOKENS, KV_HEADS, HEAD_DIM) for _ in range(2)] for _ in range(num_sets)]
    tables = torch.randperm(num_pages, device="cuda", dtype=torch.int32).view(batch, pages_of_row)
    query = gaussian(batch, HEADS, HEAD_DIM)
    first_rows = int32(list(range(batch + 1)))
    lengths = int32(contexts)
    schedule = get_scheduler_metadata(
        batch_size=batch, max_seqlen_q=1, max_seqlen_k=context, num_heads_q=HEADS, num_heads_kv=KV_HEADS,
        headdim=HEAD_DIM, cache_seqlens=lengths, qkv_dtype=torch.bfloat16, cu_seqlens_q=first_rows,
        page_size=PAGE_TOKENS, causal=True)

    def call(i):
        keys, values = sets[i % num_sets]
        flash_attn_varlen_func(query, keys, values, 1, first_rows, context, seqused_k=lengths, block_table=tables,
                               causal=True, fa_version=3, scheduler_metadata=schedule)

    us = median_us(call)
    report(case, us, tb_per_s=round(kv_bytes / us / 1e6, 2))


def starts(lengths):
    return int32([sum(lengths[:i]) for i in range(len(lengths) + 1)])


def prefill(case, sequences, dim):
    new = [tokens for tokens, _ in sequences]
    keys_of = [tokens + cached for tokens, cached in sequences]
    query = gaussian(sum(new), HEADS, dim)
    keys, values = gaussian(sum(keys_of), KV_HEADS, dim), gaussian(sum(keys_of), KV_HEADS, dim)
    first_rows, first_keys = starts(new), starts(keys_of)
    us = median_us(lambda _: flash_attn_varlen_func(query, keys, values, max(new), first_rows, max(keys_of),
                                                    cu_seqlens_k=first_keys, causal=True, fa_version=3))
    flops = sum(4 * tokens * (cached + (tokens + 1) / 2) * HEADS * dim for tokens, cached in sequences)
    report(case, us, tflops=round(flops / us / 1e6, 1))


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, contexts in DECODE_CASES.items():
        if wanted in name:
            decode(name, contexts)
    for name, (chunks, head_dim) in PREFILL_CASES.items():
        if wanted in name:
            prefill(name, chunks, head_dim)
