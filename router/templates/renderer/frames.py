"""Frames between router and renderer (router/templates/renderer_frames.h), from the renderer's side."""
import json

MAX_JOB_BYTES = 64 << 20
MAX_TEXT_BYTES = 16 << 20  # of a rendered chat


def read_template(reader):
    """(templates by name, special tokens by name)"""
    templates = {reader.text(): reader.text() for _ in range(reader.length())}
    return templates, json.loads(reader.text())


def read_message(text):
    """One message, with the members that clients of transformers give it. `text` reads the next string."""
    message = {"role": text(), "content": text()}
    name, tool_calls, tool_call_id, reasoning = text(), text(), text(), text()
    if name:
        message["name"] = name
    if tool_calls:
        message["tool_calls"] = json.loads(tool_calls)
        if not message["content"]:
            del message["content"]
    if tool_call_id:
        message["tool_call_id"] = tool_call_id
    if reasoning:
        # Templates use any of these names.
        message["reasoning_content"] = message["reasoning"] = message["thinking"] = reasoning
    return message


def read_chat(reader):
    """(variables of the template, the characters that marks in them stand for)"""
    add_generation_prompt = reader.flag()
    marked_characters = reader.text()
    arguments = reader.text()
    tools = reader.text()
    messages = [read_message(reader.text) for _ in range(reader.length())]
    variables = {"messages": messages, "tools": None, "documents": None,
                 "add_generation_prompt": add_generation_prompt}
    if arguments:
        variables.update(json.loads(arguments))
    if tools:
        variables["tools"] = json.loads(tools)
    return variables, marked_characters
