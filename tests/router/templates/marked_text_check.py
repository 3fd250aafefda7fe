#!/usr/bin/env python3
"""Marked texts behave as plain ones: every method of str on random texts, and the operators.

    marked_text_check.py FOLDER_OF_THE_RENDERER
"""
import json
import random
import sys

sys.path.insert(0, sys.argv[1])
import marked_text  # noqa: E402
from marked_text import Marked  # noqa: E402

PIECES = ["a", "B", " ", "\n", "\t", "é", "🙂", "ß", "<s>", "</s>", "<|end|>", "'", '"', "\\", ",", "x,y", "{", "%", "7", "İ", "ǆ", "\r\n"]
CHARACTERS = sorted({c for piece in ("<s>", "</s>", "<|end|>", "<S>", "<|END|>") for c in piece})


def random_text(rng, most=8):
    return "".join(rng.choices(PIECES, k=rng.randint(0, most)))


def marked(text):
    """All of the special tokens in it marked, and nothing else."""
    for special in ("<|end|>", "</s>", "<s>"):
        text = text.replace(special, "".join(Marked._marks[c] for c in special))
    return Marked(text)


def plain(value):
    if isinstance(value, str):
        return str.translate(value, Marked._unmark)
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    return value


def outcome(call):
    try:
        return call()
    except (ValueError, IndexError, TypeError, KeyError) as error:
        return type(error)


def calls(rng):
    """(name, function of a text) of everything that a template may do with one."""
    a, b = random_text(rng, 1), random_text(rng, 2)
    count = rng.randint(-1, 4)
    begin, end, step = rng.randint(-9, 9), rng.randint(-9, 9), rng.choice([-2, -1, 1, 2, 3])
    for name in ("strip", "lstrip", "rstrip"):
        yield name, lambda t, name=name: getattr(t, name)()
        yield name + " of", lambda t, name=name: getattr(t, name)(b)
    for name in ("split", "rsplit"):
        yield name, lambda t, name=name: getattr(t, name)()
        yield name + " some", lambda t, name=name: getattr(t, name)(None, count)
        yield name + " at", lambda t, name=name: getattr(t, name)(a, count)
    for name in ("upper", "lower", "title", "capitalize", "swapcase", "casefold", "isalpha", "isdigit", "isspace", "isupper",
                 "islower", "isalnum", "istitle", "isnumeric", "isascii", "splitlines", "expandtabs", "__len__", "__hash__"):
        yield name, lambda t, name=name: getattr(t, name)()
    for name in ("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "partition", "rpartition", "removeprefix",
                 "removesuffix", "__contains__", "__eq__", "__lt__", "__add__", "__ge__", "__ne__"):
        yield name, lambda t, name=name: getattr(t, name)(a)
    yield "startswith one of", lambda t: t.startswith((a, b))
    yield "find from", lambda t: t.find(a, max(begin, 0))
    yield "splitlines with ends", lambda t: t.splitlines(True)
    yield "replace", lambda t: t.replace(a, b)
    yield "replace some", lambda t: t.replace(a, b, count)
    yield "center", lambda t: t.center(12, "*") + t.ljust(12) + t.rjust(12) + t.zfill(12)
    yield "slice", lambda t: t[begin:end:step]
    yield "item", lambda t: t[begin]
    yield "characters", lambda t: list(t)
    yield "reversed", lambda t: list(reversed(t))
    yield "repr", lambda t: repr(t) + repr([t]) + repr({"k": t, t: 1})
    yield "json", lambda t: json.dumps({"k": [t], t: 1}, ensure_ascii=False)
    yield "format", lambda t: "%s|%-9s|%.3s" % (t, t, t) + "{}|{:>9}".format(t, t) + f"{t}"
    yield "join", lambda t: t.join(["p", "q", a]) + "-".join([t, t])
    yield "sums", lambda t: "x" + t + t + "y" + t * 2 + str(t)
    yield "key", lambda t: {t: "found", "other": 1}.get(t)
    yield "sorted", lambda t: sorted([t, a, b])
    yield "then strip", lambda t: (t + a).strip().split("<s>")[-1].lstrip("\n")
    yield "equal", lambda t: (t == t, t == str(a), a == t, t != a, t < a, a < t)


def main():
    marked_text.set_characters("".join(CHARACTERS))
    rng = random.Random(11)
    num_calls = num_cases = 0
    for _ in range(3000):
        text = random_text(rng)
        hidden = marked(text)
        assert plain(hidden) == text and len(hidden) == len(text)
        for name, call in calls(rng):
            if name in ("upper", "lower", "title", "capitalize", "swapcase", "casefold") and len(call(text)) != len(text):
                num_cases += 1  # the router notices that the renderings differ
                continue
            num_calls += 1
            expected, got = outcome(lambda: call(text)), outcome(lambda: plain(call(hidden)))
            assert got == expected, f"{name} of {text!r}: {got!r} instead of {expected!r}"
    escaped = marked_text.unescape_marks(json.dumps([marked("a<s>🙂é\\u00e9<|end|>")]))
    assert plain(escaped) == json.dumps(["a<s>🙂é\\u00e9<|end|>"]), escaped
    value = {"k": [{"<s>": "a"}], "n": 1}
    assert marked_text.mark(value) == value
    print(f"{num_calls} calls agree; {num_cases} change the length")


if __name__ == "__main__":
    main()
