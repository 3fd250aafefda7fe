"""instructor: agent_clients_check.py runs it.

    python3 instructor_check.py HOST:PORT
"""

import sys
import unittest

import instructor
import openai
import pydantic

from shapes import MAX_TOKENS, MESSAGES, Note, Pick, bias

SERVER = sys.argv.pop(1)


class Anything(pydantic.BaseModel):
    """JSON mode says the schema in the prompt only, so the model must need nothing."""

    colour: object = None


class InstructorCheck(unittest.TestCase):
    def ask(self, mode, shape, **arguments):
        with openai.OpenAI(base_url=f"http://{SERVER}/v1", api_key="none", max_retries=0, timeout=60) as client:
            return instructor.from_openai(client, mode=mode).chat.completions.create(**{
                "model": "agent", "messages": MESSAGES, "response_model": shape, "temperature": 0, "max_tokens": MAX_TOKENS, "max_retries": 0,
                **arguments})

    def test_tools(self):
        for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT):
            for shape in (Pick, Note):
                self.assertIsInstance(self.ask(mode, shape), shape)

    def test_json_schema(self):
        for shape in (Pick, Note):
            self.assertIsInstance(self.ask(instructor.Mode.JSON_SCHEMA, shape), shape)

    def test_json(self):
        self.assertIsInstance(self.ask(instructor.Mode.JSON, Anything, logit_bias=bias(SERVER)), Anything)

    def test_partial_objects_of_a_stream(self):
        for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
            *_, last = self.ask(mode, instructor.Partial[Pick], stream=True)
            Pick.model_validate(last.model_dump())


if __name__ == "__main__":
    unittest.main()
