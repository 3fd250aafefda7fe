"""langchain-openai against a running router: http_clients_test runs it.

    python3 langchain_client_check.py HOST:PORT
"""

import asyncio
import sys
import unittest

from langchain_core.exceptions import ContextOverflowError
from langchain_openai import ChatOpenAI, OpenAI

SERVER = sys.argv.pop(1)
SETTINGS = {"model": "tiny-llama", "base_url": f"http://{SERVER}/v1", "api_key": "none", "temperature": 0, "max_tokens": 6,
            "max_retries": 0}
TOO_LONG = "x " * 500


class LangchainCheck(unittest.TestCase):
    def setUp(self):
        self.chat = ChatOpenAI(**SETTINGS)

    def test_chat(self):
        answer = self.chat.invoke([("system", "Be brief."), ("human", "Hi")])
        self.assertTrue(answer.content)
        self.assertEqual(answer.usage_metadata["output_tokens"], 6)
        self.assertEqual(answer.response_metadata["finish_reason"], "length")
        self.assertTrue(answer.response_metadata["system_fingerprint"].startswith("fp_"))

    def test_streamed_chat_says_the_same(self):
        chunks = list(self.chat.stream("Hi", stream_usage=True))
        whole = self.chat.invoke("Hi")
        self.assertEqual("".join(chunk.content for chunk in chunks), whole.content)
        total = sum(chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata)
        self.assertEqual(total, whole.usage_metadata["output_tokens"])

    def test_many_at_once(self):
        async def ask():
            return await self.chat.abatch(["Hi", "Ho", "Hi"])

        answers = [answer.content for answer in asyncio.run(ask())]
        self.assertEqual(answers[0], answers[2])
        self.assertEqual(answers[:2], [answer.content for answer in self.chat.batch(["Hi", "Ho"])])

    def test_logprobs(self):
        answer = self.chat.bind(logprobs=True, top_logprobs=2).invoke("Hi")
        self.assertEqual(len(answer.response_metadata["logprobs"]["content"]), 6)

    def test_text_completion(self):
        model = OpenAI(**SETTINGS)
        self.assertEqual("".join(model.stream("Once")), model.invoke("Once"))

    def test_a_context_overflow_is_known_as_one(self):
        for ask in (lambda: self.chat.invoke(TOO_LONG), lambda: list(self.chat.stream(TOO_LONG)),
                    lambda: self.chat.bind(max_tokens=5000).invoke("Hi")):
            with self.assertRaises(ContextOverflowError):
                ask()


if __name__ == "__main__":
    unittest.main()
