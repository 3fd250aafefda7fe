#!/usr/bin/env python3
"""Decode and prefill speed of lockstep-model-benchmark and of llama.cpp, on the same file and cores.

    python3 bench/kernels/llama_cpp_compare.py --model FILE.gguf --benchmark build/release/bin/lockstep-model-benchmark

Needs the Python package llama-cpp-python. The two run alternately, so that a slower phase of the
machine meets both; the medians over all rounds and their ratios are printed.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

import llama_cpp


def measure_lockstep(arguments, batch):
    output = subprocess.run(
        [arguments.benchmark, f"--model={arguments.model}", f"--context={arguments.context}",
         f"--decode_steps={arguments.decode_steps}", f"--batch={batch}",
         f"--threads={arguments.threads}", "--repetitions=1"],
        check=True, capture_output=True, text=True).stdout
    result = json.loads(output)
    return result["prefill_tokens_per_s"], result["decode_tokens_per_s"]


def measure_llama_cpp(model, arguments):
    vocab_size = model.n_vocab()
    prompt = [(i * 7919 + 13) % vocab_size for i in range(arguments.context)]
    model.reset()
    start = time.perf_counter()
    model.eval(prompt)
    prefill_s = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(arguments.decode_steps):
        logits = llama_cpp.llama_get_logits_ith(model.ctx, -1)
        model.eval([max(range(0, vocab_size, 997), key=lambda i: logits[i])])
    decode_s = time.perf_counter() - start
    return arguments.context / prefill_s, arguments.decode_steps / decode_s


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--benchmark", required=True, help="path of lockstep-model-benchmark")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--decode-steps", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    model = llama_cpp.Llama(
        model_path=arguments.model, n_ctx=arguments.context + arguments.decode_steps + 16,
        n_batch=arguments.context, n_ubatch=min(arguments.context, 512),
        n_threads=arguments.threads, n_threads_batch=arguments.threads, verbose=False)
    measure_llama_cpp(model, arguments)  # warms up

    ours, batch_8, theirs = [], [], []
    for _ in range(arguments.rounds):
        ours.append(measure_lockstep(arguments, 1))
        theirs.append(measure_llama_cpp(model, arguments))
        batch_8.append(measure_lockstep(arguments, 8))
    prefill, decode = (statistics.median(column) for column in zip(*ours))
    their_prefill, their_decode = (statistics.median(column) for column in zip(*theirs))
    batch_8_decode = statistics.median(decode for _, decode in batch_8)
    print(f"llama-cpp-python {llama_cpp.__version__}, {arguments.threads} threads, context "
          f"{arguments.context}, medians of {arguments.rounds} alternating runs, tokens/s")
    print(f"prefill   {prefill:8.1f}   llama.cpp {their_prefill:8.1f}   ratio {prefill / their_prefill:.2f}")
    print(f"decode    {decode:8.1f}   llama.cpp {their_decode:8.1f}   ratio {decode / their_decode:.2f}")
    print(f"batch 8   {batch_8_decode:8.1f}   batch 1   {decode:8.1f}   ratio {batch_8_decode / decode:.2f}")


if __name__ == "__main__":
    main()
