"""litellm against a running router: http_clients_test runs it.

    python3 litellm_client_check.py HOST:PORT
"""

import sys
import unittest

import litellm

SERVER = sys.argv.pop(1)
PROVIDERS = ("openai", "hosted_vllm")


def ask(provider, content="Hi", **arguments):
    return litellm.completion(model=f"{provider}/tiny-llama", api_base=f"http://{SERVER}/v1", api_key="none",
                              messages=[{"role": "user", "content": content}],
                              **{"max_tokens": 6, "temperature": 0, "num_retries": 0, **arguments})


class LitellmCheck(unittest.TestCase):
    def test_chat(self):
        for provider in PROVIDERS:
            answer = ask(provider)
            self.assertTrue(answer.choices[0].message.content)
            self.assertEqual(answer.choices[0].finish_reason, "length")
            self.assertEqual(answer.usage.completion_tokens, 6)

    def test_streamed_chat_says_the_same(self):
        for provider in PROVIDERS:
            chunks = list(ask(provider, stream=True, stream_options={"include_usage": True}))
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            whole = ask(provider)
            self.assertEqual(text, whole.choices[0].message.content)
            self.assertEqual(chunks[-1].usage.total_tokens, whole.usage.total_tokens)

    def test_text_completion(self):
        answer = litellm.text_completion(model="text-completion-openai/tiny-llama", api_base=f"http://{SERVER}/v1",
                                         api_key="none", prompt="Once", max_tokens=4, temperature=0)
        self.assertEqual(answer.usage.completion_tokens, 4)

    def test_a_context_overflow_is_known_as_one(self):
        for provider in PROVIDERS:
            for arguments in ({"content": "x " * 500}, {"max_tokens": 5000}, {"content": "x " * 500, "stream": True}):
                with self.assertRaises(litellm.ContextWindowExceededError):
                    ask(provider, **arguments)

    def test_another_wrong_value_is_not_an_overflow(self):
        for provider in PROVIDERS:
            with self.assertRaises(litellm.BadRequestError) as raised:
                ask(provider, top_p=1.5)
            self.assertNotIsInstance(raised.exception, litellm.ContextWindowExceededError)
            self.assertIn("top_p", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
