"""Calls of tools that clients force, over HTTP, to a router and a worker as processes.

    forced_calls_check.py --programs FOLDER --model FOLDER --packages FOLDER

A model that knows nothing calls the tools that it must call, with arguments that fit their schemas, in each API, streamed and not. What cannot
be forced is refused by name.
"""

import argparse
import json
import pathlib
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from engine_check import SKIP, read_options  # noqa: E402
from server_process import OWN_LOOPBACK, PATIENCE, Server, wait_until  # noqa: E402

COLOURS = ["red", "blue"]
PICK = {"type": "object", "additionalProperties": False, "required": ["colour"], "properties": {
    "colour": {"type": "string", "enum": COLOURS}, "n": {"type": "integer", "minimum": 0, "maximum": 9}}}
SCHEMAS = {"pick": PICK, "now": {"type": "object", "additionalProperties": False}}
BAD = {"type": "object", "uniqueItems": True}
MESSAGES = [{"role": "user", "content": "x"}]
SEEDS = range(6)


def fits(name, arguments):
    value = json.loads(arguments)
    if name == "now":
        return value == {}
    return (name == "pick" and set(value) <= {"colour", "n"} and value["colour"] in COLOURS
            and ("n" not in value or (type(value["n"]) is int and 0 <= value["n"] <= 9)))


class Api:
    def __init__(self, address):
        self._address = address

    def post(self, path, body):
        request = urllib.request.Request(f"http://{self._address}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def ask(self, path, **body):
        status, text = self.post(path, body)
        return status, json.loads(text)

    def events(self, path, **body):
        status, text = self.post(path, {**body, "stream": True})
        assert status == 200, text
        return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ") and line != "data: [DONE]"]


def chat_tools(schemas):
    return [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in schemas.items()]


class Chat:
    """Each API gives (how the output ended, calls as (name, arguments))."""

    PATH = "/v1/chat/completions"
    WHOLE, NAMED, CUT = "tool_calls", "stop", "length"
    REQUIRED = {"tool_choice": "required"}
    NAMED_CHOICE = {"tool_choice": {"type": "function", "function": {"name": "pick"}}}
    SINGLE = {**REQUIRED, "parallel_tool_calls": False}

    @staticmethod
    def body(schemas=SCHEMAS, **more):
        return {"messages": MESSAGES, "tools": chat_tools(schemas), "max_tokens": 190, **more}

    @staticmethod
    def read(answer):
        choice = answer["choices"][0]
        assert choice["finish_reason"] == "length" or not choice["message"]["content"], choice
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in choice["message"].get("tool_calls") or []]
        return choice["finish_reason"], calls

    @staticmethod
    def read_stream(events):
        calls, reason = [], None
        for event in events:
            choice = event["choices"][0]
            reason = choice["finish_reason"] or reason
            for call in choice["delta"].get("tool_calls") or []:
                if "id" in call:
                    calls.append([call["function"]["name"], ""])
                calls[call["index"]][1] += call["function"]["arguments"]
        return reason, [tuple(call) for call in calls]


class Responses:
    PATH = "/v1/responses"
    WHOLE, NAMED, CUT = "completed", "completed", "incomplete"
    REQUIRED = {"tool_choice": "required"}
    NAMED_CHOICE = {"tool_choice": {"type": "function", "name": "pick"}}
    SINGLE = {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "pick"}]},
              "parallel_tool_calls": False}

    @staticmethod
    def body(schemas=SCHEMAS, **more):
        tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in schemas.items()]
        return {"input": "x", "tools": tools, "max_output_tokens": 190, **more}

    @staticmethod
    def read(answer):
        calls = [(item["name"], item["arguments"]) for item in answer["output"] if item["type"] == "function_call"]
        return answer["status"], calls

    @classmethod
    def read_stream(cls, events):
        return cls.read(events[-1]["response"])


class Messages:
    PATH = "/v1/messages"
    WHOLE, NAMED, CUT = "tool_use", "tool_use", "max_tokens"
    REQUIRED = {"tool_choice": {"type": "any"}}
    NAMED_CHOICE = {"tool_choice": {"type": "tool", "name": "pick"}}
    SINGLE = {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}

    @staticmethod
    def body(schemas=SCHEMAS, **more):
        tools = [{"name": name, "input_schema": schema} for name, schema in schemas.items()]
        return {"messages": MESSAGES, "tools": tools, "max_tokens": 190, **more}

    @staticmethod
    def read(answer):
        calls = [(block["name"], json.dumps(block["input"])) for block in answer["content"] if block["type"] == "tool_use"]
        return answer["stop_reason"], calls

    @staticmethod
    def read_stream(events):
        calls, reason = [], None
        for event in events:
            if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
                calls.append([event["content_block"]["name"], ""])
            elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
                calls[-1][1] += event["delta"]["partial_json"]
            elif event["type"] == "message_delta":
                reason = event["delta"]["stop_reason"]
        return reason, [(name, json.dumps(json.loads(text or "{}")) if reason != "max_tokens" else text) for name, text in calls]


def check_outputs(api, dialect, **fields):
    """The number of outputs that did not come to their limit."""
    num_whole = 0
    for choice, whole, most in ((dialect.REQUIRED, dialect.WHOLE, 99), (dialect.NAMED_CHOICE, dialect.NAMED, 1),
                                (dialect.SINGLE, dialect.WHOLE, 1)):
        for seed in SEEDS:
            body = dialect.body(temperature=1.2, seed=seed, **choice, **fields)
            if dialect is Messages:
                del body["seed"]
                body["temperature"] = 1.0 if seed else 0.0
            status, answer = api.ask(dialect.PATH, **body)
            assert status == 200, answer
            reason, calls = dialect.read(answer)
            if reason == dialect.CUT:
                continue
            num_whole += 1
            assert reason == whole, (choice, answer)
            assert 1 <= len(calls) <= most, (choice, answer)
            for name, arguments in calls:
                assert fits(name, arguments), (choice, answer)
                assert choice is not dialect.NAMED_CHOICE or name == "pick", answer
            if dialect is not Messages or not seed:  # without a seed, every answer is another one
                assert dialect.read_stream(api.events(dialect.PATH, **body)) == (reason, calls), (choice, answer)
    return num_whole


def check_refusals(api):
    def refused(dialect, words, schemas=SCHEMAS, **fields):
        status, answer = api.ask(dialect.PATH, **dialect.body(schemas, **fields))
        assert status == 400 and words in answer["error"]["message"], (fields, status, answer)

    object_format = {"type": "json_object"}
    refused(Chat, "tool_choice: expected no forced call beside a constraint", **Chat.REQUIRED, response_format=object_format)
    refused(Chat, "ignore_eos: expected false beside a forced call", **Chat.REQUIRED, ignore_eos=True)
    both = {"now": SCHEMAS["now"], "bad": BAD}
    refused(Chat, "tools[1].function.parameters: ", both, **Chat.REQUIRED)
    refused(Chat, "uniqueItems", both, **Chat.REQUIRED)
    refused(Responses, "tools[1].function.parameters: ", both, **Responses.REQUIRED)
    refused(Messages, "tools[1].function.parameters: ", both, **Messages.REQUIRED)
    refused(Chat, "enum: expected at most 10000 values", {"f": {"type": "object", "enum": list(range(20_000))}}, **Chat.REQUIRED)
    # A bad schema does not matter where nothing is forced, or another tool is.
    for fields in ({}, {"tool_choice": {"type": "function", "function": {"name": "now"}}}):
        status, answer = api.ask(Chat.PATH, **{**Chat.body(both, **fields), "max_tokens": 4})
        assert status == 200, (fields, answer)


def main():
    options = read_options(argparse.ArgumentParser())
    if options is None:
        return SKIP
    listen = f"{OWN_LOOPBACK}:0"

    def router(address, tool_format, packages=options.packages):
        return Server(options.programs / "lockstep-router", "--model", options.model, "--worker", address, "--listen", listen,
                      "--admin-listen", listen, "--tool-format", tool_format, "--constraint-packages", packages, "--takeover")

    def ready(api):
        wait_until(lambda: api.ask(Chat.PATH, messages=MESSAGES, max_tokens=1)[0] == 200, "the worker is attached")

    with Server(options.programs / "lockstep-worker", "--model", options.model, "--device", "cpu", "--threads", "1", "--kv-cache-tokens", "4096",
                "--listen", listen, "--admin-listen", listen, "--constraint-packages", options.packages) as worker:
        address = worker.addresses["grpc"]
        num_whole = {}
        # Without this letter there is no <think>. The model would hardly end its thoughts.
        letter = json.loads((options.model / "tokenizer.json").read_text())["model"]["vocab"]["h"]
        calls_only = {"logit_bias": {str(letter): -100}}
        for tool_format in ("llama3", "hermes", "qwen3_coder"):
            with router(address, tool_format) as front:
                api = Api(front.addresses["grpc"])
                ready(api)
                if tool_format == "llama3":
                    for dialect in (Chat, Responses, Messages):
                        num_whole[tool_format, dialect.__name__] = check_outputs(api, dialect)
                else:
                    check_outputs(api, Chat)
                    num_whole[tool_format, "Chat"] = check_outputs(api, Chat, **calls_only)
                if tool_format == "llama3":
                    check_refusals(api)
        for tool_format, packages, words in (("gemma4", options.packages, "forced calls of format gemma4 are not implemented"),
                                             ("llama3", "off", "a forced call needs a constraint engine")):
            with router(address, tool_format, packages) as front:
                api = Api(front.addresses["grpc"])
                ready(api)
                status, answer = api.ask(Chat.PATH, **Chat.body(**Chat.REQUIRED))
                assert status == 400 and words in answer["error"]["message"], answer
                assert answer["error"]["param"] == "tool_choice", answer
    assert all(num_whole.values()), f"outputs that ended by themselves: {num_whole}"
    print(f"forced calls fit; outputs that ended by themselves: {num_whole}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
