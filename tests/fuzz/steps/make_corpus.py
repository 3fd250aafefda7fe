#!/usr/bin/env python3
"""Writes the seed corpora of step_result_fuzz and step_request_fuzz. Needs protoc. Run from the
repository's root."""

import pathlib
import subprocess

FOLDER = pathlib.Path("tests/fuzz/steps")
PROTO = "lockstep/worker/v1/worker.proto"
# Options of frames (step_result_fuzz.cc).
ANSWER, STEP_ID, AHEAD, TWO_GROUPS = 1, 2, 4, 8

SAMPLING = "temperature: 0 top_p: 1 repetition_penalty: 1 num_logprobs: -1 num_prompt_logprobs: -1"
START = (f"started {{ slot: 0 known_tokens: [1, 2, 3, 4, 5] num_prompt_tokens: 5 blocks: [0, 1, 2] "
         f"sampling {{ {SAMPLING} max_total_tokens: 12 }} }} run_slots: 0 run_tokens: 5")

RESULTS = {
    "honest": [(ANSWER | STEP_ID, "")] * 12,
    "ahead": [(ANSWER | STEP_ID | AHEAD, "")] * 12,
    "refusal": [(STEP_ID, 'refusal { code: 9 message: "no" }'), (ANSWER | STEP_ID, "")] * 3,
    "errors": [(STEP_ID, 'errors { slot: 0 code: 13 message: "odd" } inert_slots: 1')] * 3,
    "extra_tokens": [(ANSWER | STEP_ID, "sampled_slots: 0 sampled_counts: 9 token_ids: [5, 5, 5]")] * 2,
    "stop": [(ANSWER | STEP_ID, ""), (ANSWER | STEP_ID, "stopped_slots: 0 stop_causes: STOP_CAUSE_TOKEN")],
    "logprobs": [(STEP_ID, "sampled_slots: 0 token_ids: 3 logprobs { slot: 0 token_id: 3 logprob: nan rank: 1 "
                           "top_ids: [3, 4294967295] top_logprobs: [inf, -1] }")],
    "prompt_logprobs": [(ANSWER | STEP_ID, "prompt_logprobs { slot: 2 first_position: 4294967295 "
                                           "entries { token_id: 1 logprob: -1 rank: 1 } }")] * 2,
    "slots": [(STEP_ID, "sampled_slots: [4294967295, 0, 0] sampled_counts: [0, 1, 4294967295] inert_slots: 9")],
    "timings": [(ANSWER | STEP_ID, "timings { queue_ns: 18446744073709551615 compute_ns: 18446744073709551615 "
                                   "idle_ns: 1 total_ns: 0 } draining: true")] * 2,
    # The router with two KV groups (step_result_fuzz.cc: the options of the first frame say so).
    "groups": [(ANSWER | STEP_ID | TWO_GROUPS, "")] + [(ANSWER | STEP_ID, "")] * 20,
    "groups_ahead": [(ANSWER | STEP_ID | AHEAD | TWO_GROUPS, "")] + [(ANSWER | STEP_ID | AHEAD, "")] * 20,
    "old_step": [(0, "step_id: 7")],
}
# Of a model with two KV groups (step_request_fuzz.cc: the options of the first frame say so).
GROUPS_START = START.replace(" sampling", " group_blocks { blocks: [9, 3, 5] } sampling")
REQUESTS = {
    "decode": [(1, START)] + [(1, "run_slots: 0")] + [(1, "repeat_rows: true")] * 3,
    "iterations": [(1, START), (1, "run_slots: 0 decode_iterations: 4"), (1, "released_slots: 0")],
    "grow": [(1, START), (1, "grown_slots: 0 grown_counts: 2 grown_blocks: [3, 4] run_slots: 0")],
    "chunks": [(1, START.replace("run_tokens: 5", "run_tokens: 2")), (1, "run_slots: 0 run_tokens: 3")],
    "resync": [(1, "run_slots: 5"), (1, "resync: true " + START)],
    "rich": [(1, START.replace(SAMPLING, "temperature: 0.7 top_p: 0.9 top_k: 5 min_p: 0.1 presence_penalty: 1 "
                               "frequency_penalty: -1 repetition_penalty: 1.2 seed: 3 logit_bias_ids: 5 "
                               "logit_bias_values: -3 allowed_token_ids: [1, 5, 9] stop_token_ids: 9 "
                               "num_logprobs: 3 num_prompt_logprobs: 2"))] + [(1, "run_slots: 0")] * 3,
    "huge": [(1, "run_slots: 4294967295 run_tokens: 4294967295 decode_iterations: 4294967295 "
                 "copied_from: 1 copied_to: 4294967295")],
    "groups": [(3, GROUPS_START)] + [(1, "run_slots: 0")] * 4 + [
        (1, "grown_slots: [0, 0] grown_groups: [0, 1] grown_counts: [1, 1] grown_blocks: [3, 20] run_slots: 0")],
    "groups_resumed": [(3, GROUPS_START)] + [
        (1, "released_slots: 0 started { slot: 0 known_tokens: [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5] "
            "num_prompt_tokens: 14 num_computed_tokens: 13 blocks: [0, 1, 2, 4] group_blocks { first: 1 blocks: [3, 5, 7] } "
            f"sampling {{ {SAMPLING} max_total_tokens: 20 }} }} run_slots: 0")],
    "claim": [(0, "epoch: 7 claim { takeover: true }"), (1, "claim { expected_incarnation: 5 }")],
    "wrong_numbers": [(0, "epoch: 6 step_id: 1"), (0, "epoch: 7 step_id: 9")],
}


def encode(message, text):
    return subprocess.run(["protoc", f"--encode=lockstep.worker.v1.{message}", "-I", "proto", PROTO],
                          input=text.encode(), stdout=subprocess.PIPE, check=True).stdout


def main():
    for message, folder, seeds in (("StepResult", "result_corpus", RESULTS),
                                   ("StepRequest", "request_corpus", REQUESTS)):
        (FOLDER / folder).mkdir(exist_ok=True)
        for name, frames in seeds.items():
            data = b""
            for options, text in frames:
                encoded = encode(message, text)
                data += bytes([options]) + len(encoded).to_bytes(2, "little") + encoded
            (FOLDER / folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
