#!/usr/bin/env python3
"""Writes the seed corpus. Usage: tests/fuzz/calls/make_corpus.py, from the root of the repository."""
import pathlib

FOLDER = pathlib.Path("tests/fuzz/calls/corpus")

# In the order of router/calls/output_format.cc.
OUTPUTS = (
    ("harmony", "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary "
                "to=functions.now <|constrain|>json<|message|>{\"s\": \"\\u00e9\"}<|call|>"),
    ("gemma4", "<|channel>thought\nA<channel|><|tool_call>call:now{s:<|\"|>x<|\"|>,i:[1]}<tool_call|>"),
    ("deepseek_v32", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"now\">\n"
                     "<｜DSML｜parameter name=\"s\" string=\"true\">x</｜DSML｜parameter>\n"
                     "</｜DSML｜invoke>\n</｜DSML｜function_calls>"),
    ("deepseek_v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n"
                    "{\"s\": \"x\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
    ("deepseek_v31", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{\"i\": -1.5e3}"
                     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
    ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0"
                "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"),
    ("glm47", "<think>A</think><tool_call>now<arg_key>s</arg_key><arg_value>x</arg_value>"
              "<arg_key>i</arg_key><arg_value>1</arg_value></tool_call>"),
    ("minimax_m2", "<minimax:tool_call>\n<invoke name=\"now\">\n<parameter name=\"s\">x</parameter>\n"
                   "</invoke>\n</minimax:tool_call>"),
    ("qwen3_coder", "<tool_call>\n<function=now>\n<parameter=u>\nx\n\n</parameter>\n<parameter=s>\ny\n"
                    "</parameter>\n</function>\n</tool_call>"),
    ("mistral", "[THINK]A[/THINK]B[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]"
                "[TOOL_CALLS]now[CALL_ID]a[ARGS]{\"s\": \"x\"}"),
    ("hermes", "<think>\nA\n</think>\n\n<tool_call>\n{\"arguments\": \"{}\", \"name\": \"now\"}\n"
               "</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {\"s\": [\"\\ud83d\"]}}"),
    ("pythonic", "[now(s='\\x41', i=[1, None], u={\"a\": True}), f()]"),
    ("llama3", "{\"name\": \"now\", \"parameters\": {\"i\": 1}}; {\"name\": \"f\"}"),
    ("llama4", "<|python_start|>{\"name\": \"now\", \"parameters\": null}<|python_end|>"),
    ("think", "<think>\nA\n</think>\n\nB"),
)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for index, (name, output) in enumerate(OUTPUTS):
        sizes = bytes((index, 2, 6, 11))
        (FOLDER / name).write_bytes(bytes((index, 0)) + sizes + output.encode())
        (FOLDER / f"{name}_cut").write_bytes(
            bytes((index, 4)) + sizes + ("Text " + output + output[:len(output) * 2 // 3]).encode())


main()
