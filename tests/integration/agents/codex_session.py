"""A session of Codex over /v1/responses: its requests with their recorded shapes, and a reader of the events that insists on their rules.

Two things are added to the shapes. A limit of the output, because a model that knows nothing need not end. A `tool_choice` in most turns, because it
would call no tool by itself. Sampled sessions have a temperature and a seed as well.
"""

import json
import uuid

from event_stream import post
from recorded_tools import CODEX_TOOLS, schema_problem

MAX_OUTPUT_TOKENS = 240
INSTRUCTIONS = "You are a coding agent. " + "Be careful with the files of the user, and say what you do. " * 6
AUTO = {"tool_choice": "auto", "parallel_tool_calls": True}
ONE = {"tool_choice": "required", "parallel_tool_calls": False}
TURNS = (
    ONE,
    {"tool_choice": {"type": "function", "name": "exec_command"}, "parallel_tool_calls": True},
    AUTO,
    {"tool_choice": {"type": "custom", "name": "apply_patch"}, "parallel_tool_calls": True},
    {"tool_choice": "required", "parallel_tool_calls": True},
    AUTO,
    {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "write_stdin"},
                                                                            {"type": "function", "name": "get_context_remaining"}]},
     "parallel_tool_calls": False},
    {"tool_choice": {"type": "function", "name": "update_plan"}, "parallel_tool_calls": False},
    ONE,
    AUTO,
)
SCHEMAS = {tool["name"]: tool["parameters"] for tool in [*CODEX_TOOLS, *(tool for space in CODEX_TOOLS for tool in space.get("tools", ()))]
           if tool["type"] == "function"}


class _Reader:
    """Of one response. Events must come in order, one item open at a time."""

    def __init__(self):
        self.items = []
        self.last = None
        self._number = 0
        self._open = None  # the item, its text so far, and whether its text is done

    def take(self, event):
        assert event["sequence_number"] == self._number, event
        assert self.last is None, f"after the end: {event}"
        self._number += 1
        kind = event["type"].removeprefix("response.")
        if kind in ("created", "in_progress"):
            assert self._number == {"created": 1, "in_progress": 2}[kind] and event["response"]["status"] == "in_progress", event
        elif kind == "output_item.added":
            assert self._open is None and event["output_index"] == len(self.items), event
            self._open = [event["item"], "", False]
        elif kind in ("completed", "incomplete"):
            self.last = event["response"]
            assert self.last["status"] == kind, event
            # The limit may cut a call, which then is never done.
            assert self._open is None or kind == "incomplete" and self._open[0]["type"] in ("function_call", "custom_tool_call"), event
            num_cut = 0 if self._open is None else 1
            assert self.last["output"][:len(self.items)] == self.items and len(self.last["output"]) == len(self.items) + num_cut, event
        else:
            self._take_of_item(kind, event)

    def _take_of_item(self, kind, event):
        item, text, done = self._open
        assert event["output_index"] == len(self.items), event
        assert kind == "output_item.done" or event["item_id"] == item["id"], event
        if kind.endswith(".delta"):
            assert not done and event["delta"], event
            self._open[1] += event["delta"]
        elif kind == "output_item.done":
            whole = event["item"]
            assert (whole["id"], whole["type"]) == (item["id"], item["type"]), event
            # Only text is done although the limit cut it.
            assert whole["status"] == "completed" or whole["type"] in ("message", "reasoning"), event
            assert self._text_of(whole) == text, (text, event)
            self.items.append(whole)
            self._open = None
        elif kind in ("content_part.added", "content_part.done"):
            assert item["type"] in ("message", "reasoning") and event["part"]["text"] == (text if kind.endswith("done") else ""), event
        else:
            field = {"output_text.done": "text", "reasoning_text.done": "text", "function_call_arguments.done": "arguments",
                     "custom_tool_call_input.done": "input"}[kind]
            assert event[field] == text and not done, event
            self._open[2] = True

    @staticmethod
    def _text_of(item):
        return {"function_call": lambda: item["arguments"], "custom_tool_call": lambda: item["input"],
                "message": lambda: item["content"][0]["text"], "reasoning": lambda: item["content"][0]["text"]}[item["type"]]()


class CodexSession:
    def __init__(self, address, number, on_event=lambda: None):
        self._address, self._number, self._on_event = address, number, on_event
        self._id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"codex {number}"))
        self._more = {"temperature": 1, "seed": number} if number % 2 else {}
        self._input = [self._message("developer", "<permissions instructions>Ask first.</permissions instructions>"),
                       self._message("user", f"<environment_context><cwd>/home/{number}</cwd><shell>bash</shell></environment_context>"),
                       self._message("user", f"Mend fault {number}.")]
        self.num_calls = 0

    @staticmethod
    def _message(role, text):
        return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}

    def _body(self, choice):
        return {"model": "gpt-5.2-codex", "instructions": INSTRUCTIONS, "input": self._input, "tools": CODEX_TOOLS, **choice,
                "reasoning": {"effort": "medium", "summary": "auto"}, "store": False, "stream": True, "include": ["reasoning.encrypted_content"],
                "prompt_cache_key": self._id, "text": {"verbosity": "medium"}, "client_metadata": {"x-codex-installation-id": self._id},
                "max_output_tokens": MAX_OUTPUT_TOKENS, **self._more}

    def play(self, num_turns=len(TURNS)):
        """What the session saw, without what differs each time: ids, times, and how the text was cut into deltas."""
        return [self._turn(TURNS[turn % len(TURNS)], turn) for turn in range(num_turns)]

    def _turn(self, choice, turn):
        reader = _Reader()
        headers = {"originator": "codex_cli_rs", "User-Agent": "codex_cli_rs/0.98.0", "session_id": self._id, "conversation_id": self._id}
        for event in post(self._address, "/v1/responses", self._body(choice), headers, self._on_event):
            reader.take(event)
        response = reader.last
        assert response is not None, f"turn {turn}: the stream has no end"
        calls = [item for item in reader.items if item["type"] in ("function_call", "custom_tool_call")]
        if choice is not AUTO:
            self._check_forced(choice, calls, response)
        for item in reader.items:
            self._input.append({name: value for name, value in item.items() if name not in ("id", "status")})
        for call in calls:
            self._input.append({"type": call["type"] + "_output", "call_id": call["call_id"], "output": f"Exit code: 0\nOutput:\n{turn} done"})
        if not calls:
            self._input.append(self._message("user", f"Go on, {turn}."))
        self.num_calls += len(calls)
        shown = [[item["type"], item.get("namespace"), item.get("name"), reader._text_of(item)] for item in response["output"]]
        usage = response["usage"]
        return {"status": response["status"], "items": shown, "tokens": [usage["input_tokens"], usage["output_tokens"]]}

    @staticmethod
    def _check_forced(choice, calls, response):
        """The calls that are whole fit, and there is one unless the limit came before."""
        whole = response["status"] == "completed"
        assert calls or not whole, response
        assert choice["parallel_tool_calls"] or len(calls) <= 1, response
        for call in calls:
            named = choice["tool_choice"].get("name") if isinstance(choice["tool_choice"], dict) else None
            assert named in (None, call["name"]), response
            if call["type"] == "function_call":
                problem = schema_problem(SCHEMAS[call["name"]], json.loads(call["arguments"]))
                assert not problem, (problem, call)
