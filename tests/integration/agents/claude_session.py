"""A session of Claude Code over /v1/messages: its requests with their recorded shapes, and a reader of the events that insists on their rules.

As in codex_session.py, a limit and a `tool_choice` are added, because the model knows nothing. Claude Code sends no seed, so the outputs are greedy.
"""

import json
import uuid

from event_stream import post, post_json
from recorded_tools import CLAUDE_TOOLS, schema_problem

MAX_TOKENS = 240
CACHE = {"cache_control": {"type": "ephemeral"}}
SYSTEM = "You help with software. " + "Be brief, and read a file before you edit it. " * 6
ONE = {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 31999}}
ADAPTIVE = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}
TURNS = (
    {**ADAPTIVE, **ONE},
    {**ADAPTIVE, "tool_choice": {"type": "tool", "name": "Bash"}},
    THINKING,
    {**ADAPTIVE, "tool_choice": {"type": "any"}},
    {**ADAPTIVE, "tool_choice": {"type": "tool", "name": "TodoWrite"}},
    ADAPTIVE,
    {**ADAPTIVE, **ONE},
    {**ADAPTIVE, "tool_choice": {"type": "tool", "name": "EnterPlanMode"}},
    {**ADAPTIVE, "tool_choice": {"type": "tool", "name": "Edit"}},
    ADAPTIVE,
)
SCHEMAS = {tool["name"]: tool["input_schema"] for tool in CLAUDE_TOOLS if "input_schema" in tool}
TITLE = {"type": "object", "properties": {"title": {"type": "string", "maxLength": 20}}, "required": ["title"], "additionalProperties": False}


class _Reader:
    """Of one message. Blocks come one after the other."""

    KINDS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking"), "tool_use": ("input_json_delta", "partial_json")}

    def __init__(self):
        self.blocks = []
        self.stop_reason = None
        self.usage = {}
        self._open = False
        self._state = "begin"

    def take(self, event):
        kind = event["type"]
        if kind == "ping":
            return
        if kind == "message_start":
            message = event["message"]
            assert self._state == "begin" and message["content"] == [] and message["stop_reason"] is None, event
            self.usage = dict(message["usage"])
            self._state = "blocks"
        elif kind == "message_delta":
            assert self._state == "blocks" and not self._open, event
            self.stop_reason = event["delta"]["stop_reason"]
            self.usage.update(event["usage"])
            self._state = "delta"
        elif kind == "message_stop":
            assert self._state == "delta", event
            self._state = "end"
        else:
            assert self._state == "blocks", event
            self._take_of_block(kind, event)

    def _take_of_block(self, kind, event):
        if kind == "content_block_start":
            block = event["content_block"]
            assert not self._open and event["index"] == len(self.blocks), event
            assert block["type"] in self.KINDS, event
            self.blocks.append([block, "", 0])
            self._open = True
            return
        assert self._open and event["index"] == len(self.blocks) - 1, event
        block = self.blocks[-1]
        if kind == "content_block_stop":
            self._open = False
            return
        assert kind == "content_block_delta", event
        delta = event["delta"]
        if delta["type"] == "signature_delta":
            assert block[0]["type"] == "thinking", event
            return
        name, field = self.KINDS[block[0]["type"]]
        assert delta["type"] == name, event
        # Clients take the first delta of a call as its beginning.
        assert delta[field] or (name == "input_json_delta" and block[2] == 0), event
        block[1] += delta[field]
        block[2] += 1

    def ended(self):
        return self._state == "end"


class ClaudeSession:
    def __init__(self, address, number, on_event=lambda: None):
        self._address, self._number, self._on_event = address, number, on_event
        self._id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"claude {number}"))
        self._messages = [{"role": "user", "content": [
            {"type": "text", "text": f"<system-reminder>Today is day {number}.</system-reminder>"},
            {"type": "text", "text": f"Mend fault {number}.", **CACHE}]}]
        self._requests = 0
        self.num_calls = 0

    def _headers(self):
        return {"x-api-key": "none", "anthropic-version": "2023-06-01", "User-Agent": "claude-cli/2.1.30 (external, cli)", "x-app": "cli",
                "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
                "X-Claude-Code-Session-Id": self._id}

    def _system(self):
        self._requests += 1
        return [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.30; cc_entrypoint=cli; cch={self._requests:05x};"},
                {"type": "text", "text": "You are Claude Code.", **CACHE}, {"type": "text", "text": SYSTEM, **CACHE}]

    def _body(self, **more):
        return {"model": "claude-opus-4-6", "system": self._system(), "messages": self._messages, "tools": CLAUDE_TOOLS,
                "metadata": {"user_id": f"user_0_account__session_{self._id}"}, **more}

    def _stream(self, body):
        reader = _Reader()
        for event in post(self._address, "/v1/messages?beta=true", body, self._headers(), self._on_event):
            reader.take(event)
        assert reader.ended(), "the stream has no end"
        return reader

    def play(self, num_turns=len(TURNS)):
        """What the session saw, without what differs each time: ids, and how the text was cut into deltas."""
        return [self._title(), *(self._turn(TURNS[turn % len(TURNS)], turn) for turn in range(num_turns))]

    def _title(self):
        """Claude Code asks for one beside the session, without tools."""
        body = {**self._body(max_tokens=MAX_TOKENS, stream=True, temperature=0), "tools": [],
                "output_config": {"format": {"type": "json_schema", "schema": TITLE}}}
        reader = self._stream(body)
        [[block, text, _]] = reader.blocks
        assert block["type"] == "text" and not schema_problem(TITLE, json.loads(text)), reader.blocks
        return {"stop_reason": reader.stop_reason, "blocks": [["text", None, text]], "tokens": self._tokens(reader)}

    @staticmethod
    def _tokens(reader):
        return [reader.usage["input_tokens"] + reader.usage["cache_read_input_tokens"], reader.usage["output_tokens"]]

    def _turn(self, choice, turn):
        edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
        body = self._body(max_tokens=MAX_TOKENS, stream=True, context_management=edits, **choice)
        count = post_json(self._address, "/v1/messages/count_tokens?beta=true",
                          {name: body[name] for name in ("model", "system", "messages", "tools", "thinking") if name in body}, self._headers())
        reader = self._stream(body)
        tokens = self._tokens(reader)
        assert count["input_tokens"] == tokens[0], (count, reader.usage)
        content = self._content(reader)
        calls = [block for block in content if block["type"] == "tool_use"]
        assert (reader.stop_reason == "tool_use") == bool(calls) or reader.stop_reason == "max_tokens", (reader.stop_reason, content)
        if "tool_choice" in choice:
            self._check_forced(choice["tool_choice"], calls, reader)
        self._append(content, calls, turn)
        self.num_calls += len(calls)
        return {"stop_reason": reader.stop_reason, "blocks": [[block["type"], block.get("name"), text] for block, text, _ in reader.blocks], "tokens": tokens}

    @staticmethod
    def _content(reader):
        """The blocks as the client sends them back. A call that the limit cut is dropped."""
        content = []
        for place, (block, text, _) in enumerate(reader.blocks):
            if block["type"] == "tool_use":
                try:
                    content.append({**block, "input": json.loads(text or "{}")})
                except json.JSONDecodeError:
                    assert reader.stop_reason == "max_tokens" and place == len(reader.blocks) - 1, (reader.stop_reason, reader.blocks)
            elif block["type"] == "thinking":
                content.append({"type": "thinking", "thinking": text, "signature": ""})
            elif text.strip():
                content.append({"type": "text", "text": text})
        return content

    @staticmethod
    def _check_forced(choice, calls, reader):
        assert calls or reader.stop_reason == "max_tokens", (choice, reader.stop_reason, reader.blocks)
        assert len(calls) <= 1 or choice == {"type": "any"}, (choice, calls)
        for call in calls if reader.stop_reason == "tool_use" else calls[:-1]:
            assert choice.get("name") in (None, call["name"]), (choice, calls)
            problem = schema_problem(SCHEMAS[call["name"]], call["input"])
            assert not problem, (problem, call)

    def _append(self, content, calls, turn):
        if content:
            self._messages.append({"role": "assistant", "content": content})
        results = [{"type": "tool_result", "tool_use_id": call["id"], "is_error": turn % 3 == 2,
                    "content": f"{turn} done" if turn % 2 else [{"type": "text", "text": f"{turn} done"}]} for call in calls]
        answer = results or [{"type": "text", "text": f"Go on, {turn}."}]
        answer[-1] = {**answer[-1], **CACHE}
        for message in self._messages:
            for block in message["content"]:
                block.pop("cache_control", None)
        self._messages.append({"role": "user", "content": answer})
