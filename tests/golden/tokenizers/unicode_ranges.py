#!/usr/bin/env python3
"""Writes router/text/char_ranges.cc: letters, numbers and white space as `tokenizers` sees them.

The Python package matches with Oniguruma; 0.23 has the tables of Unicode 16.0.
Usage: unicode_ranges.py > router/text/char_ranges.cc
"""
import sys

from tokenizers import Regex, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
COLUMNS = 100


def members(pattern):
    matcher = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = set()
    for i in range(0, len(CODE_POINTS), 4096):
        text = "".join(map(chr, CODE_POINTS[i:i + 4096]))
        for piece, _ in matcher.pre_tokenize_str(text):
            found.update(map(ord, piece))
    return found


def ranges(code_points):
    result = []
    for c in sorted(code_points):
        if result and c == result[-1][1] + 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def emit(name, code_points):
    pairs = ranges(code_points)
    print(f"constexpr std::array<CharRange, {len(pairs)}> k{name} = {{{{")
    line = "   "
    for first, last in pairs:
        item = f" {{{first:#x}, {last:#x}}},"
        if len(line) + len(item) > COLUMNS:
            print(line)
            line = "   "
        line += item
    print(line)
    print("}};")


def main():
    print("// Written by tests/golden/tokenizers/unicode_ranges.py; do not edit.")
    print('#include <array>\n\n#include "router/text/char_class.h"\n')
    print("namespace lockstep::router {\nnamespace {\n\n// clang-format off")
    emit("Letters", members(r"\p{L}"))
    print()
    emit("Numbers", members(r"\p{N}"))
    print()
    emit("Spaces", members(r"\s"))
    print("// clang-format on\n\n}  // namespace\n")
    print("const std::span<const CharRange> kLetterRanges = kLetters;")
    print("const std::span<const CharRange> kNumberRanges = kNumbers;")
    print("const std::span<const CharRange> kSpaceRanges = kSpaces;")
    print("\n}  // namespace lockstep::router")
    return 0


if __name__ == "__main__":
    sys.exit(main())
