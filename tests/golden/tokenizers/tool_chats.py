#!/usr/bin/env python3
"""Writes tool_chats.json: chats with tools, calls, results and reasoning, rendered by transformers.

Usage: tool_chats.py FOLDER

Run with transformers 5.24. The templates use tools in the ways of families of public templates. In the expected
prompts, arguments of calls are objects, as vLLM gives them to templates. A message that only makes calls has no
content, as in apply_chat_template, but the template "none" sees none.
"""
import copy
import json
import sys
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Says the weather at a \"place\".",
        "parameters": {"type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "description": "Où?"}, "days": {"type": "integer", "enum": [1, 2]}}},
        "strict": True}},
    {"function": {"parameters": {}, "name": "now"}, "type": "function"},
]


def call(name, arguments, call_id="call_1"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made, content=None, reasoning=None):
    message = {"role": "assistant", "content": content}
    message["tool_calls"] = list(made)
    if reasoning:
        message["reasoning_content"] = message["reasoning"] = reasoning
    return message


USER = {"role": "user", "content": "What is the weather in Zürich?"}
RESULT = {"role": "tool", "content": "{\"t\": 20}", "tool_call_id": "call_1"}
WEATHER = call("get_weather", "{\"place\": \"Zürich\", \"days\": 2, \"a\": [1.5, null, {\"b\": false}]}")
CHATS = {
    "question": [USER],
    "system": [{"role": "system", "content": "Be brief."}, USER],
    "called": [USER, calls(WEATHER), RESULT],
    "said and called": [USER, calls(WEATHER, content="I look."), RESULT, {"role": "assistant", "content": "20"}, USER],
    "called twice": [USER, calls(WEATHER, call("now", "", "call_2")), RESULT,
                     {"role": "tool", "content": "noon", "tool_call_id": "call_2", "name": "now"}],
    "no arguments": [USER, calls(call("now", "{}")), RESULT],
    "arguments that are no object": [USER, calls(call("now", "[1")), RESULT],
    "thought": [USER, {"role": "assistant", "content": "Warm.", "reasoning_content": "It is\nsummer.",
                       "reasoning": "It is\nsummer."}, USER],
    "thought and called": [USER, calls(WEATHER, reasoning="I need <it>."), RESULT],
}

HEAD = """{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{% endif %}
{{- "# Tools\\n<tools>" }}{% for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{% endfor %}
{{- "\\n</tools><|im_end|>\\n" }}
{%- endif %}
"""
TEMPLATES = {
    # Calls as JSON in tags, results in a message of the user; reasoning of turns after the last question.
    "tags": HEAD + """{%- for message in messages %}
{%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
{%- if message.role == 'user' %}{{- '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- if message.reasoning_content is string %}
{{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
{%- endif %}
{{- content }}
{%- if message.tool_calls %}{%- for tool_call in message.tool_calls %}
{%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
{%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
{{- '<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
{%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
{{- '}\\n</tool_call>' }}
{%- endfor %}{%- endif %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- if enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}
""",
    # One call in a message, as JSON; each parameter in a tag is another way to print it.
    "headers": """{{- bos_token }}
{%- for message in messages %}
{%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
{%- elif 'tool_calls' in message %}
{%- if not message.tool_calls | length == 1 %}{{- raise_exception("This model only supports single tool-calls at once!") }}{%- endif %}
{%- set tool_call = message.tool_calls[0].function %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + tool_call.name + '", "parameters": ' }}
{{- tool_call.arguments | tojson }}{{- '}<|eot_id|>' }}
{%- else %}
{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}
{%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}{%- else %}{{- message.content }}{%- endif %}
{{- '<|eot_id|>' }}
{%- endif %}
{%- endfor %}
{%- if tools is not none %}{%- for t in tools %}{{- t | tojson(indent=4) }}{{- '\\n\\n' }}{%- endfor %}{%- endif %}
""",
    # Calls are printed only if there is no content; ids are printed.
    "none": """{{- bos_token }}
{%- for message in messages %}
{%- if message['role'] == 'user' %}{{- '[INST] ' + message['content'] + '[/INST]' }}
{%- elif message['role'] == 'assistant' and message['content'] is none %}
{%- for tool_call in message['tool_calls'] %}
{{- ('[CALL]' if loop.first else ',') ~ tool_call.type ~ ' ' ~ tool_call.function.name ~ tool_call.function.arguments ~ tool_call.id }}
{%- endfor %}{{- eos_token }}
{%- elif message['role'] == 'assistant' %}{{- ' ' + message['content'] + eos_token }}
{%- elif message['role'] == 'tool' %}{{- '[RESULT]' ~ message.content ~ ' ' ~ message.tool_call_id ~ (message.name or '') ~ '[/RESULT]' }}
{%- endif %}
{%- endfor %}
""",
    # Arguments one by one.
    "parameters": """{%- for tool in tools or [] %}<function>{{ tool.function.name }}{% for k, v in tool.function.parameters.properties | default({}) | items %}
<parameter={{ k }}>{{ v.type }}</parameter>{% endfor %}</function>
{% endfor %}
{%- for message in messages %}<|{{ message.role }}|>
{%- if message.reasoning is defined %}<think>{{ message.reasoning | trim }}</think>{% endif %}
{{- message.content or '' }}
{%- for tool_call in message.tool_calls or [] %}<tool_call>{{ tool_call.function.name }}
{%- if tool_call.function.arguments is mapping %}{% for name, value in tool_call.function.arguments.items() %}
<arg_key>{{ name }}</arg_key>
<arg_value>{% if value is string %}{{ value }}{% else %}{{ value | tojson(ensure_ascii=False) }}{% endif %}</arg_value>
{%- endfor %}{% endif %}
</tool_call>{% endfor %}
{%- endfor %}
""",
}


def as_template_sees(chat, keeps_none):
    """What vLLM and transformers make of a client's messages."""
    chat = [{name: value for name, value in message.items() if keeps_none or value is not None}
            for message in copy.deepcopy(chat)]
    for message in chat:
        for made in message.get("tool_calls", []):
            function = made["function"]
            try:
                parsed = json.loads(function["arguments"] or "{}")
                function["arguments"] = parsed if isinstance(parsed, dict) else function["arguments"]
            except ValueError:
                pass
    return chat


def main():
    cases = []
    for name, template in TEMPLATES.items():
        for chat_name, chat in CHATS.items():
            for tools in (None, TOOLS):
                for arguments in ({}, {"enable_thinking": False}) if name == "tags" else ({},):
                    case = {"template": name, "chat": chat_name, "tools": tools, "extra": arguments}
                    try:
                        case["expected"] = render_jinja_template(
                            conversations=[as_template_sees(chat, name == "none")], chat_template=template, tools=tools,
                            add_generation_prompt=True, bos_token="<s>", eos_token="</s>", **arguments)[0][0]
                    except Exception:  # the template raises it
                        case["expected"] = None
                    cases.append(case)
    golden = {"templates": TEMPLATES, "chats": CHATS, "cases": cases}
    (Path(sys.argv[1]) / "tool_chats.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
