"""What a program's --help says, for the checks in Python."""

import re
import subprocess


def flags_in_help(program):
    """Flags with dashes, and their defaults; --help breaks lines and writes underscores."""
    text = subprocess.run((program, "--help"), capture_output=True, text=True).stdout
    text = re.sub(r"\s+", " ", text)
    found = re.findall(r"--(\w+) \((?:(?!--\w+ \().)*?\); default: (\"[^\"]*\"|[^;]*);", text)
    return {name.replace("_", "-"): value.strip('"') for name, value in found}
