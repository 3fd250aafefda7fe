"""What clients ask for, as llguidance's grammars. What this module decides changes masks: see RULES."""
import json

# Part of the engine's version. Raise it with every change of this program that can change a mask.
RULES = "rules@2"

# Between the parts of JSON: at most two blanks, or a new line with its indentation. Without a bound, models pad
# their output with blanks until it is too long.
WHITE_SPACE = r"[ \t]{1,2}|\r?\n[ \t]{0,64}"
JSON_OPTIONS = {"whitespace_flexible": True, "whitespace_pattern": WHITE_SPACE, "coerce_one_of": False, "lenient": False}

# Keywords whose members are schemas by name, and keywords whose members are values.
NAMED_SCHEMAS = {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
VALUES = {"const", "default", "enum", "example", "examples"}
# Keywords for people and models. `format` is none of them: it says something about a text.
PROSE = {"title", "description", "default", "examples", "example", "$comment"}

# The library would force the tokens of a certain text, cut by a tokenizer. This program has none: the model
# chooses among all tokens that spell the text.
NO_FORCING = '%llguidance {"no_forcing": true}\n'


class Refused(Exception):
    """The constraint cannot be enforced. The text is for the client."""


def refuse_constant(name):
    raise Refused(f"{name} is no JSON")


def read_json(text):
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except RecursionError:
        raise Refused("it nests too deeply") from None
    except ValueError as error:
        raise Refused(f"is no JSON: {error}") from None


def allows_every_name(schema):
    """Whether "propertyNames" with this schema says nothing."""
    if not isinstance(schema, dict):
        return schema is True
    kind = schema.get("type", "string")
    return not schema.keys() - {"type", *PROSE} and (kind == "string" or isinstance(kind, list) and "string" in kind)


def without_idle_names(schema):
    """The schema without each "propertyNames" that says nothing. The library does not know the keyword, and generators of
    schemas write it for every map. As in router/calls/grammar/argument_schema.cc."""
    if isinstance(schema, list):
        return [without_idle_names(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for key, member in schema.items():
        if key == "propertyNames" and allows_every_name(member):
            continue
        if key in NAMED_SCHEMAS and isinstance(member, dict):
            kept[key] = {name: without_idle_names(named) for name, named in member.items()}
        else:
            kept[key] = member if key in VALUES else without_idle_names(member)
    return kept


def of_json(schema):
    if schema is True:
        schema = {}
    if schema is False:
        raise Refused("no value fits the schema false")
    if not isinstance(schema, dict):
        raise Refused("expected an object, true or false")
    schema = {**without_idle_names(schema), "x-guidance": JSON_OPTIONS}
    return json.dumps({"grammars": [{"lark_grammar": NO_FORCING + "start: @schema"},
                                    {"name": "schema", "json_schema": schema}]})


def of_lark(text):
    return json.dumps({"grammars": [{"lark_grammar": text}]})


def of_choices(text):
    choices = read_json(text)
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, str) for choice in choices):
        raise Refused("expected a list of texts")
    texts = " | ".join(json.dumps(choice, ensure_ascii=False) for choice in dict.fromkeys(choices))
    return of_lark(f"{NO_FORCING}start: CHOICE\nCHOICE: {texts}\n")


def of_regex(text, library):
    # Digits and words are ASCII, as in JSON Schema.
    return of_lark(f"{NO_FORCING}start: /{library.regex_to_lark(text, 'dw')}/\n")


def of_grammar(text):
    if "::=" in text:
        raise Refused("expected a Lark grammar, got another kind (it has \"::=\")")
    return of_lark(f"{text}\n{NO_FORCING}")


def grammar_of(kind, text, library):
    """The grammar of a constraint. `kind`: a byte of ConstraintKind. Raises Refused."""
    if kind == ord("S"):
        return of_json(read_json(text))
    if kind == ord("O"):
        return of_json({"type": "object"})
    if kind == ord("R"):
        return of_regex(text, library)
    if kind == ord("C"):
        return of_choices(text)
    if kind == ord("L"):
        return of_grammar(text)
    raise Refused("is of an unknown kind")
