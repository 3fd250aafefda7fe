"""Text of a client in which some characters are marked, so that the output shows where they went.

A mark is a lone surrogate that stands for one character. A client's text is valid UTF-8, so it holds none.
A marked text is as long as the plain one, so slices and lengths are the same. In the class below,
comparisons, searches, splits and changes of case see the plain characters.

If a template still treats marked and plain text differently, the router notices: it renders both and
compares them.
"""
import re

FIRST_MARK = 0xDC00
NUM_MARKS = 1024
ANY_MARK = re.compile("[\udc00-\udfff]")
# A low surrogate after a high one is half a character that json.dumps wrote as two escapes.
ESCAPED_MARK = re.compile(r"(\\ud[89ab][0-9a-f]{2})?(\\ud[c-f][0-9a-f]{2})")


def _plain_of(value):
    if isinstance(value, Marked):
        return value._plain
    if isinstance(value, tuple):
        return tuple(_plain_of(item) for item in value)
    return value


def _seen_plain(name):
    """A method that works on the plain text and returns no part of it."""
    method = getattr(str, name)

    def call(self, *arguments):
        return method(self._plain, *map(_plain_of, arguments))
    return call


def _recased(name):
    method = getattr(str, name)

    def call(self):
        changed = method(self._plain)
        if len(changed) != len(self._plain):
            return self  # the router notices
        return Marked("".join(
            self._marks.get(new, new) if old in self._characters else new for old, new in zip(self, changed)))
    return call


class Marked(str):
    # Mark to character, character to mark, and a table for str.translate (set_characters).
    _characters = {}
    _marks = {}
    _unmark = {}

    def __new__(cls, text):
        self = super().__new__(cls, text)
        self._plain = text.translate(cls._unmark)
        return self

    def _part(self, begin, end):
        return Marked(str.__getitem__(self, slice(begin, end)))

    # --- looks at the text ---

    for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__contains__", "startswith",
                  "endswith", "find", "rfind", "index", "rindex", "count", "isalnum", "isalpha", "isascii",
                  "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace",
                  "istitle", "isupper"):
        locals()[_name] = _seen_plain(_name)
    for _name in ("upper", "lower", "title", "capitalize", "swapcase", "casefold"):
        locals()[_name] = _recased(_name)

    # --- keeps the class ---

    def __str__(self):
        return self

    def __getitem__(self, key):
        return Marked(str.__getitem__(self, key))

    def __iter__(self):
        return map(Marked, str.__iter__(self))

    def __add__(self, other):
        return Marked(str.__add__(self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other):
        return Marked(str.__add__(other, self)) if isinstance(other, str) else NotImplemented

    def __repr__(self):
        # Quoted as repr quotes the plain text.
        shown = repr(self._plain)
        quote = shown[0]
        pieces = []
        for mark, character in zip(str.__iter__(self), self._plain):
            piece = "\\" + quote if character == quote else "\\\\" if character == "\\" else repr(character)[1:-1]
            pieces.append(mark if piece == character else piece)
        return quote + "".join(pieces) + quote

    # --- cuts the text ---

    def strip(self, characters=None):
        return self.lstrip(characters).rstrip(characters)

    def lstrip(self, characters=None):
        return self._part(len(self) - len(self._plain.lstrip(_plain_of(characters))), len(self))

    def rstrip(self, characters=None):
        return self._part(0, len(self._plain.rstrip(_plain_of(characters))))

    def removeprefix(self, prefix):
        return self._part(len(self) - len(self._plain.removeprefix(_plain_of(prefix))), len(self))

    def removesuffix(self, suffix):
        return self._part(0, len(self._plain.removesuffix(_plain_of(suffix))))

    def _parts_of(self, pieces):
        """The parts of self at the places of these pieces of the plain text, which come in order."""
        parts, place = [], 0
        for piece in pieces:
            place = self._plain.index(piece, place)
            parts.append(self._part(place, place + len(piece)))
            place += len(piece)
        return parts

    def split(self, sep=None, maxsplit=-1):
        return self._split("split", sep, maxsplit)

    def rsplit(self, sep=None, maxsplit=-1):
        return self._split("rsplit", sep, maxsplit)

    def _split(self, name, separator, limit):
        separator = _plain_of(separator)
        pieces = getattr(self._plain, name)(separator, limit)
        if separator is None:
            return self._parts_of(pieces)
        parts, place = [], 0
        for piece in pieces:
            parts.append(self._part(place, place + len(piece)))
            place += len(piece) + len(separator)
        return parts

    def splitlines(self, keepends=False):
        parts, place = [], 0
        for line, whole in zip(self._plain.splitlines(keepends), self._plain.splitlines(True)):
            parts.append(self._part(place, place + len(line)))
            place += len(whole)
        return parts

    def partition(self, separator):
        return self._partition(self._plain.partition(_plain_of(separator)))

    def rpartition(self, separator):
        return self._partition(self._plain.rpartition(_plain_of(separator)))

    def _partition(self, pieces):
        first, second = len(pieces[0]), len(pieces[0]) + len(pieces[1])
        return self._part(0, first), self._part(first, second), self._part(second, len(self))

    def replace(self, old, new, count=-1):
        old = _plain_of(old)
        if old == "":
            return Marked(str.replace(self, old, new, count))
        return Marked(str.join(new, self._split("split", old, count)))

    # Bytes carry no marks.
    def encode(self, *_):
        raise UnicodeError("text that spells special tokens cannot be encoded")


def set_characters(characters):
    """Sets the characters of the marks: FIRST_MARK stands for the first one, and so on."""
    marks = {chr(FIRST_MARK + i): character for i, character in enumerate(characters[:NUM_MARKS])}
    Marked._characters = marks
    Marked._marks = {character: mark for mark, character in marks.items()}
    Marked._unmark = str.maketrans(marks)


def keep_marks(value):
    """The same value, but a text with marks becomes Marked."""
    return Marked(value) if type(value) is str and ANY_MARK.search(value) else value


def mark(value):
    """The same value, but all texts with marks in it become Marked."""
    if isinstance(value, str):
        return Marked(value) if ANY_MARK.search(value) else value
    if isinstance(value, list):
        return [mark(item) for item in value]
    if isinstance(value, dict):
        return type(value)((mark(key), mark(item)) for key, item in value.items())
    return value


def unescape_marks(text):
    """Turns the escapes of json.dumps(ensure_ascii=True) back into marks where these stand for ASCII."""
    def replaced(match):
        high, low = match.groups()
        if high is not None:
            return match.group()
        character = Marked._characters.get(chr(int(low[2:], 16)), "\uffff")
        return chr(int(low[2:], 16)) if " " <= character <= "~" else low
    return ESCAPED_MARK.sub(replaced, text)
