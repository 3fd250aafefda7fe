"""Traces of a router, as OpenTelemetry's own messages and service read them: otlp_test runs it.

    PYTHONPATH=build/clients python3 tests/clients/otlp_check.py --programs FOLDER --model FOLDER

The receiver is generated from opentelemetry-proto, so what it understands is OTLP.
"""

import argparse
import json
import pathlib
import queue
import subprocess
import sys
import unittest
import urllib.error
import urllib.request
from concurrent import futures

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server_process import PATIENCE, Server, wait_until  # noqa: E402

OPTIONS = None
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
STATE = "vendor=some thing,other=1"
SECRET_PROMPT = "nobody else may read this"


def traceparent(sampled=True, trace=TRACE):
    return f"00-{trace}-{PARENT}-{'01' if sampled else '00'}"


class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector of spans, as a context."""

    def __init__(self):
        self.requests = queue.Queue()
        self.num_spans = 0
        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"

    def Export(self, request, context):
        # One call at a time: a router has one batch on its way.
        self.num_spans += sum(len(scope.spans) for group in request.resource_spans for scope in group.scope_spans)
        self.requests.put(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop(0)

    def next_request(self):
        """One message. Nothing in it is unknown to OpenTelemetry's own messages."""
        request = self.requests.get(timeout=PATIENCE)
        canonical = type(request).FromString(request.SerializeToString())
        canonical.DiscardUnknownFields()
        assert canonical.ByteSize() == request.ByteSize(), "fields that OTLP does not know"
        return request

    def next_spans(self):
        return [span for group in self.next_request().resource_spans for scope in group.scope_spans for span in scope.spans]

    def next_span(self):
        spans = self.next_spans()
        assert len(spans) == 1, spans
        return spans[0]


def python_value(value):
    if value.WhichOneof("value") == "array_value":
        return [python_value(one) for one in value.array_value.values]
    return getattr(value, value.WhichOneof("value"))


def attributes_of(message):
    keys = [pair.key for pair in message.attributes]
    assert len(keys) == len(set(keys)), f"keys come twice: {keys}"
    return {pair.key: python_value(pair.value) for pair in message.attributes}


def start_worker():
    return Server(OPTIONS.programs / "lockstep-worker", "--model", OPTIONS.model, "--device", "cpu", "--threads", "1", "--listen", "127.0.0.1:0",
                  "--admin-listen", "127.0.0.1:0")


def start_router(worker, endpoint, *flags):
    return Server(OPTIONS.programs / "lockstep-router", "--model", OPTIONS.model, "--worker", worker.addresses["grpc"], "--listen", "127.0.0.1:0",
                  "--admin-listen", "127.0.0.1:0", "--otlp-endpoint", endpoint, *flags)


def post(router, path, body, **headers):
    headers = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = urllib.request.Request(f"http://{router.addresses['grpc']}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
        return json.load(reply)


def metric(router, series):
    with urllib.request.urlopen(f"http://{router.addresses['admin']}/metrics", timeout=PATIENCE) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith(series + " "):
                return float(line.rpartition(" ")[2])
    return None


def is_ready(router):
    try:
        urllib.request.urlopen(f"http://{router.addresses['admin']}/healthz", timeout=PATIENCE).close()
        return True
    except urllib.error.HTTPError:
        return False


def generate_over_grpc(router, metadata):
    channel = grpc.insecure_channel(router.addresses["grpc"])
    pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    method = pool.FindServiceByName("lockstep.v1.Generation").FindMethodByName("Generate")
    request, answer = (message_factory.GetMessageClass(kind) for kind in (method.input_type, method.output_type))
    call = channel.unary_stream("/lockstep.v1.Generation/Generate", request_serializer=request.SerializeToString,
                                response_deserializer=answer.FromString)
    message = request(request_id="over-grpc", token_ids={"ids": [3, 4, 5]}, stop={"max_tokens": 3, "ignore_eos": True})
    answers = list(call(message, metadata=metadata, timeout=PATIENCE))
    channel.close()
    return answers


class OtlpCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.receiver = cls.enterClassContext(Receiver())
        cls.worker = cls.enterClassContext(start_worker())
        cls.router = cls.enterClassContext(start_router(cls.worker, cls.receiver.address, "--trace-service-name", "the router"))
        wait_until(lambda: is_ready(cls.router), "the router is ready")

    def test_a_completion_is_a_child_of_its_client(self):
        post(self.router, "/v1/completions", {"prompt": SECRET_PROMPT, "max_tokens": 4, "temperature": 0.5, "top_p": 0.25, "ignore_eos": True},
             traceparent=traceparent(), tracestate=STATE, X_Request_Id="mine-1")
        request = self.receiver.next_request()
        self.assertNotIn(SECRET_PROMPT, str(request))
        (group,) = request.resource_spans
        resource = attributes_of(group.resource)
        self.assertEqual(resource["service.name"], "the router")
        self.assertIn("service.version", resource)
        (scope,) = group.scope_spans
        (span,) = scope.spans
        self.assertEqual(scope.scope.name, "lockstep")
        self.assertEqual((span.trace_id.hex(), span.parent_span_id.hex()), (TRACE, PARENT))
        self.assertEqual(len(span.span_id), 8)
        self.assertEqual(span.trace_state, STATE)
        self.assertEqual(span.kind, trace_pb2.Span.SPAN_KIND_SERVER)
        self.assertEqual(span.name, "text_completion tiny-llama")
        self.assertEqual(span.flags, 0x301)
        self.assertEqual(span.status.code, trace_pb2.Status.STATUS_CODE_UNSET)
        attributes = attributes_of(span)
        self.assertTrue(attributes.pop("lockstep.request.id").startswith("request-"))
        for phase in ("queue", "prefill", "decode"):
            self.assertGreaterEqual(attributes.pop(f"lockstep.{phase}_seconds"), 0)
        num_prompt_tokens = attributes.pop("gen_ai.usage.input_tokens")
        self.assertGreater(num_prompt_tokens, 4)
        self.assertEqual(attributes, {
            "gen_ai.provider.name": "lockstep", "gen_ai.operation.name": "text_completion", "gen_ai.request.model": "tiny-llama",
            "gen_ai.request.max_tokens": 4, "gen_ai.request.temperature": 0.5, "gen_ai.request.top_p": 0.25,
            "gen_ai.usage.output_tokens": 4, "gen_ai.usage.cache_read.input_tokens": 0, "gen_ai.response.finish_reasons": ["length"],
            "lockstep.worker": self.worker.addresses["grpc"], "http.route": "/v1/completions",
            "http.request.header.x-request-id": ["mine-1"]})
        self.assertEqual([event.name for event in span.events], ["queued", "started", "first_token"])
        times = [span.start_time_unix_nano, *(event.time_unix_nano for event in span.events), span.end_time_unix_nano]
        self.assertEqual(times, sorted(times))

    def test_a_chat_without_a_trace_begins_one(self):
        post(self.router, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "n": 2, "ignore_eos": True})
        span = self.receiver.next_span()
        self.assertEqual((span.name, span.parent_span_id, span.flags), ("chat tiny-llama", b"", 0x101))
        attributes = attributes_of(span)
        self.assertEqual(attributes["gen_ai.usage.output_tokens"], 4)
        self.assertEqual(attributes["gen_ai.request.choice.count"], 2)
        self.assertEqual(attributes["gen_ai.response.finish_reasons"], ["length", "length"])

    def test_a_batch_of_prompts_is_one_span(self):
        post(self.router, "/v1/completions", {"prompt": [[3, 4], [5, 6, 7]], "max_tokens": 2, "ignore_eos": True}, traceparent=traceparent())
        attributes = attributes_of(self.receiver.next_span())
        self.assertEqual(attributes["gen_ai.usage.input_tokens"], 5)
        self.assertEqual(attributes["gen_ai.usage.output_tokens"], 4)

    def test_over_grpc(self):
        self.assertGreater(len(generate_over_grpc(self.router, (("traceparent", traceparent()), ("tracestate", "a=1"), ("tracestate", "b=2")))), 0)
        span = self.receiver.next_span()
        self.assertEqual((span.trace_id.hex(), span.parent_span_id.hex(), span.trace_state), (TRACE, PARENT, "a=1,b=2"))
        self.assertEqual(span.name, "text_completion tiny-llama")
        attributes = attributes_of(span)
        self.assertEqual(attributes["rpc.method"], "lockstep.v1.Generation/Generate")
        self.assertEqual(attributes["lockstep.request.id"], "over-grpc")

    def test_over_http2(self):
        subprocess.run(["curl", "--silent", "--show-error", "--fail", "--http2-prior-knowledge", "-H", "Content-Type: application/json",
                        "-H", f"traceparent: {traceparent()}", "-H", "tracestate: a=1", "-H", "tracestate: b=2", "-d",
                        json.dumps({"prompt": [3], "max_tokens": 1}), f"http://{self.router.addresses['grpc']}/v1/completions"],
                       check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
        span = self.receiver.next_span()
        self.assertEqual((span.trace_id.hex(), span.parent_span_id.hex(), span.trace_state), (TRACE, PARENT, "a=1,b=2"))

    def test_a_refused_request_has_its_reason(self):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            post(self.router, "/v1/completions", {"prompt": "x", "top_p": 7}, traceparent=traceparent())
        refused.exception.close()
        span = self.receiver.next_span()
        self.assertEqual(attributes_of(span)["error.type"], "INVALID_ARGUMENT")
        # The client's fault, so not an error of the server.
        self.assertEqual(span.status.code, trace_pb2.Status.STATUS_CODE_UNSET)

    def test_what_the_client_does_not_record_is_not_recorded(self):
        body = {"prompt": [3], "max_tokens": 1}
        post(self.router, "/v1/completions", body, traceparent=traceparent(sampled=False))
        post(self.router, "/v1/completions", body, traceparent=traceparent(trace="c" * 32))
        self.assertEqual(self.receiver.next_span().trace_id.hex(), "c" * 32)

    def test_a_bad_header_is_no_header(self):
        answer = post(self.router, "/v1/completions", {"prompt": [3], "max_tokens": 1}, traceparent=traceparent().upper(), tracestate="x=y")
        self.assertEqual(len(answer["choices"]), 1)
        span = self.receiver.next_span()
        self.assertNotEqual(span.trace_id.hex(), TRACE)
        self.assertEqual((span.parent_span_id, span.trace_state), (b"", ""))

    def test_spans_are_counted(self):
        series = 'lockstep_router_spans_exported_total{model="tiny-llama"}'
        post(self.router, "/v1/completions", {"prompt": [3], "max_tokens": 1})
        self.receiver.next_span()
        # The router counts when it has the answer, so the spans of other tests may come late as well.
        wait_until(lambda: metric(self.router, series) == self.receiver.num_spans, "the spans are counted")


class FlushCheck(unittest.TestCase):
    def test_the_end_of_a_router_sends_what_is_left(self):
        with Receiver() as receiver, start_worker() as worker, start_router(worker, receiver.address) as router:
            wait_until(lambda: is_ready(router), "the router is ready")
            for _ in range(3):
                post(router, "/v1/completions", {"prompt": [3], "max_tokens": 1})
            self.assertEqual(router.stop(), 0)
            # All were sent before the process ended.
            spans = []
            while not receiver.requests.empty():
                spans += receiver.next_spans()
            self.assertEqual(len(spans), 3)

    def test_a_ratio_of_zero_records_only_what_clients_record(self):
        with Receiver() as receiver, start_worker() as worker, start_router(worker, receiver.address, "--trace-sample-ratio", "0") as router:
            wait_until(lambda: is_ready(router), "the router is ready")
            body = {"prompt": [3], "max_tokens": 1}
            post(router, "/v1/completions", body)
            post(router, "/v1/completions", body, traceparent=traceparent())
            self.assertEqual(receiver.next_span().trace_id.hex(), TRACE)

    def test_without_a_collector_requests_are_served(self):
        with Receiver() as gone:
            endpoint = gone.address
        with start_worker() as worker, start_router(worker, endpoint) as router:
            wait_until(lambda: is_ready(router), "the router is ready")
            for _ in range(5):
                self.assertEqual(len(post(router, "/v1/completions", {"prompt": [3], "max_tokens": 1})["choices"]), 1)
            self.assertEqual(router.stop(), 0)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    OPTIONS, arguments = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *arguments], warnings="ignore")


if __name__ == "__main__":
    main()
