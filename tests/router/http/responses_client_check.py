"""OpenAI's own Python client and its Responses API against a running router: http_clients_test runs it.

The client does not check what it gets, so the types of the package do it here.

    python3 responses_client_check.py HOST:PORT
"""

import sys
import unittest

import openai
import pydantic
from openai.types.responses import Response, ResponseStreamEvent

SERVER = sys.argv.pop(1)
EVENT = pydantic.TypeAdapter(ResponseStreamEvent)
INPUT = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]


def checked(response):
    """The response, if it has the package's types."""
    Response.model_validate(response.to_dict())
    return response


def same(response):
    """What two equal answers have in common."""
    fields = response.to_dict()
    for name in ("id", "created_at"):
        del fields[name]
    for item in fields["output"]:
        del item["id"]
    del fields["usage"]["input_tokens_details"]["cached_tokens"]
    return fields


class ResponsesClientCheck(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{SERVER}/v1", api_key="none", max_retries=0, timeout=60)
        self.model = self.client.models.list().data[0].id

    def tearDown(self):
        self.client.close()

    def arguments(self, **arguments):
        return {"model": self.model, "input": INPUT, "temperature": 0, "max_output_tokens": 20,
                "extra_body": {"seed": 7}, **arguments}

    def create(self, **arguments):
        return self.client.responses.create(**self.arguments(**arguments))

    def stop_in_midst(self):
        """A stop string that ends the answer before its limit."""
        text = self.create().output_text
        return next(character for character in text[3:] if character not in text[:3])

    def test_a_response(self):
        answer = checked(self.create(instructions="You are kind.", metadata={"k": "v"}))
        self.assertEqual(answer.object, "response")
        self.assertTrue(answer.id.startswith("resp_"))
        self.assertEqual(answer.model, self.model)
        self.assertEqual(answer.status, "incomplete")
        self.assertEqual(answer.incomplete_details.reason, "max_output_tokens")
        self.assertEqual(answer.instructions, "You are kind.")
        self.assertEqual(answer.metadata, {"k": "v"})
        self.assertEqual(answer.usage.output_tokens, 20)
        self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + 20)
        self.assertEqual([item.type for item in answer.output], ["message"])
        self.assertEqual(answer.output_text, answer.output[0].content[0].text)
        self.assertFalse(answer.store)

    def test_the_prompt_is_that_of_a_chat(self):
        chat = self.client.chat.completions.create(
            model=self.model, temperature=0, max_completion_tokens=20,
            messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}])
        answer = self.create()
        self.assertEqual(answer.output_text, chat.choices[0].message.content)
        self.assertEqual(answer.usage.input_tokens, chat.usage.prompt_tokens)

    def test_a_stream_says_the_same(self):
        stop = {"extra_body": {"seed": 7, "stop": [self.stop_in_midst()]}}
        whole = checked(self.create(**stop))
        self.assertEqual(whole.status, "completed")
        events = list(self.create(stream=True, **stop))
        for event in events:
            EVENT.validate_python(event.to_dict())
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        types = [event.type for event in events]
        self.assertEqual(types[:4], ["response.created", "response.in_progress", "response.output_item.added",
                                     "response.content_part.added"])
        self.assertEqual(types[-4:], ["response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.completed"])
        self.assertEqual(set(types[4:-4]), {"response.output_text.delta"})
        self.assertEqual("".join(event.delta for event in events[4:-4]), whole.output_text)
        self.assertEqual(same(events[-1].response), same(whole))
        with self.client.responses.stream(**self.arguments(**stop)) as stream:
            for _ in stream:
                pass
            final = stream.get_final_response()
        self.assertEqual(final.output_text, whole.output_text)
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)

    def test_a_stream_ends_at_its_limit(self):
        events = list(self.create(stream=True))
        self.assertEqual(events[-1].type, "response.incomplete")
        self.assertEqual(events[-1].response.status, "incomplete")
        EVENT.validate_python(events[-1].to_dict())

    def test_logprobs(self):
        asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
        answer = checked(self.create(**asked))
        logprobs = answer.output[0].content[0].logprobs
        self.assertEqual(len(logprobs), 20)
        for token in logprobs:
            self.assertEqual(len(token.top_logprobs), 2)
            self.assertEqual(token.top_logprobs[0].logprob, token.logprob)  # greedy
        streamed = [token for event in self.create(stream=True, **asked)
                    if event.type == "response.output_text.delta" for token in event.logprobs]
        self.assertEqual([token.to_dict() for token in streamed], [token.to_dict() for token in logprobs])

    def test_the_history_may_be_sent_back(self):
        first = self.create()
        history = INPUT + [item.to_dict() for item in first.output] + [{"role": "user", "content": "Go on."}]
        answer = checked(self.create(input=history))
        self.assertGreater(answer.usage.input_tokens, first.usage.input_tokens + 20)

    def test_tools_of_openais_servers_are_left_out_and_named(self):
        raw = self.client.responses.with_raw_response.create(**self.arguments(tools=[{"type": "web_search"}]))
        self.assertEqual(raw.headers["X-Lockstep-Ignored-Fields"], "tools[0].web_search")
        answer = checked(raw.parse())
        self.assertEqual(answer.tools[0].type, "web_search")

    def test_nothing_is_kept(self):
        answer = self.create(store=True)
        for call in (self.client.responses.retrieve, self.client.responses.delete, self.client.responses.cancel):
            with self.assertRaises(openai.NotFoundError):
                call(answer.id)
        with self.assertRaises(openai.NotFoundError) as raised:
            self.create(previous_response_id=answer.id)
        self.assertEqual(raised.exception.param, "previous_response_id")
        self.assertEqual(raised.exception.code, "previous_response_not_found")

    def test_errors_name_their_field(self):
        for arguments, param in (
                ({"top_p": 1.5}, "top_p"),
                ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x", "detail": "auto"}]}]},
                 "input[0].content[0].type"),
                ({"background": True}, "background"),
                ({"truncation": "auto"}, "truncation"),
                ({"input": []}, "input"),
                ({"max_output_tokens": 0}, "max_output_tokens")):
            with self.assertRaises(openai.BadRequestError) as raised:
                self.create(**arguments)
            self.assertEqual(raised.exception.param, param)
        with self.assertRaises(openai.BadRequestError) as raised:
            self.create(input="x " * 5000, stream=True)
        self.assertEqual(raised.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.NotFoundError) as raised:
            self.create(model="other")
        self.assertEqual(raised.exception.code, "model_not_found")


if __name__ == "__main__":
    unittest.main()
