#!/usr/bin/env python3
"""Compares lockstep-template-renderer with transformers, over templates that people use.

    real_templates.py --fetch FOLDER     downloads llama-cpp-python (llama.cpp's templates), trl, axolotl and unsloth
                                         from PyPI into FOLDER, and installs transformers 5 there
    real_templates.py RENDERER FOLDER    compares; exits with 77 without the packages

Every template renders 13 chats with 3 sets of arguments. A rendering must be that of apply_chat_template, byte for
byte. Where transformers raises an error, the renderer must do so.

Then every template renders chats whose texts spell its special tokens, with and without marks on them. Without the
marks, both must be the same.
"""
import ast
import datetime
import hashlib
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tarfile
import time
import zipfile

SKIPPED = 77
SOURCES = ("llama-cpp-python", "trl", "axolotl", "unsloth")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
MIN_TEMPLATES = 207

TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "Says the weather at a \"place\".",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "Où?"}, "days": {"type": "integer", "enum": [1, 2]}},
        "required": ["place"]}}}]
CHATS = [
    [("user", "Où 🙂 est")],
    [("system", "Be brief."), ("user", "Hi")],
    [("user", "Hi"), ("assistant", "Hello!"), ("user", "  What is 2+2?\n")],
    [("system", ""), ("user", "")],
    [("system", "a"), ("user", "b"), ("assistant", "<think>\neasy\n</think>\n\n4"), ("user", "c")],
    [("user", "one"), ("user", "two")],
    [("assistant", "first"), ("user", "second"), ("assistant", "")],
    [("user", "x < y & \"z\" {{ messages }} {% if %}"), ("assistant", "line\r\nline\t\\n")],
    [("system", "s"), ("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4"), ("user", "5")],
    [("user", "call it"), ("assistant", "calling"), ("tool", "{\"t\": 20}"), ("user", "你好，世界 " * 40)],
]
# A call, its result, and what was thought.
CALL = {"id": "call12345", "type": "function", "function": {"name": "weather", "arguments": {"place": "Zürich", "days": 1}}}
THOUGHT = {"reasoning_content": "It is\nsummer.", "reasoning": "It is\nsummer."}
CHATS += [
    [("user", "call it"), ("assistant", None, {"tool_calls": [CALL]}), ("tool", "{\"t\": 20}", {"tool_call_id": "call12345"})],
    [("user", "call it"), ("assistant", "I look.", {"tool_calls": [CALL], **THOUGHT}),
     ("tool", "20", {"tool_call_id": "call12345"}), ("assistant", "Warm."), ("user", "Really?")],
    [("user", "Hi"), ("assistant", "Hello!", THOUGHT), ("user", "Bye")],
]
ARGUMENTS = [
    ({}, True),
    ({"enable_thinking": False, "reasoning_effort": "low", "date_string": "26 Jul 2024", "custom": [1, 2.5, None]}, False),
    ({"tools": TOOLS, "documents": [{"title": "T", "text": "one\ntwo"}], "enable_thinking": True}, True),
]
LENGTH = struct.Struct("<I")
# What may be a special token of a template.
SPECIAL = re.compile(r"<\|[^|<>]{1,40}\|>|</?[a-z_]{3,25}>|\[/?[A-Z_]{3,25}\]|</?s>")
MAX_SPECIALS = 12
ASKS_FOR_NONE = re.compile(r"content('\])? is +(not +)?none")
FIRST_MARK = 0xDC00


def string(text):
    data = text.encode("utf-8", "surrogatepass")
    return LENGTH.pack(len(data)) + data


class Renderer:
    """lockstep-template-renderer, started as the router starts it."""

    def __init__(self, program):
        ours, other = socket.socketpair()
        self._socket = ours

        def prepare():
            os.dup2(other.fileno(), 0)
            os.dup2(os.open(program, os.O_RDONLY), 3)
            os.closerange(4, 64)

        self._process = subprocess.Popen(
            ["/usr/bin/python3", "-I", "-S", "-B", "/proc/self/fd/3", str(os.getpid()), "256", "30"],
            env={"TZ": os.environ.get("TZ", ":/etc/localtime")}, preexec_fn=prepare, close_fds=False)
        other.close()

    def close(self):
        self._socket.close()
        self._process.wait()

    def ask(self, payload):
        self._socket.sendall(LENGTH.pack(len(payload)) + payload)
        answer = self._receive(LENGTH.unpack(self._receive(LENGTH.size))[0])
        return answer[:1] == b"K", answer[1 + LENGTH.size:].decode("utf-8", "surrogatepass")

    def _receive(self, size):
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise EOFError(f"the renderer ended with {self._process.wait()}")
            data += piece
        return data

    def load(self, template):
        return self.ask(b"L" + LENGTH.pack(1) + string("default") + string(template) + string(json.dumps(TOKENS)))

    def render(self, messages, arguments, add_generation_prompt, marked=""):
        payload = b"R" + (b"1" if add_generation_prompt else b"0") + string(marked)
        payload += string(json.dumps(arguments) if arguments else "") + string("") + LENGTH.pack(len(messages))
        for message in messages:
            payload += string(message["role"]) + string(message.get("content", "")) + string("")
            payload += string(json.dumps(message["tool_calls"]) if "tool_calls" in message else "")
            payload += string(message.get("tool_call_id", "")) + string(message.get("reasoning", ""))
        return self.ask(payload)


def fetch(folder):
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "download", "--no-deps", "--no-binary", "llama-cpp-python", "--dest", folder, *SOURCES], check=True)
    subprocess.run([*pip, "install", "--target", folder / "packages", "transformers==5.24.0", "jinja2==3.1.6"], check=True)


def templates_in(folder):
    """{where it is: template}, each template once."""
    found, seen = {}, set()

    def add(where, text):
        digest = hashlib.sha256(text.encode()).digest()
        if digest not in seen:
            seen.add(digest)
            found[where] = text

    for path in sorted(folder.glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name.endswith(".jinja") and member.isfile():
                    add(member.name, archive.extractfile(member).read().decode())
    for path in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".jinja"):
                    add(name, archive.read(name).decode())
                elif name.endswith("chat_templates.py"):
                    for node in ast.walk(ast.parse(archive.read(name))):
                        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "{%" in node.value:
                            add(f"{name}:{node.lineno}", node.value)
    return found


def compare_marks(renderer, where, template):
    """How many renderings of chats that spell special tokens differ with marks."""
    specials = sorted(set(SPECIAL.findall(template)), key=len, reverse=True)[:MAX_SPECIALS] or ["<s>"]
    characters = "".join(sorted({c for special in specials for c in special.upper() + special.lower() + special}))
    marks = {character: chr(FIRST_MARK + place) for place, character in enumerate(characters)}
    unmark = str.maketrans({mark: character for character, mark in marks.items()})

    def mark(text):
        for special in specials:
            text = text.replace(special, "".join(map(marks.get, special)))
        return text

    num_renderings = num_different = 0
    for s in specials:
        for chat in ([("user", f"a {s} b"), ("assistant", f"x{s}y"), ("user", s)],
                     [("system", f"{s} sys"), ("user", f"u{s}"),
                      ("assistant", f"<think>\nt{s}\n</think>\n\nans {s}\n"), ("user", " q ")]):
            plain = renderer.render([{"role": r, "content": c} for r, c in chat], ARGUMENTS[0][0], True)
            if not plain[0]:
                continue
            marked = renderer.render([{"role": r, "content": mark(c)} for r, c in chat], ARGUMENTS[0][0], True, characters)
            num_renderings += 1
            if marked[1].translate(unmark) != plain[1]:
                num_different += 1
                print(f"{where}: with marks on {s}\n  plain  {plain[1]!r}\n  marked {marked[1].translate(unmark)!r}")
    return num_renderings, num_different


def compare(program, folder):
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<unk>": 0}, "<unk>")), **TOKENS)
    num_renderings = num_errors = num_marked = num_marked_different = 0
    differing, slow = set(), []
    templates = templates_in(folder)
    renderer = Renderer(program)
    for where, template in templates.items():
        loaded, problem = renderer.load(template)
        for chat in CHATS:
            # For templates that ask, a message that only makes calls has a content that is none. transformers
            # leaves the content out, and such templates then raise errors or print an empty message.
            may_differ = any(turn[1] is None for turn in chat) and ASKS_FOR_NONE.search(template)
            messages = [{"role": turn[0], **({} if turn[1] is None else {"content": turn[1]}), **(turn[2] if len(turn) > 2 else {})}
                        for turn in chat]
            for arguments, add_generation_prompt in ARGUMENTS:
                today = datetime.date.today()
                try:
                    expected = tokenizer.apply_chat_template(
                        messages, chat_template=template, tokenize=False, add_generation_prompt=add_generation_prompt,
                        **arguments)
                except Exception as error:
                    expected, reason = None, error
                start = time.perf_counter()
                fine, text = renderer.render(messages, arguments, add_generation_prompt) if loaded else (False, problem)
                slow.append(time.perf_counter() - start)
                if today != datetime.date.today():
                    continue  # the templates may print the date
                num_renderings += 1
                num_errors += expected is None
                if (fine != (expected is not None) or (fine and text != expected)) and not may_differ:
                    differing.add(where)
                    print(f"{where}: {chat[:2]} {list(arguments)}\n  expected {expected if expected else reason!r}\n"
                          f"  got      {text!r}")
        if loaded:
            counts = compare_marks(renderer, where, template)
            num_marked += counts[0]
            num_marked_different += counts[1]
    renderer.close()
    slow.sort()
    print(f"{len(templates)} templates, {num_renderings} renderings, {num_errors} of them errors; "
          f"{len(differing)} templates differ; a rendering takes {slow[len(slow) // 2] * 1e6:.0f} us, "
          f"{slow[len(slow) * 99 // 100] * 1e6:.0f} us at most in 99 of 100")
    print(f"{num_marked} renderings with marks, {num_marked_different} of them differ from those without")
    return 1 if differing or num_marked_different or len(templates) < MIN_TEMPLATES else 0


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--fetch":
        fetch(pathlib.Path(sys.argv[2]))
        return 0
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    program, folder = map(pathlib.Path, sys.argv[1:])
    sys.path.insert(0, str(folder / "packages"))
    try:
        import transformers  # noqa: F401
    except ImportError:
        print(f"skipped: there are no packages in {folder}; tests/rigs/templates/real_templates.py --fetch {folder}")
        return SKIPPED
    return compare(program, folder)


if __name__ == "__main__":
    sys.exit(main())
