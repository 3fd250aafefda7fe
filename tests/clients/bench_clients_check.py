"""Benchmark and evaluation programs against a running router: bench_clients_test runs it.

    python3 bench_clients_check.py HOST:PORT [TEST ...]

Each program runs as its documentation says for a server of vLLM's API, with the packages that
deploy/fetch-clients --all put into build/clients-NAME.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SERVER = sys.argv.pop(1)
URL = f"http://{SERVER}"
ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = str(ROOT / "tests/golden/tiny-llama")
MODEL = "tiny-llama"
NUM_REQUESTS, OUTPUT_TOKENS = 8, 10

# A multiple-choice task, which scores prompts, and one that generates text.
QUESTIONS = [{"question": f"Question {i}: the sky is", "choices": [" blue", " green", " red"], "answer": i % 3}
             for i in range(6)]
TASKS = {
    "scored": {"output_type": "multiple_choice", "doc_to_choice": "{{choices}}", "doc_to_target": "{{answer}}",
               "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]},
    "generated": {"output_type": "generate_until", "doc_to_target": "{{choices[answer]}}",
                  "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8},
                  "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]},
}


class BenchClientsCheck(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def run_module(self, packages, *arguments, **environment):
        done = subprocess.run(
            [sys.executable, "-m", *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "build" / packages), "HF_HOME": str(self.folder / "hf"),
                 "PYTHONDONTWRITEBYTECODE": "1", **environment})
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def read_json(self, path):
        return json.loads((self.folder / path).read_text())

    def test_guidellm(self):
        self.run_module(
            "clients-guidellm", "guidellm", "run", "--backend", f"kind=openai_http,target={URL},model={MODEL}",
            "--tokenizer", f"kind=huggingface_auto,model={TOKENIZER}",
            "--data", f"kind=synthetic_text,prompt_tokens=40,output_tokens={OUTPUT_TOKENS}",
            "--profile", "kind=concurrent,streams=2", "--constraint", f"kind=max_requests,count={NUM_REQUESTS}",
            "--output", "kind=json,path=report.json", "--disable-progress", HF_HUB_OFFLINE="1")
        metrics = self.read_json("report.json")["benchmarks"][0]["metrics"]
        self.assertEqual(metrics["request_totals"],
                         {"successful": NUM_REQUESTS, "errored": 0, "incomplete": 0, "total": NUM_REQUESTS})
        tokens = metrics["output_token_count"]["successful"]
        self.assertEqual((tokens["min"], tokens["max"]), (OUTPUT_TOKENS, OUTPUT_TOKENS))

    def test_aiperf(self):
        for kind in ("chat", "completions"):
            self.run_module(
                "clients-aiperf", "aiperf", "profile", "--model", MODEL, "--url", URL, "--endpoint-type", kind, "--streaming",
                "--tokenizer", TOKENIZER, "--synthetic-input-tokens-mean", "40", "--synthetic-input-tokens-stddev", "0",
                "--output-tokens-mean", str(OUTPUT_TOKENS), "--output-tokens-stddev", "0",
                "--extra-inputs", "ignore_eos:true", "--extra-inputs", f"min_tokens:{OUTPUT_TOKENS}",
                "--use-server-token-count", "--concurrency", "2", "--request-count", str(NUM_REQUESTS), "--ui", "none",
                "--artifact-dir", kind)
            report = self.read_json(f"{kind}/profile_export_aiperf.json")
            self.assertEqual(report["request_count"]["avg"], NUM_REQUESTS)
            self.assertEqual(report["error_summary"], [])
            tokens = report["output_sequence_length"]
            self.assertEqual((tokens["min"], tokens["max"]), (OUTPUT_TOKENS, OUTPUT_TOKENS))

    def test_vllm_bench_serve(self):
        for backend, endpoint in (("openai", "/v1/completions"), ("openai-chat", "/v1/chat/completions")):
            self.run_module(
                "clients-vllm", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", backend, "--base-url", URL,
                "--endpoint", endpoint, "--model", MODEL, "--tokenizer", TOKENIZER, "--dataset-name", "random",
                "--random-input-len", "40", "--random-output-len", str(OUTPUT_TOKENS), "--ignore-eos",
                "--num-prompts", str(NUM_REQUESTS), "--max-concurrency", "2", "--save-result", "--result-filename", "report.json",
                HF_HUB_OFFLINE="1")
            report = self.read_json("report.json")
            self.assertEqual((report["completed"], report["failed"]), (NUM_REQUESTS, 0))
            self.assertEqual(report["total_output_tokens"], NUM_REQUESTS * OUTPUT_TOKENS)

    def evaluate(self, tokenizer):
        """The results of lm-eval with its class for servers of OpenAI's API."""
        folder = tokenizer.split(",")[0].replace("=", "-")
        self.run_module(
            "clients-lm-eval", "lm_eval", "--model", "local-completions", "--model_args",
            f"model={MODEL},base_url={URL}/v1/completions,num_concurrent=2,max_retries=1,max_length=256,{tokenizer}",
            "--tasks", ",".join(TASKS), "--include_path", ".", "--batch_size", "2", "--log_samples", "--output_path", folder,
            HF_HUB_OFFLINE="1")
        samples = {}
        for task in TASKS:
            path = next((self.folder / folder).glob(f"**/samples_{task}_*.jsonl"))
            samples[task] = [json.loads(line)["resps"] for line in path.read_text().splitlines()]
        return samples

    def test_lm_eval(self):
        (self.folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in QUESTIONS))
        for name, task in TASKS.items():
            (self.folder / f"{name}.yaml").write_text(json.dumps({
                "task": name, "dataset_path": "json", "test_split": "test", "doc_to_text": "{{question}}",
                "dataset_kwargs": {"data_files": {"test": str(self.folder / "questions.jsonl")}}, **task}))
        local = self.evaluate(f"tokenizer_backend=huggingface,tokenizer={TOKENIZER}")
        remote = self.evaluate("tokenizer_backend=remote")
        self.assertEqual(len(local["scored"]), len(QUESTIONS))
        self.assertEqual(local, remote)


if __name__ == "__main__":
    unittest.main()
