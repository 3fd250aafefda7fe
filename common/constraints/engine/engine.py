"""Carries out jobs: compiles constraints, and says for each slot which tokens may follow."""
import collections
import itertools
import re

import frames
import grammars
from connection import Reader, cut_error
from grammars import Refused

MAX_KEPT = 64  # compiled constraints
MAX_KEPT_BYTES = 4 << 20  # of their texts
MASK_WORD_BITS = 32
ENDS_ONLY, SOME_TEXT = b"\x01", b"\x00"

# Bounds of the library's work: states of a matcher's lexer, each of a few kilobytes.
MAX_LEXER_STATES = 50_000


class Vocabulary:
    """What the library asks of a tokenizer. It never cuts texts, because nothing is forced."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokens, special):
        # One more token, which the model does not have: the library allows it where the text may end.
        self.tokens = [*tokens, b""]
        self.eos_token_id = len(tokens)
        self.special_token_ids = special

    def __call__(self, text):
        return []


def one_line(text):
    """The library's reason, without the lines of the grammar that it quotes."""
    lines = itertools.takewhile(lambda line: not re.match(r" *\d+ \| ", line), text.splitlines())
    reason = " ".join(" ".join(lines).replace("<non-verbose/>", "").split())
    # As for a schema that refers only to itself.
    return "no text fits it" if reason.startswith("NoExtension") else reason


class Slot:
    """The matcher of one sequence."""

    def __init__(self, matcher, end_ids):
        self.matcher = matcher
        self.end_ids = end_ids


class Engine:
    def __init__(self, library):
        self._library = library
        self._limits = library.LLParserLimits(max_lexer_states=MAX_LEXER_STATES, verbose_errors=False)
        self._tokenizer = None
        self._num_tokens = 0
        self._kept = collections.OrderedDict()  # (kind, text): matcher at its begin
        self._kept_bytes = 0
        self._slots = {}

    def answer(self, payload):
        """The answer to one payload: (kind, text). Raises MemoryError only."""
        try:
            reader = Reader(payload)
            return b"K", self._job(chr(reader.byte()), reader)
        except MemoryError:
            raise
        except RecursionError:
            return b"E", b"it nests too deeply"
        except Refused as error:
            return b"E", cut_error(one_line(str(error)))
        except BaseException as error:  # a panic of the library is no Exception
            return b"E", cut_error(one_line(f"{type(error).__name__}: {error}"))

    def _job(self, job, reader):
        if job == "M":
            return self._mask(reader.length(), reader.numbers())
        if job == "B":
            return self._begin(reader.length(), reader.byte(), reader.text(), reader.numbers(), reader.numbers())
        if job == "R":
            self._slots.pop(reader.length(), None)
            return b""
        if job == "C":
            self._compile(reader.byte(), reader.text())
            return b""
        if job == "V":
            return self._load(reader)
        raise Refused("unknown job")

    def _load(self, reader):
        """Takes the vocabulary. Answers with the version of everything that decides masks."""
        tokens, special = frames.read_vocabulary(reader)
        vocabulary = Vocabulary(tokens, special)
        self._tokenizer = self._library.LLTokenizer(
            vocabulary, n_vocab=len(vocabulary.tokens), eos_token=[vocabulary.eos_token_id])
        self._num_tokens = len(tokens)
        return f"{self._library.get_version()} {grammars.RULES}".encode()

    def _compile(self, kind, text):
        """A matcher at the begin of the text, whose first mask is known."""
        key = kind, text
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        grammar = grammars.grammar_of(kind, text, self._library)
        matcher = self._library.LLMatcher(self._tokenizer, grammar, log_level=0, limits=self._limits)
        self._raw_mask(matcher)
        self._kept[key] = matcher
        self._kept_bytes += len(text)
        while len(self._kept) > MAX_KEPT or (self._kept_bytes > MAX_KEPT_BYTES and len(self._kept) > 1):
            (_, old), _ = self._kept.popitem(last=False)
            self._kept_bytes -= len(old)
        return matcher

    def _begin(self, slot, kind, text, end_ids, tokens):
        self._slots.pop(slot, None)
        matcher = self._compile(kind, text).deep_copy()
        self._consume(matcher, tokens)
        self._slots[slot] = Slot(matcher, end_ids)
        return b""

    def _mask(self, number, tokens):
        slot = self._slots[number]
        self._consume(slot.matcher, tokens)
        mask = self._raw_mask(slot.matcher)
        may_end = self._take(mask, self._num_tokens)
        # An id that ends the output is allowed where the text is whole: before this token, or with it.
        last = [token for token in slot.end_ids if self._take(mask, token) and self._completes(slot.matcher, token)]
        ends_only = mask.count(0) == len(mask)
        for token in slot.end_ids if may_end else last:
            mask[token >> 3] |= 1 << (token & 7)
        if ends_only and not last and not (may_end and slot.end_ids):
            raise Refused("no token of the vocabulary can follow" if not may_end else
                          "the output is whole, and the request has no token that ends it")
        num_words = (self._num_tokens + MASK_WORD_BITS - 1) // MASK_WORD_BITS
        return (ENDS_ONLY if ends_only else SOME_TEXT) + bytes(mask[:num_words * MASK_WORD_BITS // 8])

    @staticmethod
    def _take(mask, token):
        """Whether the token was allowed. It no longer is."""
        bit = 1 << (token & 7)
        allowed = mask[token >> 3] & bit
        mask[token >> 3] &= ~bit
        return allowed != 0

    @staticmethod
    def _completes(matcher, token):
        if not matcher.consume_token(token):
            raise Refused(one_line(matcher.get_error()))
        whole = matcher.is_accepting()
        matcher.rollback(1)
        return whole

    @staticmethod
    def _consume(matcher, tokens):
        if tokens and not matcher.consume_tokens(tokens):
            raise Refused(one_line(matcher.get_error()))

    @staticmethod
    def _raw_mask(matcher):
        if not matcher.is_error():
            mask = bytearray(matcher.compute_bitmask())
            if not matcher.is_error():
                return mask
        raise Refused(one_line(matcher.get_error()))
