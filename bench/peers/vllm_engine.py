"""vLLM inside its own process, on the cases of lockstep-engine-benchmark and in its form of output.

    vllm_engine.py [--tensor-parallel N] [--kv-dtype fp8] MODEL_FOLDER decode:1x512 prefill:1x2048 scenarios

Random weights, random prompts, temperature 0, no prefix cache, full CUDA graphs. To be run with the environment of
vllm_environment.py, as `beside` does; VLLM_BATCH_INVARIANT=1 turns on its own batch-invariant mode.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import time

REPEATS = 3
MAX_TOKENS = 16384
SCENARIOS = {  # as in cli/bench/plan/workload.cc: lengths of the prompts, output tokens of each
    "decode_heavy_b32": ([64] * 32, 256),
    "large_batch_short_b128": ([48] * 128, 64),
    "balanced_b32": ([256] * 32, 128),
    "prefill_heavy_b16": ([1024] * 16, 16),
    "long_prefill_b4": ([2048] * 4, 8),
    "mixed_prefill_b32": ([32, 64, 96, 128, 192, 256, 384, 512] * 4, 64),
    "long_decode_b32": ([1024] * 32, 256),
}


class Engine:
    def __init__(self, model, tensor_parallel, kv_dtype):
        import vllm

        self.sampling = vllm.SamplingParams
        self.random = random.Random(0)
        config = json.loads((pathlib.Path(model) / "config.json").read_text())
        self.max_token = min(50000, config["vocab_size"])
        max_context = min(MAX_TOKENS, config.get("max_position_embeddings") or config["n_positions"])
        self.llm = vllm.LLM(
            model=model, load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", max_model_len=max_context,
            max_num_seqs=256, max_num_batched_tokens=MAX_TOKENS, gpu_memory_utilization=0.88,
            enable_prefix_caching=False, tensor_parallel_size=tensor_parallel, kv_cache_dtype=kv_dtype,
            compilation_config={"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64, 128, 256]})

    def seconds(self, lengths, num_output_tokens):
        prompts = [{"prompt_token_ids": [self.random.randrange(1000, self.max_token) for _ in range(length)]}
                   for length in lengths]
        sampling = self.sampling(temperature=0, max_tokens=num_output_tokens, min_tokens=num_output_tokens,
                                 ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        outputs = self.llm.generate(prompts, sampling, use_tqdm=False)
        seconds = time.perf_counter() - start
        for output in outputs:
            if len(output.outputs[0].token_ids) != num_output_tokens:
                raise RuntimeError("a request did not get all its tokens")
        return seconds


def report(case, unit, values):
    print(json.dumps({"case": case, "unit": unit, "median": round(statistics.median(values), 4),
                      "values": [round(value, 4) for value in values]}), flush=True)


def run_case(engine, case):
    if case == "scenarios" or case in SCENARIOS:
        for name in SCENARIOS if case == "scenarios" else [case]:
            lengths, num_output_tokens = SCENARIOS[name]
            engine.seconds(lengths, num_output_tokens)
            report(name, "s", [engine.seconds(lengths, num_output_tokens) for _ in range(REPEATS)])
        return
    kind, _, size = case.partition(":")
    batch, context = (int(number) for number in size.split("x"))
    lengths = [context] * batch
    if kind == "prefill":
        engine.seconds(lengths, 1)
        report(case, "ms", [1e3 * engine.seconds(lengths, 1) for _ in range(REPEATS)])
    elif kind == "decode":
        engine.seconds(lengths, 16)
        values = []
        for _ in range(REPEATS):
            less = engine.seconds(lengths, 16)
            values.append((engine.seconds(lengths, 144) - less) / 128 * 1e3)
        report(case, "ms/step", values)
    else:
        sys.exit(f"case {case!r}: expected decode:BxC, prefill:BxC, scenarios or the name of one")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensor-parallel", type=int, default=1)
    parser.add_argument("--kv-dtype", default="auto", choices=["auto", "fp8"])
    parser.add_argument("model")
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    engine = Engine(options.model, options.tensor_parallel, options.kv_dtype)
    for case in options.cases:
        run_case(engine, case)


if __name__ == "__main__":
    main()
