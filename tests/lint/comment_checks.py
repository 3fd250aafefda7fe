"""Checks of the comments in the C++ sources: whether a tired reader understands them at once."""

import bisect
import collections
import re

from tree import Finding, cpp_files, read
from voice_words import RIDDLE

# Riddling words (voice_words.py) for each 100 comment lines of a room.
MAX_RIDDLES = 2
SHOWN_PLACES = 5

# A literal may contain "//", so literals are matched too. Raw strings first.
TOKEN = re.compile(r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|//(?P<comment>[^\n]*)|'
                   r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
END_OF_NAMESPACE = re.compile(r"^\s*namespace\b")


def comments(text):
    """(line, text) of each comment. The end of a namespace is no comment for a reader."""
    number, position = 1, 0
    for match in TOKEN.finditer(text):
        comment = match.group("comment")
        number += text.count("\n", position, match.start())
        position = match.start()
        if comment is not None and not END_OF_NAMESPACE.match(comment):
            yield number, comment.strip()


def riddles_of(lines):
    """(line, word) of the riddling words in comments. Comments on consecutive lines are read as one text."""
    blocks = []
    for number, comment in lines:
        if not blocks or number != blocks[-1][-1][0] + 1:
            blocks.append([])
        blocks[-1].append((number, comment))
    for block in blocks:
        text, starts = "", []
        for _, comment in block:
            starts.append(len(text))
            text += re.sub(r"\s+", " ", comment) + " "
        for match in RIDDLE.finditer(text):
            yield block[bisect.bisect_right(starts, match.start()) - 1][0], match.group()


def check_voice(root):
    """A room is a folder of router/; the files at its top are one room as well."""
    num_lines, riddles = collections.Counter(), collections.defaultdict(list)
    for path in cpp_files(root):
        if path.parts[0] != "router":
            continue
        room = "/".join(path.parts[:2]) if len(path.parts) > 2 else "router"
        lines = list(comments(read(root, path)))
        num_lines[room] += len(lines)
        riddles[room] += [f'{path}:{number} "{word}"' for number, word in riddles_of(lines)]
    for room, found in sorted(riddles.items()):
        if 100 * len(found) > MAX_RIDDLES * num_lines[room]:
            places = ", ".join(found[:SHOWN_PLACES]) + (", ..." if len(found) > SHOWN_PLACES else "")
            yield Finding(room, 0, f"{len(found)} riddling words in {num_lines[room]} comment lines, more than "
                          f"{MAX_RIDDLES} in 100; write what the code does in plain words: {places}")
