"""Anthropic's own Python client with forced calls and constrained outputs: agent_clients_check.py runs it, with two versions.

    python3 anthropic_check.py HOST:PORT
"""

import sys
import unittest
from typing import Literal

import anthropic
import pydantic

from shapes import MAX_TOKENS, MESSAGES, Colour, Note, Pick

SERVER = sys.argv.pop(1)
PICK = {"name": "pick", "description": "Picks a colour.", "input_schema": Pick.model_json_schema()}
NOTE = {"name": "note", "input_schema": Note.model_json_schema()}
SHAPES = {"pick": Pick, "note": Note}


class Choice(pydantic.BaseModel):
    """The client takes bounds of numbers and lengths out of schemas, so it has none."""

    colour: Colour
    sure: bool


class AnthropicCheck(unittest.TestCase):
    def setUp(self):
        self.client = anthropic.Anthropic(base_url=f"http://{SERVER}", api_key="none", max_retries=0, timeout=60)

    def tearDown(self):
        self.client.close()

    def arguments(self, **arguments):
        return {"model": "agent", "messages": MESSAGES, "max_tokens": MAX_TOKENS, **arguments}

    def test_a_tool_is_called_and_its_result_read(self):
        for choice in ({"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "note"}):
            forced = self.arguments(tools=[PICK, NOTE], tool_choice=choice)
            message = self.client.messages.create(**forced)
            self.assertEqual(message.stop_reason, "tool_use")
            [call] = message.content
            SHAPES[call.name].model_validate(call.input)
            with self.client.messages.stream(**forced) as stream:
                kinds = {event.type for event in stream}
                streamed = stream.get_final_message()
            self.assertIn("input_json", kinds)
            self.assertEqual((streamed.stop_reason, streamed.content[0].input), ("tool_use", call.input))
            result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "It is.", "is_error": False}]}
            last = self.client.messages.create(**self.arguments(
                messages=[*MESSAGES, {"role": "assistant", "content": message.content}, result], tools=[PICK, NOTE]))
            self.assertNotEqual(last.stop_reason, "tool_use")

    def test_several_calls_of_one_message(self):
        message = self.client.messages.create(**self.arguments(tools=[PICK], tool_choice={"type": "any"}))
        self.assertIn(message.stop_reason, ("tool_use", "max_tokens"))
        for call in message.content[:-1] if message.stop_reason == "max_tokens" else message.content:
            Pick.model_validate(call.input)

    def test_outputs_of_a_type(self):
        message = self.client.messages.parse(**self.arguments(output_format=Choice))
        self.assertIsInstance(message.parsed_output, Choice)

    def test_a_runner_of_tools(self):
        calls = []

        @anthropic.beta_tool
        def pick(colour: Literal["red", "blue"]) -> str:
            """Picks a colour.

            Args:
                colour: The colour.
            """
            calls.append(colour)
            return "It is."

        # Newer clients ask the server to keep the conversation, and send it again when they hear that it is not there.
        runner = self.client.beta.messages.tool_runner(
            **self.arguments(tools=[pick], tool_choice={"type": "tool", "name": "pick"}), max_iterations=4)
        sizes = [message.usage.input_tokens + message.usage.cache_read_input_tokens for message in runner]
        self.assertEqual((len(sizes), len(calls)), (4, 4))
        self.assertEqual(sizes, sorted(set(sizes)), "each prompt has the ones before it")
        history = [message["role"] for message in runner._params["messages"]]
        self.assertEqual(history[:4], ["user", "assistant", "user", "assistant"])

    def test_a_thread(self):
        if not hasattr(self.client.beta.messages, "thread"):
            return  # an older version
        thread = self.client.beta.messages.thread(**self.arguments())
        sizes = []
        for text in ("One.", "Two.", "Three."):
            usage = thread.send({"role": "user", "content": text}).usage
            sizes.append(usage.input_tokens + usage.cache_read_input_tokens)
        self.assertEqual(sizes, sorted(set(sizes)), "each prompt has the ones before it")


if __name__ == "__main__":
    unittest.main()
