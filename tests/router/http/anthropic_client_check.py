"""Anthropic's own Python client against a running router: http_clients_test runs it.

    python3 anthropic_client_check.py HOST:PORT
"""

import sys
import unittest

import anthropic

MESSAGES = [{"role": "user", "content": "Hello?"}]
SERVER = sys.argv.pop(1)


class AnthropicClientCheck(unittest.TestCase):
    def setUp(self):
        self.client = anthropic.Anthropic(base_url=f"http://{SERVER}", api_key="none", max_retries=0, timeout=60)

    def tearDown(self):
        self.client.close()

    def arguments(self, **arguments):
        # Newer versions of the client have no temperature.
        return {"model": "", "messages": MESSAGES, "max_tokens": 6, "extra_body": {"temperature": 0}, **arguments}

    def create(self, **arguments):
        return self.client.messages.create(**self.arguments(**arguments))

    def test_a_message(self):
        message = self.create(system="Be brief.")
        self.assertEqual((message.type, message.role), ("message", "assistant"))
        self.assertTrue(message.id.startswith("msg_"))
        self.assertEqual([block.type for block in message.content], ["text"])
        self.assertEqual(message.stop_reason, "max_tokens")
        self.assertIsNone(message.stop_sequence)
        self.assertEqual(message.usage.output_tokens, 6)
        self.assertTrue(message._request_id)

    def test_a_stream_says_the_same(self):
        whole = self.create(max_tokens=20)
        with self.client.messages.stream(**self.arguments(max_tokens=20)) as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_message()
        self.assertEqual(kinds[0], "message_start")
        self.assertEqual(kinds[-1], "message_stop")
        self.assertEqual(streamed.content[0].text, whole.content[0].text)
        self.assertEqual(streamed.stop_reason, whole.stop_reason)
        self.assertEqual(streamed.usage.output_tokens, whole.usage.output_tokens)
        total = [message.usage.input_tokens + message.usage.cache_read_input_tokens for message in (whole, streamed)]
        self.assertEqual(total[0], total[1])
        raw = list(self.create(max_tokens=20, stream=True))
        self.assertEqual("".join(event.delta.text for event in raw if event.type == "content_block_delta"),
                         whole.content[0].text)

    def test_a_stop_sequence(self):
        text = self.create(max_tokens=20).content[0].text
        stopped = self.create(max_tokens=20, stop_sequences=[text[4:6]])
        self.assertEqual((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", text[4:6]))
        self.assertTrue(text.startswith(stopped.content[0].text))

    def test_a_count_is_that_of_the_message(self):
        usage = self.create().usage
        count = self.client.messages.count_tokens(model="", messages=MESSAGES)
        self.assertEqual(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)
        blocks = [{"type": "text", "text": "Hello?", "cache_control": {"type": "ephemeral"}}]
        again = self.client.messages.count_tokens(model="", messages=[{"role": "user", "content": blocks}])
        self.assertEqual(again.input_tokens, count.input_tokens)

    def test_a_history(self):
        first = self.create()
        message = self.create(messages=[*MESSAGES, {"role": first.role, "content": first.content},
                                        {"role": "user", "content": "Go on."}])
        self.assertEqual(message.usage.output_tokens, 6)

    def test_betas(self):
        message = self.client.beta.messages.create(**self.arguments(betas=["context-management-2025-06-27"]))
        self.assertEqual(message.usage.output_tokens, 6)

    def test_thinking(self):
        for thinking in ({"type": "adaptive"}, {"type": "disabled"}, {"type": "enabled", "budget_tokens": 1024}):
            self.assertEqual(self.create(thinking=thinking).usage.output_tokens, 6)

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError) as other:
            self.create(model="other")
        self.assertEqual(other.exception.body["error"]["type"], "not_found_error")
        self.assertEqual(other.exception.body["request_id"], other.exception.request_id)
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
        with self.assertRaises(anthropic.BadRequestError) as wrong:
            self.create(messages=[{"role": "user", "content": [image]}])
        self.assertIn("messages[0].content[0]", str(wrong.exception))
        with self.assertRaises(anthropic.BadRequestError) as long:
            self.create(messages=[{"role": "user", "content": "x" * 100_000}])
        self.assertIn("prompt is too long", str(long.exception))
        with self.assertRaises(anthropic.BadRequestError):
            with self.client.messages.stream(**self.arguments(stop_sequences=[""])):
                pass


if __name__ == "__main__":
    unittest.main()
