"""OpenAI's own Python client against a running router: http_clients_test runs it.

    python3 openai_client_check.py HOST:PORT
"""

import sys
import unittest

import openai

MESSAGES = [{"role": "user", "content": "Hello?"}]
SERVER = sys.argv.pop(1)


class OpenAiClientCheck(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{SERVER}/v1", api_key="none", max_retries=0, timeout=60)
        self.model = self.client.models.list().data[0].id

    def tearDown(self):
        self.client.close()

    def chat(self, **arguments):
        return self.client.chat.completions.create(
            **{"model": self.model, "messages": MESSAGES, "temperature": 0, "max_completion_tokens": 6, **arguments})

    def complete(self, **arguments):
        return self.client.completions.create(
            **{"model": self.model, "prompt": "Once", "temperature": 0, "max_tokens": 6, **arguments})

    def test_models(self):
        self.assertEqual(self.client.models.retrieve(self.model).id, self.model)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")

    def test_chat(self):
        answer = self.chat(n=2, seed=7)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertEqual(answer.choices[0].message.content, answer.choices[1].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 12)
        self.assertTrue(answer._request_id)

    def test_streamed_chat_says_the_same(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]),
                         whole.choices[0].message.content)
        self.assertEqual(chunks[-2].choices[0].finish_reason, "length")
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.total_tokens, whole.usage.total_tokens)
        self.assertEqual(len({(chunk.id, chunk.created) for chunk in chunks}), 1)
        self.assertEqual(len(list(self.chat(stream=True))[-1].choices), 1)

    def test_chat_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
        self.assertEqual(len(content), 6)
        for token in content:
            self.assertEqual(len(token.top_logprobs), 2)
            self.assertEqual(token.top_logprobs[0].logprob, token.logprob)  # greedy
            self.assertLessEqual(token.top_logprobs[1].logprob, token.logprob)
            self.assertTrue(token.bytes)
        streamed = [token for chunk in self.chat(logprobs=True, top_logprobs=2, stream=True)
                    if chunk.choices[0].logprobs for token in chunk.choices[0].logprobs.content]
        self.assertEqual(streamed, content)

    def test_completions_of_texts_and_tokens(self):
        batch = self.complete(prompt=["Once", "upon"])
        self.assertEqual(batch.choices[0].text, self.complete().choices[0].text)
        self.assertEqual([choice.index for choice in batch.choices], [0, 1])
        tokens = self.complete(prompt=[[5, 6, 7], [5, 6, 7]])
        self.assertEqual(tokens.choices[0].text, tokens.choices[1].text)
        self.assertEqual(tokens.usage.prompt_tokens, 6)
        streamed = self.complete(stream=True)
        self.assertEqual("".join(chunk.choices[0].text for chunk in streamed), batch.choices[0].text)

    def test_scores_a_prompt_as_evaluation_harnesses_do(self):
        prompt = [5, 6, 7, 8]
        logprobs = self.complete(prompt=[prompt], echo=True, logprobs=1, max_tokens=1).choices[0].logprobs
        self.assertEqual(len(logprobs.tokens), len(prompt) + 1)
        self.assertIsNone(logprobs.token_logprobs[0])
        self.assertIsNone(logprobs.top_logprobs[0])
        for logprob, top in zip(logprobs.token_logprobs[1:], logprobs.top_logprobs[1:]):
            self.assertLessEqual(logprob, max(top.values()))
        scored = self.complete(prompt=prompt, echo=True, logprobs=1, max_tokens=0)
        self.assertEqual(scored.choices[0].logprobs.token_logprobs, logprobs.token_logprobs[:-1])

    def test_extra_fields(self):
        answer = self.complete(max_tokens=30, extra_body={"ignore_eos": True, "min_tokens": 30, "top_k": 5})
        self.assertEqual(answer.usage.completion_tokens, 30)
        first = {"max_tokens": 1, "logprobs": 0, "extra_body": {"return_tokens_as_token_ids": True}}
        best = self.complete(**first).choices[0].logprobs.tokens[0]
        banned = self.complete(logit_bias={best.removeprefix("token_id:"): -100}, **first)
        self.assertNotEqual(banned.choices[0].logprobs.tokens[0], best)

    def test_an_answer_is_continued(self):
        begun = MESSAGES + [{"role": "assistant", "content": "Well, "}]
        answer = self.chat(messages=begun, extra_body={"continue_final_message": True, "return_token_ids": True})
        prompt = self.tokenize({"messages": begun, "continue_final_message": True, "return_token_strs": True})
        self.assertEqual(answer.prompt_token_ids, prompt["tokens"])
        self.assertTrue("".join(prompt["token_strs"]).endswith("<|end_header_id|>ĊĊWell,"))
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(messages=begun, extra_body={"continue_final_message": True, "add_generation_prompt": True})
        self.assertEqual(raised.exception.param, "add_generation_prompt")

    def test_bad_words_never_come(self):
        sampled = {"max_tokens": 40, "temperature": 1.0, "seed": 3, "extra_body": {"ignore_eos": True}}
        free = self.complete(**sampled).choices[0].text
        word = next(character for character in free if character.isascii() and character.isalpha())
        sampled["extra_body"]["bad_words"] = [word]
        sampled["extra_body"]["return_token_ids"] = True
        forbidden = self.tokenize({"prompt": word, "add_special_tokens": False})["tokens"][0]
        for seed in range(5):
            self.assertNotIn(forbidden, self.complete(**{**sampled, "seed": seed}).choices[0].token_ids)
        with self.assertRaises(openai.BadRequestError) as raised:
            self.complete(extra_body={"bad_words": ["a word of several tokens"]})
        self.assertEqual(raised.exception.param, "bad_words[0]")
        self.assertEqual(raised.exception.code, "unsupported_parameter")

    def test_prompt_logprobs_are_those_of_an_echo(self):
        prompt = [5, 6, 7, 8]
        asked = self.complete(prompt=prompt, extra_body={"prompt_logprobs": 2}).choices[0].prompt_logprobs
        echoed = self.complete(prompt=prompt, echo=True, logprobs=2, max_tokens=0).choices[0].logprobs
        self.assertIsNone(asked[0])
        for token, entry, logprob in zip(prompt[1:], asked[1:], echoed.token_logprobs[1:]):
            self.assertEqual(entry[str(token)]["logprob"], logprob)
            ranks = [value["rank"] for value in entry.values()]
            self.assertIn(1, ranks)
            self.assertIn(len(ranks), (2, 3))
        self.assertEqual(len(self.chat(extra_body={"prompt_logprobs": 0}).prompt_logprobs),
                         self.chat().usage.prompt_tokens)

    def tokenize(self, body):
        return self.client.post(f"http://{SERVER}/tokenize", body=body, cast_to=object)

    def test_errors_name_their_field(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(top_p=1.5)
        self.assertEqual(raised.exception.param, "top_p")
        self.assertEqual(raised.exception.type, "invalid_request_error")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.complete(prompt=[5] * 1000)
        self.assertEqual(raised.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(response_format={"type": "json_object"})
        self.assertEqual(raised.exception.param, "response_format")
        with self.assertRaises(openai.NotFoundError) as raised:
            self.chat(model="other", stream=True)
        self.assertEqual(raised.exception.code, "model_not_found")

    def test_a_stream_may_be_left_early(self):
        stream = self.complete(stream=True, max_tokens=200, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.assertEqual(self.complete(max_tokens=1).usage.completion_tokens, 1)


if __name__ == "__main__":
    unittest.main()
