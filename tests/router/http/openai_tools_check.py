"""OpenAI's own Python client against a router whose model calls the tool "add": http_tool_clients_test runs it.

    python3 openai_tools_check.py HOST:PORT
"""

import json
import sys
import unittest

import openai

MESSAGES = [{"role": "user", "content": "2+2?"}]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
SERVER = sys.argv.pop(1)


class OpenAiToolsCheck(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{SERVER}/v1", api_key="none", max_retries=0, timeout=60)

    def tearDown(self):
        self.client.close()

    def chat(self, **arguments):
        return self.client.chat.completions.create(
            **{"model": "bytes", "messages": MESSAGES, "tools": TOOLS, "temperature": 0, **arguments})

    def check(self, choice):
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertEqual(choice.message.content.strip(), "I add.")
        self.assertEqual(choice.message.reasoning_content, "Easy.")
        [call] = choice.message.tool_calls
        self.assertEqual((call.type, call.function.name), ("function", "add"))
        self.assertEqual(json.loads(call.function.arguments), {"a": 2})
        return call

    def test_a_call_and_its_result(self):
        answer = self.chat()
        call = self.check(answer.choices[0])
        self.assertGreater(answer.usage.completion_tokens_details.reasoning_tokens, 0)
        result = {"role": "tool", "tool_call_id": call.id, "content": "4"}
        last = self.chat(messages=[*MESSAGES, answer.choices[0].message, result], max_completion_tokens=5)
        self.assertIsNone(last.choices[0].message.tool_calls)
        self.assertEqual(len(last.choices[0].message.content), 5)
        self.assertEqual(last.choices[0].finish_reason, "length")

    def test_a_stream_put_together_by_the_client(self):
        with self.client.chat.completions.stream(
                model="bytes", messages=MESSAGES, tools=TOOLS, temperature=0) as stream:
            kinds = {event.type for event in stream}
            self.check(stream.get_final_completion().choices[0])
        self.assertIn("tool_calls.function.arguments.delta", kinds)
        self.assertIn("tool_calls.function.arguments.done", kinds)

    def test_the_chunks_of_a_stream(self):
        chunks = [chunk.choices[0] for chunk in self.chat(stream=True)]
        parts = [part for chunk in chunks for part in chunk.delta.tool_calls or []]
        self.assertEqual(parts[0].function.arguments, "")
        self.assertTrue(parts[0].id.startswith("call_"))
        for part in parts[1:]:
            self.assertEqual((part.index, part.id, part.function.name), (0, None, None))
        self.assertEqual(json.loads("".join(part.function.arguments for part in parts)), {"a": 2})
        self.assertEqual(chunks[-1].finish_reason, "tool_calls")

    def test_what_is_refused(self):
        with self.assertRaises(openai.BadRequestError) as refused:
            self.chat(tool_choice="required")
        self.assertEqual(refused.exception.param, "tool_choice")
        with self.assertRaises(openai.BadRequestError) as refused:
            self.chat(tools=[{"type": "function", "function": {"name": "no name"}}])
        self.assertEqual(refused.exception.param, "tools[0].function.name")


if __name__ == "__main__":
    unittest.main()
