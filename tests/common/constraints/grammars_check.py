#!/usr/bin/env python3
"""What the constraint engine makes of constraints, before the library sees them.

    grammars_check.py FOLDER_OF_THE_ENGINE
"""
import json
import sys

sys.path.insert(0, sys.argv[1])
import grammars  # noqa: E402


class Library:
    @staticmethod
    def regex_to_lark(text, ascii_classes):
        return f"{ascii_classes}:{text}"


def lark_of(kind, text):
    made = json.loads(grammars.grammar_of(ord(kind), text, Library))
    return made["grammars"][0]["lark_grammar"], made["grammars"][1:]


def refusal_of(kind, text):
    try:
        grammars.grammar_of(ord(kind), text, Library)
    except grammars.Refused as error:
        return str(error)
    return None


def main():
    for kind, text in (("S", "{}"), ("O", ""), ("R", "a"), ("C", '["a"]'), ("L", 'start: "a" // end')):
        lark, _ = lark_of(kind, text)
        assert '%llguidance {"no_forcing": true}' in lark.splitlines(), (kind, lark)

    _, (schema,) = lark_of("S", '{"b": 1, "a": 2, "x-guidance": {"lenient": true}}')
    assert list(schema["json_schema"])[:2] == ["b", "a"], "members keep their order"
    assert schema["json_schema"]["x-guidance"] == grammars.JSON_OPTIONS, "options are the program's own"
    _, (schema,) = lark_of("O", "")
    assert schema["json_schema"]["type"] == "object"
    # What says nothing about names is not for the library, which does not know it.
    for text, left in (('{"additionalProperties": {"propertyNames": {"type": "string"}}}', {"additionalProperties": {}}),
                       ('{"$defs": {"m": {"propertyNames": true, "type": "object"}}}', {"$defs": {"m": {"type": "object"}}}),
                       ('{"propertyNames": {"maxLength": 3}}', {"propertyNames": {"maxLength": 3}}),
                       ('{"propertyNames": {"format": "uuid"}}', {"propertyNames": {"format": "uuid"}}),
                       ('{"propertyNames": {"type": "string", "$comment": "a", "examples": ["b"]}}', {}),
                       ('{"propertyNames": {"type": "integer"}}', {"propertyNames": {"type": "integer"}}),
                       ('{"propertyNames": false}', {"propertyNames": False}),
                       ('{"properties": {"propertyNames": {"type": "string"}}}', {"properties": {"propertyNames": {"type": "string"}}}),
                       ('{"const": {"propertyNames": {}}}', {"const": {"propertyNames": {}}})):
        _, (schema,) = lark_of("S", text)
        assert {**schema["json_schema"], "x-guidance": None} == {**left, "x-guidance": None}, (text, schema)
    assert "dw:a+" in lark_of("R", "a+")[0]
    assert 'CHOICE: "a\\"" | "\u00e9"' in lark_of("C", '["a\\"", "\\u00e9", "a\\""]')[0]

    for kind, text, reason in (("S", "[", "is no JSON"), ("S", "false", "no value"), ("S", "3", "expected an object"),
                               ("S", "[" * 100_000, "too deeply"), ("S", '{"a": Infinity}', "Infinity"),
                               ("C", "{}", "list of texts"), ("C", "[1]", "list of texts"), ("L", "root ::= x", "Lark"),
                               ("?", "", "unknown kind")):
        got = refusal_of(kind, text)
        assert got and reason in got, (kind, text[:20], got)
    print("constraints are read as they must be")


if __name__ == "__main__":
    main()
