"""What the checks of this folder ask for: an object and a tool whose values are few, so that a model that knows nothing soon ends."""

import enum
import json
import urllib.request
from typing import Literal

import pydantic


class Colour(str, enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pick(pydantic.BaseModel):
    """Picks a colour."""

    colour: Literal["red", "blue"]
    count: int = pydantic.Field(ge=0, le=9)
    sure: bool


class Note(pydantic.BaseModel):
    """Writes a note."""

    text: str = pydantic.Field(max_length=8)
    picks: list[Pick] = pydantic.Field(min_length=1, max_length=2)


QUESTION = "Which colour is it?"
MESSAGES = [{"role": "user", "content": QUESTION}]
MAX_TOKENS = 400  # of an output that takes about 100


def bias(server):
    """A bias towards the tokens that end strings and objects, for JSON without a schema."""
    ids = []
    for text in ('"', "}"):
        body = json.dumps({"prompt": text, "add_special_tokens": False}).encode()
        request = urllib.request.Request(f"http://{server}/tokenize", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            ids += json.load(answer)["tokens"]
    return {str(token): 100 for token in ids}
