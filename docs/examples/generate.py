#!/usr/bin/env python3
r"""Asks a Lockstep router over gRPC and prints the answer as it arrives.

    pip install grpcio-tools && mkdir -p build/stubs
    python3 -m grpc_tools.protoc -I proto --python_out=build/stubs --grpc_python_out=build/stubs \
        proto/lockstep/v1/generation.proto
    PYTHONPATH=build/stubs python3 docs/examples/generate.py "What is the capital city of Japan?"
"""

import argparse
import sys

import grpc
from lockstep.v1 import generation_pb2 as messages
from lockstep.v1 import generation_pb2_grpc as services


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="127.0.0.1:50051", help="address of the router")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the best token each time")
    parser.add_argument("question")
    arguments = parser.parse_args()

    request = messages.GenerateRequest(
        chat=messages.ChatPrompt(
            messages=[messages.ChatMessage(role="user", content=arguments.question)]),
        sampling=messages.SamplingParams(temperature=arguments.temperature),
        stop=messages.StopCriteria(max_tokens=arguments.max_tokens),
    )
    with grpc.insecure_channel(arguments.server) as channel:
        generation = services.GenerationStub(channel)
        try:
            # Leaving the loop early, or cancelling the call, ends the request on the server.
            for response in generation.Generate(request, timeout=300):
                event = response.WhichOneof("event")
                if event == "delta":
                    print(response.delta.text, end="", flush=True)
                elif event == "finish":
                    usage = response.finish.usage
                    reason = messages.FinishReason.Name(response.finish.reason)
                    print(f"\n[{reason}: {usage.prompt_tokens} prompt tokens, "
                          f"{usage.cached_tokens} of them cached, {usage.completion_tokens} generated]")
        except grpc.RpcError as error:
            # Wrong input names the field: "sampling.top_p: expected ...".
            sys.exit(f"{error.code().name}: {error.details()}")


if __name__ == "__main__":
    main()
