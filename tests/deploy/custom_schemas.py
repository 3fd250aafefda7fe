"""JSON schemas of the kinds that Kubernetes itself does not have, as far as our manifests use them: whatever else is in one is an error."""

TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
DURATION = {"type": "string", "pattern": r"^\d+(s|m|h)$"}


def closed(required, **properties):
    """An object with these properties and no others."""
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def some(items):
    return {"type": "array", "minItems": 1, "items": items}


def custom_resource(kind, spec):
    """Of the Prometheus operator."""
    return closed(["apiVersion", "kind", "metadata", "spec"], apiVersion={"const": "monitoring.coreos.com/v1"}, kind={"const": kind},
                  metadata=closed(["name"], name={"type": "string"}, labels=TEXTS), spec=spec)


def monitor(kind, endpoints):
    endpoint = closed(["port"], port={"type": "string"}, path={"type": "string", "pattern": "^/"}, interval=DURATION,
                      scheme={"enum": ["http", "https"]})
    selector = closed(["matchLabels"], matchLabels=TEXTS)
    return custom_resource(kind, closed(["selector", endpoints], selector=selector, jobLabel={"type": "string"}, **{endpoints: some(endpoint)}))


EXPRESSION = {"type": "string", "minLength": 1}
RECORDING = closed(["record", "expr"], record={"type": "string", "pattern": "^[a-z_:0-9]+$"}, expr=EXPRESSION)
ALERT = closed(["alert", "expr", "labels", "annotations"], alert={"type": "string"}, expr=EXPRESSION, labels=TEXTS, annotations=TEXTS,
               **{"for": DURATION})
RULES = closed(["groups"], groups=some(closed(["name", "rules"], name={"type": "string"}, rules=some({"oneOf": [RECORDING, ALERT]}))))

SCHEMAS = {
    "ServiceMonitor": monitor("ServiceMonitor", "endpoints"),
    "PodMonitor": monitor("PodMonitor", "podMetricsEndpoints"),
    "PrometheusRule": custom_resource("PrometheusRule", RULES),
}
