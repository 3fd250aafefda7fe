"""OpenAI's own Python client with forced calls and constrained outputs: agent_clients_check.py runs it.

    python3 openai_check.py HOST:PORT
"""

import sys
import unittest

import openai
from openai.lib._tools import pydantic_function_tool
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from shapes import MAX_TOKENS, MESSAGES, QUESTION, Note, Pick, bias

SERVER = sys.argv.pop(1)
SCHEMA = {"name": "pick", "strict": True, "schema": {**Pick.model_json_schema(), "additionalProperties": False}}
PICK, NOTE = pydantic_function_tool(Pick), pydantic_function_tool(Note)
PICK_OF_RESPONSES, NOTE_OF_RESPONSES = openai.pydantic_function_tool(Pick), openai.pydantic_function_tool(Note)


class OpenAiCheck(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{SERVER}/v1", api_key="none", max_retries=0, timeout=60)

    def tearDown(self):
        self.client.close()

    def chat(self, **arguments):
        return {"model": "agent", "messages": MESSAGES, "temperature": 0, "max_completion_tokens": MAX_TOKENS, **arguments}

    def response(self, **arguments):
        return {"model": "agent", "input": QUESTION, "temperature": 0, "max_output_tokens": MAX_TOKENS, **arguments}


class ChatCheck(OpenAiCheck):
    def test_response_formats(self):
        answer = self.client.chat.completions.create(**self.chat(response_format={"type": "json_schema", "json_schema": SCHEMA}))
        ChatCompletion.model_validate(answer.to_dict())
        Pick.model_validate_json(answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        answer = self.client.chat.completions.create(**self.chat(response_format={"type": "json_object"}, logit_bias=bias(SERVER)))
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertTrue(answer.choices[0].message.content.startswith("{"))

    def test_parse(self):
        for shape in (Pick, Note):
            answer = self.client.chat.completions.parse(**self.chat(response_format=shape))
            self.assertIsInstance(answer.choices[0].message.parsed, shape)

    def test_parsed_tools(self):
        answer = self.client.chat.completions.parse(**self.chat(tools=[PICK, NOTE], tool_choice="required", parallel_tool_calls=False))
        self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
        [call] = answer.choices[0].message.tool_calls
        self.assertIsInstance(call.function.parsed_arguments, (Pick, Note))
        answer = self.client.chat.completions.parse(**self.chat(tools=[PICK, NOTE], tool_choice={"type": "function", "function": {"name": "Note"}}))
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertIsInstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Note)

    def test_streams_of_parsed_answers(self):
        with self.client.chat.completions.stream(**self.chat(response_format=Note)) as stream:
            kinds = {event.type for event in stream}
            parsed = stream.get_final_completion().choices[0].message.parsed
        self.assertLessEqual({"content.delta", "content.done"}, kinds)
        self.assertEqual(parsed, self.client.chat.completions.parse(**self.chat(response_format=Note)).choices[0].message.parsed)
        forced = self.chat(tools=[PICK, NOTE], tool_choice="required", parallel_tool_calls=False)
        with self.client.chat.completions.stream(**forced) as stream:
            kinds = {event.type for event in stream}
            [call] = stream.get_final_completion().choices[0].message.tool_calls
        self.assertLessEqual({"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"}, kinds)
        [whole] = self.client.chat.completions.parse(**forced).choices[0].message.tool_calls
        self.assertEqual(call.function.parsed_arguments, whole.function.parsed_arguments)

    def test_a_conversation_with_a_tool(self):
        forced = self.chat(tools=[PICK], tool_choice="required", parallel_tool_calls=False)
        chunks = list(self.client.chat.completions.create(**forced, stream=True))
        for chunk in chunks:
            ChatCompletionChunk.model_validate(chunk.to_dict())
        message = self.client.chat.completions.create(**forced).choices[0].message
        arguments = "".join(part.function.arguments for chunk in chunks for part in chunk.choices[0].delta.tool_calls or [])
        self.assertEqual(arguments, message.tool_calls[0].function.arguments)
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "It is."}
        last = self.client.chat.completions.create(**self.chat(messages=[*MESSAGES, message, result], tools=[PICK]))
        self.assertIsNone(last.choices[0].message.tool_calls)


class ResponsesCheck(OpenAiCheck):
    def test_parse(self):
        for shape in (Pick, Note):
            answer = self.client.responses.parse(**self.response(text_format=shape))
            self.assertIsInstance(answer.output_parsed, shape)
            with self.client.responses.stream(**self.response(text_format=shape)) as stream:
                for _ in stream:
                    pass
                self.assertEqual(stream.get_final_response().output_parsed, answer.output_parsed)

    def test_parsed_tools(self):
        forced = self.response(tools=[self.flat(PICK_OF_RESPONSES), self.flat(NOTE_OF_RESPONSES)], tool_choice="required", parallel_tool_calls=False)
        answer = self.client.responses.parse(**forced)
        [call] = answer.output
        {"Pick": Pick, "Note": Note}[call.name].model_validate(call.parsed_arguments)

    @staticmethod
    def flat(tool):
        return {"type": "function", **{name: value for name, value in tool["function"].items() if name != "parameters"},
                "parameters": tool["function"]["parameters"]}

    def test_a_conversation_with_a_tool(self):
        forced = self.response(tools=[self.flat(PICK)], tool_choice={"type": "function", "name": "Pick"})
        events = list(self.client.responses.create(**forced, stream=True))
        self.assertEqual(events[-1].type, "response.completed")
        [call] = events[-1].response.output
        whole = self.client.responses.create(**forced)
        Response.model_validate(whole.to_dict())
        self.assertEqual(call.arguments, whole.output[0].arguments)
        Pick.model_validate_json(call.arguments)
        history = [{"role": "user", "content": QUESTION}, call, {"type": "function_call_output", "call_id": call.call_id, "output": "It is."}]
        last = self.client.responses.create(**self.response(input=history, tools=[self.flat(PICK)]))
        self.assertGreater(last.usage.input_tokens, whole.usage.input_tokens)
        self.assertLessEqual({item.type for item in last.output}, {"message"})


if __name__ == "__main__":
    unittest.main()
