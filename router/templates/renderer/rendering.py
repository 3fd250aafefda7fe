"""Carries out jobs: loads a template, renders chats."""
import gc

import chat_environment
import connection
import frames
import marked_text
from jinja2.exceptions import TemplateError, TemplateSyntaxError

TOO_DEEP = "it refers to itself or nests too deeply"


class TooLong(Exception):
    """The rendered text outgrows frames.MAX_TEXT_BYTES."""


def line_of(error):
    """The line of a template where an error was raised, or None."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    line = None
    trace = error.__traceback__
    while trace is not None:
        template = trace.tb_frame.f_globals.get("__jinja_template__")
        if template is not None:
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line


def describe(error):
    """One line for the client."""
    if isinstance(error, TooLong):
        return f"chat template: renders to more than {frames.MAX_TEXT_BYTES} bytes"
    if isinstance(error, RecursionError):
        what = TOO_DEEP
    elif isinstance(error, UnicodeEncodeError):
        what = "it renders characters that are no text"
    else:
        what = str(error.message if isinstance(error, TemplateError) else error)
        if not isinstance(error, TemplateError) or not what:
            what = f"{type(error).__name__}: {what}" if what else type(error).__name__
    line = line_of(error)
    return f"chat template: {what}" if line is None else f"chat template, line {line}: {what}"


def check_objects(variables, name):
    value = variables[name]
    if value is not None and not (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
        raise TemplateError(f"{name}: expected a list of objects")


class Renderer:
    def __init__(self):
        self._environment = chat_environment.Environment()
        self._templates = {}  # by name: (for plain chats, for chats with marks), or an error
        self._special_tokens = {}

    def answer(self, payload):
        """The answer to one payload: (kind, text). Raises MemoryError only."""
        try:
            # Marks are surrogates, so texts are not quite UTF-8 (marked_text.py).
            reader = connection.Reader(payload, "surrogatepass")
            if reader.byte() == ord("L"):
                return b"K", self._load(reader)
            return b"K", self._render(reader)
        except MemoryError:
            raise
        except BaseException as error:
            return b"E", connection.cut_error(describe(error))

    def _load(self, reader):
        sources, self._special_tokens = frames.read_template(reader)
        if "default" not in sources:
            names = ", ".join(sorted(sources))
            raise TemplateError(f'the model has several templates, and none of them is named "default": {names}')
        # A template that cannot be parsed fails only the chats that use it.
        self._templates = {name: self._compile(source) for name, source in sources.items()}
        if isinstance(self._templates["default"], Exception):
            raise self._templates["default"]
        gc.collect()
        gc.freeze()
        return b""

    def _compile(self, source):
        try:
            return self._environment.compile(source)
        except MemoryError:
            raise
        except Exception as error:
            return error

    def _render(self, reader):
        variables, marked = frames.read_chat(reader)
        check_objects(variables, "tools")
        check_objects(variables, "documents")
        variables["messages"] = [
            message if "content" in message else chat_environment.MessageOfCalls(message)
            for message in variables["messages"]]
        if marked:
            marked_text.set_characters(marked)
            variables = marked_text.mark(variables)
        name = "tool_use" if variables["tools"] is not None and "tool_use" in self._templates else "default"
        if isinstance(self._templates[name], Exception):
            raise self._templates[name]
        template = self._templates[name][1 if marked else 0]
        pieces, room = [], frames.MAX_TEXT_BYTES
        for piece in template.root_render_func(template.new_context({**self._special_tokens, **variables})):
            room -= len(piece)
            if room < 0:
                raise TooLong
            pieces.append(piece)
        text = "".join(pieces).encode("utf-8", "surrogatepass" if marked else "strict")
        if len(text) > frames.MAX_TEXT_BYTES:
            raise TooLong
        return text
