"""outlines, for OpenAI's servers and for vLLM's: agent_clients_check.py runs it.

    python3 outlines_check.py HOST:PORT
"""

import re
import sys
import unittest
from typing import Literal

import openai
import outlines

from shapes import MAX_TOKENS, QUESTION, Note, Pick

SERVER = sys.argv.pop(1)


class OutlinesCheck(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{SERVER}/v1", api_key="none", max_retries=0, timeout=60)
        self.arguments = {"temperature": 0, "max_tokens": MAX_TOKENS}

    def tearDown(self):
        self.client.close()

    def test_of_openai(self):
        model = outlines.from_openai(self.client, "agent")
        for shape in (Pick, Note):
            shape.model_validate_json(model(QUESTION, shape, **self.arguments))
            shape.model_validate_json("".join(model.stream(QUESTION, shape, **self.arguments)))

    def test_of_vllm(self):
        model = outlines.from_vllm(self.client, "agent")
        for shape in (Pick, Note):
            shape.model_validate_json(model(QUESTION, shape, **self.arguments))
        self.assertIn(model(QUESTION, Literal["red", "blue"], **self.arguments), ("red", "blue"))
        self.assertTrue(re.fullmatch("[a-c]{2,4}", model(QUESTION, outlines.regex("[a-c]{2,4}"), **self.arguments)))


if __name__ == "__main__":
    unittest.main()
