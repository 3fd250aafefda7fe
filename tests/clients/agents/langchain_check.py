"""langchain-openai with tools and outputs of a type: agent_clients_check.py runs it.

    python3 langchain_check.py HOST:PORT
"""

import sys
import unittest

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from shapes import MAX_TOKENS, QUESTION, Colour, Note, Pick, bias

SERVER = sys.argv.pop(1)


@tool
def pick(colour: Colour, sure: bool) -> str:
    """Picks a colour."""
    return f"{colour.value}: {sure}"


class LangchainCheck(unittest.TestCase):
    def setUp(self):
        settings = {"model": "agent", "base_url": f"http://{SERVER}/v1", "api_key": "none", "temperature": 0, "max_tokens": MAX_TOKENS, "max_retries": 0}
        self.chats = [ChatOpenAI(**settings), ChatOpenAI(**settings, use_responses_api=True)]

    def test_a_tool_is_called_and_its_result_read(self):
        for chat in self.chats:
            for choice in ("any", "required", "pick"):
                first = chat.bind_tools([pick], tool_choice=choice, parallel_tool_calls=False).invoke(QUESTION)
                [call] = first.tool_calls
                self.assertEqual((call["name"], first.invalid_tool_calls), ("pick", []))
                result = pick.invoke(call)
                self.assertIsInstance(result, ToolMessage)
                last = chat.bind_tools([pick]).invoke([HumanMessage(QUESTION), first, result])
                self.assertEqual(last.tool_calls, [])

    def test_a_streamed_call_is_the_same(self):
        for chat in self.chats:
            bound = chat.bind_tools([pick], tool_choice="any", parallel_tool_calls=False)
            whole = None
            for chunk in bound.stream(QUESTION):
                whole = chunk if whole is None else whole + chunk
            self.assertEqual([call["args"] for call in whole.tool_calls], [call["args"] for call in bound.invoke(QUESTION).tool_calls])

    def test_outputs_of_a_type(self):
        for chat in self.chats:
            for method in ("json_schema", "function_calling"):
                for shape in (Pick, Note):
                    self.assertIsInstance(chat.with_structured_output(shape, method=method).invoke(QUESTION), shape)
        answer = self.chats[0].bind(logit_bias=bias(SERVER)).bind(response_format={"type": "json_object"}).invoke(QUESTION)
        self.assertEqual(answer.response_metadata["finish_reason"], "stop")


if __name__ == "__main__":
    unittest.main()
