#!/usr/bin/env python3
"""Shows that an answer can be had again: asks with whatever seed the router draws, then with that seed.

    python3 docs/examples/same_answer.py "Tell me a story."
"""

import argparse
import json
import sys
import urllib.request


def ask(server, **fields):
    request = urllib.request.Request(f"http://{server}/v1/chat/completions", json.dumps(fields).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        answer = json.load(reply)
    choice = answer["choices"][0]
    print(f"{answer['system_fingerprint']} seed {choice['seed']}: {choice['message']['content']!r}")
    return answer["system_fingerprint"], choice["seed"], choice["message"]["content"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="127.0.0.1:8000", help="what the router was given as --listen")
    parser.add_argument("--max-tokens", type=int, default=50)
    parser.add_argument("question")
    arguments = parser.parse_args()

    fields = {"messages": [{"role": "user", "content": arguments.question}], "temperature": 1.0,
              "max_completion_tokens": arguments.max_tokens}
    fingerprint, seed, text = ask(arguments.server, **fields)
    again, _, same_text = ask(arguments.server, seed=seed, **fields)
    if fingerprint is None or again != fingerprint:
        print("the fingerprints say that something else may answer now: nothing is promised")
        return 0
    print("equal" if same_text == text else "NOT EQUAL")
    return 0 if same_text == text else 1


if __name__ == "__main__":
    sys.exit(main())
