"""litellm with tools and constrained outputs, over three APIs: agent_clients_check.py runs it.

    python3 litellm_check.py HOST:PORT
"""

import json
import sys
import unittest

import litellm

from shapes import MAX_TOKENS, MESSAGES, QUESTION, Note, Pick

SERVER = sys.argv.pop(1)
PICK = {"type": "function", "function": {"name": "pick", "description": "Picks a colour.", "parameters": Pick.model_json_schema()}}
# Anthropic's API has no /v1 in its address.
PROVIDERS = {"openai": f"http://{SERVER}/v1", "hosted_vllm": f"http://{SERVER}/v1", "anthropic": f"http://{SERVER}"}


def ask(provider, **arguments):
    return litellm.completion(model=f"{provider}/agent", api_base=PROVIDERS[provider], api_key="none",
                              **{"messages": MESSAGES, "max_tokens": MAX_TOKENS, "temperature": 0, "num_retries": 0, **arguments})


class LitellmCheck(unittest.TestCase):
    def test_a_tool_is_called_and_its_result_read(self):
        for provider in PROVIDERS:
            forced = {"tools": [PICK], "tool_choice": "required", "parallel_tool_calls": False}
            choice = ask(provider, **forced).choices[0]
            self.assertEqual(choice.finish_reason, "tool_calls")
            [call] = choice.message.tool_calls
            Pick.model_validate_json(call.function.arguments)
            chunks = list(ask(provider, **forced, stream=True))
            [streamed] = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls
            self.assertEqual(json.loads(streamed.function.arguments), json.loads(call.function.arguments))
            result = {"role": "tool", "tool_call_id": call.id, "content": "It is."}
            last = ask(provider, messages=[*MESSAGES, choice.message, result], tools=[PICK]).choices[0]
            self.assertFalse(last.message.tool_calls)

    def test_outputs_of_a_type(self):
        for provider in ("openai", "hosted_vllm"):
            answer = ask(provider, response_format=Note).choices[0]
            Note.model_validate_json(answer.message.content)

    def test_responses(self):
        tool = {"type": "function", **PICK["function"], "strict": False}
        answer = litellm.responses(model="openai/agent", api_base=PROVIDERS["openai"], api_key="none", input=QUESTION, max_output_tokens=MAX_TOKENS,
                                   temperature=0, tools=[tool], tool_choice={"type": "function", "name": "pick"})
        [call] = answer.output
        Pick.model_validate_json(call.arguments)


if __name__ == "__main__":
    unittest.main()
