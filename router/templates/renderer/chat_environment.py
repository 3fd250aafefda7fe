"""Jinja, set up for chat templates as Hugging Face's transformers sets it up (version 5)."""
import functools
import json
from datetime import datetime
from types import BuiltinMethodType, MethodType

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.runtime import LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

import marked_text


class Generation(Extension):
    """{% generation %} ... {% endgeneration %} marks text of the model in training data. Prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Dictionaries:
    """The global "dict". A template can make dictionaries of it and see no more of the class."""

    def __call__(self, *arguments, **members):
        return dict(*arguments, **members)

    def fromkeys(self, *arguments):
        return dict.fromkeys(*arguments)


class PlainNamespace(Namespace):
    """The global "namespace", without names that begin with an underscore."""

    def __init__(*arguments, **members):
        self, arguments = arguments[0], arguments[1:]
        attributes = dict(*arguments, **members)
        for name in attributes:
            PlainNamespace._check(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        PlainNamespace._check(name)
        Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"a namespace cannot hold {name!r}: names must not begin with an underscore")


class NoContent(Undefined):
    """The content of a message that only makes calls. It is undefined, as in transformers, because many templates
    would print a "None". Others print calls only where the content is none: the test says that it is."""


class MessageOfCalls(dict):
    """A message without a member "content"."""

    def __missing__(self, name):
        if name == "content":
            return NoContent(obj=self, name=name)
        raise KeyError(name)


def is_none(value):
    return value is None or isinstance(value, NoContent)


# Decided once here instead of at each access: names that belong to dict itself, and names that are
# safe. Methods that format are not among them, because the sandbox wraps them.
DICTIONARY_NAMES = frozenset(dir(dict))
STRING_NAMES = frozenset(name for name in dir(str) if name[0] != "_" and not name.startswith("format"))
LOOP_NAMES = frozenset(name for name in dir(LoopContext) if name[0] != "_")
METHODS = (MethodType, BuiltinMethodType)


class ChatSandbox(ImmutableSandboxedEnvironment):
    """The sandbox. It refuses what Jinja 3.1.6 refuses and older versions do not. Most accesses of chat templates
    take a shorter way to the same result, in a quarter of the time."""

    def is_safe_attribute(self, value, name, attribute):
        if isinstance(value, list) and name in ("clear", "pop"):
            return False
        return super().is_safe_attribute(value, name, attribute)

    def getattr(self, value, name):
        kind = type(value)
        if kind is dict and name not in DICTIONARY_NAMES:
            try:
                return value[name]
            except KeyError:
                return self.undefined(obj=value, name=name)
        if kind is str and name in STRING_NAMES:
            return getattr(value, name)
        if (kind is PlainNamespace and name[:1] != "_") or (kind is LoopContext and name in LOOP_NAMES):
            try:
                attribute = getattr(value, name)
            except AttributeError:
                return self.undefined(obj=value, name=name)
            if not isinstance(attribute, METHODS):
                return attribute
        return super().getattr(value, name)

    def call(__self, __context, __function, *arguments, **members):
        if (type(__function) is BuiltinMethodType and type(__function.__self__) is str
                and __function.__name__ in STRING_NAMES):
            members.pop("_block_vars", None)
            members.pop("_loop_vars", None)
            return __function(*arguments, **members)
        return super().call(__context, __function, *arguments, **members)


def raise_exception(message):
    raise TemplateError(message)


def strftime_now(form):
    return datetime.now().strftime(form)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def marked_tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    text = tojson(value, ensure_ascii, indent, separators, sort_keys)
    return marked_text.unescape_marks(text) if ensure_ascii else text


def with_marks(function):
    """The same function, but a text with marks in its result becomes Marked."""
    @functools.wraps(function)
    def call(*arguments, **members):
        return marked_text.keep_marks(function(*arguments, **members))
    return call


class MarkedSandbox(ChatSandbox):
    """Renders a chat with marks. All operations that combine texts return marked text."""

    intercepted_binops = frozenset(["+", "%", "*"])
    concat = staticmethod(with_marks("".join))

    def call_binop(self, context, operator, left, right):
        return marked_text.keep_marks(super().call_binop(context, operator, left, right))

    def call(__self, __context, __function, *arguments, **members):
        if (type(__function) is BuiltinMethodType and type(__function.__self__) is str
                and any(isinstance(argument, marked_text.Marked) for argument in arguments)):
            __function = getattr(marked_text.Marked(__function.__self__), __function.__name__)
        return marked_text.keep_marks(super().call(__context, __function, *arguments, **members))


class Environment:
    """Compiles templates for both kinds of rendering."""

    def __init__(self):
        self._plain = self._make(ChatSandbox)
        self._marked = self._make(MarkedSandbox)
        self._marked.filters = {name: with_marks(function) for name, function in self._marked.filters.items()}
        self._marked.filters["tojson"] = with_marks(marked_tojson)

    def compile(self, source):
        """(template for plain chats, template for chats with marks)"""
        plain = self._plain.from_string(source)
        marked = self._marked.from_string(source)
        # The operator "~".
        marked.root_render_func.__globals__["str_join"] = lambda texts: self._marked.concat(map(str, texts))
        return plain, marked

    @staticmethod
    def _make(kind):
        environment = kind(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        environment.filters["tojson"] = tojson
        environment.tests["none"] = is_none
        environment.globals.update(
            raise_exception=raise_exception, strftime_now=strftime_now, dict=Dictionaries(), namespace=PlainNamespace)
        return environment
