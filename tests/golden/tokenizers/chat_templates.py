#!/usr/bin/env python3
"""Writes chat_templates.json: templates, their arguments and what Jinja makes of them.

Usage: chat_templates.py FOLDER. Jinja 3.1, set up as transformers sets it up for chat templates.
"""
import json
import random
import sys
from pathlib import Path

from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

TALK = [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "  What is 2+2?\n"},
    {"role": "assistant", "content": "<think>\neasy\n</think>\n\n4"},
    {"role": "user", "content": "Naïve café? 你好"},
]
TOOLS = [
   
    {"type": "function", "function": {"name": "add", "description": "Adds \"two\" numbers", "parameters": {"a": {"type": "number"}, "b": None}}},
]

# One per family of public templates, with the constructs that the family is known for.
FAMILIES = {
    "chatml": """{% for message in messages %}
{% if loop.first and messages[0]['role'] != 'system' %}
{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{% endif %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{% endif %}
""",
    "headers": """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{#- The system message has a place of its own. -#}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none and tools is defined %}
    {{- "Environment: ipython\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- "Today: " + date_string + "\\n" + system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "alternating": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {%- if loop.last and system_message is defined %}
            {{- '[INST] ' + system_message + '\\n\\n' + message['content'] + '[/INST]' }}
        {%- else %}
            {{- '[INST] ' ~ message['content'] ~ '[/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content']|trim + eos_token}}
    {%- else %}
        {{- raise_exception('Only user and assistant roles are supported!') }}
    {%- endif %}
{%- endfor %}
""",
    "thinking": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "macros": """{%- macro turn(role, text, mark='|') -%}
<{{ mark }}{{ role | upper }}{{ mark }}>{{ text | trim }}
{%- endmacro -%}
{%- for message in messages if message.role != 'system' -%}
    {{ turn(message.role, message.content) }}
    {%- if not loop.last %}{{ '\\n' }}{% endif %}
{%- else -%}
    nothing
{%- endfor %}
{%- for key, value in {'b': 1, 'a': [1, 2.5, true, none]}.items() %} {{ key }}={{ value | tojson }}{% endfor %}
{{ [messages[0].role, 'x'] | join(', ') }} {{ 7 // 2 }} {{ 1 if tools else 2 }} {{ 'abc'[1:] }} {{ 'abc'[:-1] }}
""",
}

# What tojson writes, with every argument that it has.
JSON_FILTERS = [
    "tojson", "tojson(indent=4)", "tojson(indent=0)", "tojson(indent=-1)", "tojson(indent='> ')",
    "tojson(ensure_ascii=true)", "tojson(true)", "tojson(false, 2)", "tojson(sort_keys=true)",
    "tojson(separators=(',', ':'))", "tojson(indent=1, separators=(' ; ', '='))",
    "tojson(ensure_ascii=true, indent=3, sort_keys=true)",
]
JSON_VALUES = [
    {}, [], [[]], {"a": {}, "b": [], "c": [{}]}, TOOLS, None, True, 0, -7, 2**63, "x",
    {"properties": {}, "b": {"z": 1, "a": [1, [2, {"k": None}]]}, "a": False, "": ""},
    [1.5, 1e-07, 1.0, -0.0, 0.0001, 0.00001, 1e15, 1e16, 1e22, 123456789012345680.0, 0.1 + 0.2, 5e-324,
     1.7976931348623157e308, 9007199254740994.0, 9999999999999998.0, -2.5e-10, 100.0],
    ["caf\u00e9 \u4f60 \U0001f600 \u2028", "\"\\/\b\f\n\r\t\x00\x1f\x7f\u0080", "<b>&'{{ x }}"],
    {"\u00e9": 1, "z": 2, "\uffff": 3, "\U0001f600": 4, "\n": 5, "Z": 6},
]

PIECES = [
    "a", " ", "  ", "\n", "\n\n", "\t", " b ", "\n  ", "  \n", "\\", '"', "'", "{ x }", "\r\n",
    "\u00e9",
]
TAGS = [
    "{% if true %}", "{%- if true %}", "{% if true -%}", "{%- if true -%}", "{%+ if true %}",
    "{% if true +%}",
]
ENDS = [
    "{% endif %}", "{%- endif %}", "{% endif -%}", "{%- endif -%}", "{%+ endif +%}",
]
OTHERS = [
    "{{ 'v' }}", "{{- 'v' }}", "{{ 'v' -}}", "{{- 'v' -}}", "{# c #}", "{#- c #}", "{# c -#}",
    "{#- c -#}", "{{ {'k': {'j': 'w'}}['k']['j'] }}", "{% set x = 1 %}", "{%- set x = 1 -%}",
    "{# a\n{{ b }} #}", "{{ -1 }}",
]


def environment():
    def raise_exception(message):
        raise TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def white_space_template(rng):
    parts = []
    for _ in range(rng.randint(1, 4)):
        parts += rng.choices(PIECES, k=rng.randint(0, 3))
        kind = rng.random()
        if kind < 0.5:
            parts.append(rng.choice(TAGS))
            parts += rng.choices(PIECES, k=rng.randint(0, 3))
            parts.append(rng.choice(ENDS))
        else:
            parts.append(rng.choice(OTHERS))
    parts += rng.choices(PIECES, k=rng.randint(0, 3))
    return "".join(parts)


def main():
    rng = random.Random(5)
    env = environment()
    cases = []

    def add(source, messages, extra, add_generation_prompt):
        case = {"template": source, "messages": messages, "extra": extra,
                "add_generation_prompt": add_generation_prompt}
        try:
            case["expected"] = env.from_string(source).render(
                messages=messages, add_generation_prompt=add_generation_prompt, bos_token="<s>",
                eos_token="</s>", **extra)
        except TemplateError as error:
            case["error"] = str(error)
        cases.append(case)

    for source in FAMILIES.values():
        for messages in (TALK, TALK[1:], TALK[:2], TALK[::-1]):
            for extra in ({}, {"tools": TOOLS, "enable_thinking": False}):
                extra = {**extra, "date_string": "26 Jul 2024"}  # instead of today's
                add(source, messages, extra, add_generation_prompt=messages is not TALK[:2])
    for value in JSON_VALUES:
        for json_filter in JSON_FILTERS:
            add("{{ value | " + json_filter + " }}", [], {"value": value}, True)
    add("{{ {2: [], true: {3.5: none}, none: 0.5} | tojson(indent=2) }}", [], {}, True)
    add("{% for v in value %}{{ v | string }} {% endfor %}", [],
        {"value": [1.5e-07, 1e20, 2.0, -0.5, 0.1 + 0.2, 7, True, None, "x"]}, True)
    for _ in range(600):
        add(white_space_template(rng), [], {}, True)
    text = json.dumps(cases, ensure_ascii=False, indent=0)
    (Path(sys.argv[1]) / "chat_templates.json").write_text(text, newline="")
    num_errors = sum("error" in case for case in cases)
    print(f"{len(cases)} cases, {num_errors} of them errors, {len(text)} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
