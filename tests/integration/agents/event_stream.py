"""Server-sent events of a request, each checked for its form."""

import http.client
import json
import time

PATIENCE = 90  # seconds


def post(address, path, body, headers, on_event=lambda: None):
    """The events of a streamed answer, as objects. `on_event` is called after each, while the stream is open."""
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "Accept": "text/event-stream", **headers})
        answer = connection.getresponse()
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status} {answer.read().decode(errors='replace')[:2000]}")
        assert answer.headers.get_content_type() == "text/event-stream", answer.headers
        deadline = time.monotonic() + PATIENCE
        kind = None
        for line in answer:
            assert time.monotonic() < deadline, f"{path}: no end within {PATIENCE} s"
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                assert kind is None, text
                kind = text[7:]
            elif text.startswith("data: "):
                event = json.loads(text[6:])
                assert event["type"] == kind, (kind, text)
                kind = None
                yield event
                begin = time.monotonic()
                on_event()
                deadline += time.monotonic() - begin  # what the caller does is no time of the stream
            else:
                assert not text, text
    finally:
        connection.close()


def post_json(address, path, body, headers):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, f"{path}: {answer.status} {text[:2000]}"
        return json.loads(text)
    finally:
        connection.close()
