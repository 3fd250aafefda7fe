"""What a program's --help says, for the checks in Python."""

import re
import subprocess


def flags_in_help(program):
    """Flags with dashes, and their defaults; --help breaks lines."""
    text = subprocess.run((program, "--help"), capture_output=True, text=True).stdout
    text = re.sub(r"\s+", " ", text)
    found = re.findall(r"--([\w-]+) \((?:(?!--[\w-]+ \().)*?\); default: (\"[^\"]*\"|[^;]*);", text)
    return {name: value.strip('"') for name, value in found}
