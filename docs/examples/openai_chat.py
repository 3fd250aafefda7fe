#!/usr/bin/env python3
"""Asks a Lockstep router through OpenAI's own client and prints the answer as it arrives.

    pip install openai
    python3 docs/examples/openai_chat.py "What is the capital city of Japan?"
"""

import argparse
import sys

import openai


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="127.0.0.1:8000", help="what the router was given as --listen")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the best token each time")
    parser.add_argument("question")
    arguments = parser.parse_args()

    client = openai.OpenAI(base_url=f"http://{arguments.server}/v1", api_key="none")
    try:
        model = client.models.list().data[0].id
        stream = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": arguments.question}],
            temperature=arguments.temperature,
            max_completion_tokens=arguments.max_tokens,
            stream=True,
            stream_options={"include_usage": True},
        )
        # Leaving the loop early ("break") closes the connection, which ends the request on the server.
        for chunk in stream:
            if chunk.choices:
                print(chunk.choices[0].delta.content or "", end="", flush=True)
                reason = chunk.choices[0].finish_reason or ""
            else:
                usage = chunk.usage
        print(f"\n[{reason}: {usage.prompt_tokens} prompt tokens, "
              f"{usage.prompt_tokens_details.cached_tokens} of them cached, {usage.completion_tokens} generated]")
    except openai.APIStatusError as error:
        # Wrong input names the field: "top_p: expected ...".
        sys.exit(f"{error.status_code} {error.type}: {error.body['message']}")


if __name__ == "__main__":
    main()
