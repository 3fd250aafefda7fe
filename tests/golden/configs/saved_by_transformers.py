#!/usr/bin/env python3
"""Writes saved_by_transformers.json: published configs as both major versions of transformers write them again.

Usage: saved_by_transformers.py PYTHON4 PYTHON5 FOLDER

PYTHON4 and PYTHON5 are interpreters with transformers 4.57 and 5.24. The script runs itself once with each. It loads
some of the configs of FOLDER/published.json and saves them. A saved config must mean the same model.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = (
    "meta-llama/Meta-Llama-3-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B",
    "unsloth/Llama-3.2-1B-Instruct", "NousResearch/Hermes-3-Llama-3.1-8B", "HuggingFaceTB/SmolLM-135M",
    "HuggingFaceTB/SmolLM2-1.7B-Instruct", "Qwen/Qwen2-0.5B", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-72B-Instruct",
    "Qwen/Qwen2.5-Math-7B", "Qwen/Qwen2.5-7B-Instruct-1M", "Qwen/Qwen2.5-7B-Instruct, YaRN as its card says",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-32B",
    "Qwen/Qwen3-8B, YaRN as its card says", "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "distilbert/distilgpt2",
    "openai-community/gpt2-medium", "openai-community/gpt2-xl", "cerebras/Cerebras-GPT-111M", "huggyllama/llama-7b",
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "lmsys/vicuna-7b-v1.5-16k", "deepseek-ai/deepseek-coder-6.7b-instruct",
)


def saved(config):
    from transformers import AutoConfig

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        AutoConfig.from_pretrained(folder).save_pretrained(folder)
        return json.loads(path.read_text())


def main():
    if sys.argv[1] == "--answers":
        published = {case["name"]: case["config"] for case in json.loads(Path(sys.argv[2]).read_text())}
        json.dump({name: saved(published[name]) for name in NAMES}, sys.stdout)
        return 0
    python4, python5, folder = sys.argv[1:]
    source = str(Path(folder) / "published.json")
    lines = []
    for version, python in ((4, python4), (5, python5)):
        answers = subprocess.run([python, __file__, "--answers", source], check=True, text=True, stdout=subprocess.PIPE)
        for name, config in json.loads(answers.stdout).items():
            lines.append(json.dumps({"name": name, "version": version, "config": config}, separators=(",", ":")))
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    (Path(folder) / "saved_by_transformers.json").write_text(text, newline="")
    print(f"{len(lines)} configs, {len(text)} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
