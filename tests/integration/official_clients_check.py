"""Python's gRPC, as it is, against a router: everything that the front must do as gRPC's own server would.

    PYTHONPATH=STUBS python3 tests/integration/official_clients_check.py HOST:PORT
"""
import sys
import threading

import grpc

from lockstep.v1 import generation_pb2 as pb
from lockstep.v1 import generation_pb2_grpc

TIMEOUT = 60


def request(num_tokens, prompt=(3, 4, 5)):
    message = pb.GenerateRequest()
    message.token_ids.ids.extend(prompt)
    message.sampling.temperature = 0
    message.stop.max_tokens = num_tokens
    message.stop.ignore_eos = True
    return message


def tokens(stream):
    return [token for message in stream for token in message.delta.token_ids]


def status_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def expect(what, seen, wanted):
    assert seen == wanted, f"{what}: expected {wanted}, got {seen}"


def check_calls(channel, stub):
    expect("GetModel", stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT).vocab_size > 0, True)
    first = tokens(stub.Generate(request(30), timeout=TIMEOUT))
    expect("Generate", len(first), 30)
    expect("the same again", tokens(stub.Generate(request(30), timeout=TIMEOUT)), first)
    reply, call = stub.ListModels.with_call(pb.ListModelsRequest(), timeout=TIMEOUT,
                                            metadata=(("x-anything", "value"), ("x-some-bin", b"\0\xff")))
    expect("ListModels", (len(reply.models), call.code()), (1, grpc.StatusCode.OK))
    text = stub.Tokenize(pb.TokenizeRequest(text="Hello"), timeout=TIMEOUT)
    expect("Tokenize", len(text.token_ids) > 0, True)


def check_endings(channel, stub):
    expect("a deadline that passes", status_of(lambda: tokens(stub.Generate(request(250), timeout=0.0005))),
           grpc.StatusCode.DEADLINE_EXCEEDED)
    stream = stub.Generate(request(250), timeout=TIMEOUT)
    next(stream)
    stream.cancel()
    expect("a cancelled call", status_of(lambda: tokens(stream)), grpc.StatusCode.CANCELLED)
    bad = request(5)
    bad.sampling.top_p = 2
    error = None
    try:
        tokens(stub.Generate(bad, timeout=TIMEOUT))
    except grpc.RpcError as caught:
        error = caught
    expect("a bad value", error.code(), grpc.StatusCode.INVALID_ARGUMENT)
    expect("its field", "sampling.top_p" in error.details(), True)
    unknown = channel.unary_unary("/lockstep.v1.Generation/NoSuchMethod")
    expect("an unknown method", status_of(lambda: unknown(b"", timeout=TIMEOUT)), grpc.StatusCode.UNIMPLEMENTED)
    raw = channel.unary_unary("/lockstep.v1.Generation/GetModel")
    expect("no message at all", status_of(lambda: raw(b"\xff\xff", timeout=TIMEOUT)),
           grpc.StatusCode.INVALID_ARGUMENT)
    health = channel.unary_unary("/grpc.health.v1.Health/Check")
    expect("health", health(b"\x0a\x16lockstep.v1.Generation", timeout=TIMEOUT), b"\x08\x01")
    large = pb.GenerateRequest(text="x" * (8 << 20))
    expect("a large message", status_of(lambda: tokens(stub.Generate(large, timeout=TIMEOUT))),
           grpc.StatusCode.RESOURCE_EXHAUSTED)
    expect("a large header",
           status_of(lambda: stub.GetModel(pb.GetModelRequest(), timeout=TIMEOUT,
                                           metadata=(("x-large", "y" * 20000),))),
           grpc.StatusCode.RESOURCE_EXHAUSTED)


def check_compression(address):
    with grpc.insecure_channel(address, compression=grpc.Compression.Gzip) as channel:
        stub = generation_pb2_grpc.GenerationStub(channel)
        expect("a compressed message",
               status_of(lambda: stub.Tokenize(pb.TokenizeRequest(text="x" * 5000), timeout=TIMEOUT)),
               grpc.StatusCode.UNIMPLEMENTED)


def check_many_streams(stub):
    """More than a step has rows, on one connection."""
    results = {}

    def generate(index):
        results[index] = tokens(stub.Generate(request(40, (index % 50 + 1, 7)), timeout=TIMEOUT))

    threads = [threading.Thread(target=generate, args=(i,)) for i in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in range(100):
        expect(f"stream {index}", results.get(index), results[index % 50])
        expect(f"stream {index}", len(results[index]), 40)


def check_keepalive(address):
    options = (("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_timeout_ms", 5000),
               ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 0))
    with grpc.insecure_channel(address, options=options) as channel:
        stub = generation_pb2_grpc.GenerationStub(channel)
        stream = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=3)
        expect("watching", next(stream), b"\x08\x01")
        # Three pings later.
        expect("the end of the watch", status_of(lambda: list(stream)), grpc.StatusCode.DEADLINE_EXCEEDED)
        expect("Generate", len(tokens(stub.Generate(request(5), timeout=TIMEOUT))), 5)


def check_slow_reader(stub):
    """Large messages through a window that the reader opens late."""
    message = request(200, range(1, 40))
    message.output.logprobs = 20
    message.output.prompt_logprobs = 20
    slow = stub.Generate(message, timeout=TIMEOUT)
    expect("somebody else", len(tokens(stub.Generate(request(20), timeout=TIMEOUT))), 20)
    expect("the slow reader", len(tokens(slow)), 200)


def main():
    address = sys.argv[1]
    with grpc.insecure_channel(address) as channel:
        stub = generation_pb2_grpc.GenerationStub(channel)
        check_calls(channel, stub)
        check_endings(channel, stub)
        check_many_streams(stub)
        check_slow_reader(stub)
    check_compression(address)
    check_keepalive(address)
    print("all right")


main()
