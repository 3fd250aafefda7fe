"""What a program's --help says, for the checks in Python."""

import collections
import re
import subprocess

Flag = collections.namedtuple("Flag", "range default")


def parse_help(text):
    """By name of a flag: its range and its default, both "" where the help has none. Entries stand below titles, and a line that is too long
    goes on below its help."""
    flags = {}
    titles = re.split(r"^[A-Z][\w ]*:$", text, flags=re.MULTILINE)[1:]
    for entry in re.split(r"^  --", "".join(titles), flags=re.MULTILINE)[1:]:
        name, _, rest = re.sub(r"\s+", " ", entry).strip().partition(" ")
        notes = re.search(r"\[(?:(?P<range>(?!default: )[^\]]*?)(?:; |(?=\])))?(?:default: (?P<default>[^\]]*))?\]$", rest)
        flags[name] = Flag(*(notes[part] or "" for part in ("range", "default"))) if notes else Flag("", "")
    return flags


def flags_in_help(program):
    """Flags and their defaults."""
    text = subprocess.run((program, "--help"), capture_output=True, text=True).stdout
    return {name: flag.default for name, flag in parse_help(text).items()}
