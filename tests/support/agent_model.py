"""A model for checks of tools: tests/golden/tiny-llama with a long context, a template that prints tools, and outputs that end.

It knows nothing, so it calls a tool only where it must, and thinks only where `enable_thinking` is true. Its outputs are greedy by default, as its defaults for sampling are gone.
"""

import json
import pathlib
import shutil
import struct

CONTEXT_TOKENS = 16384
TOOL_FORMAT = "hermes"  # as the template below writes calls
# The tokens that end a string and an output get logits that are larger by this power of two, or smaller where they are negative. So both are soon
# the likeliest.
LOUD_EXPONENTS = {'"': 3, "<|eot_id|>": 2}
TEMPLATE = (
    "{{ bos_token }}"
    "{% if tools %}<|start_header_id|>tools<|end_header_id|>\n\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|eot_id|>{% endif %}"
    "{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n{{ (message.content or '') | trim }}"
    "{% for call in message.tool_calls or [] %}<tool_call>\n{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}\n"
    "</tool_call>{% endfor %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n<think>\n{% if enable_thinking is not true %}\n</think>\n\n{% endif %}{% endif %}")


def _make_loud(path, exponents):
    """Multiplies rows of the output matrix, which has bfloat16 numbers, by powers of two."""
    data = bytearray(path.read_bytes())
    (header_bytes,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + header_bytes])["lm_head.weight"]
    assert head["dtype"] == "BF16", head
    columns = head["shape"][1]
    begin = 8 + header_bytes + head["data_offsets"][0]
    for row, exponent in exponents.items():
        place = begin + 2 * columns * row
        numbers = struct.unpack_from(f"<{columns}H", data, place)
        struct.pack_into(f"<{columns}H", data, place, *(number + (exponent << 7) if number & 0x7F80 else number for number in numbers))
    path.write_bytes(data)


def make_agent_model(source, folder):
    """Writes the model into the folder `folder`/agent, from the one in the folder `source`. Its folder."""
    source, target = pathlib.Path(source), pathlib.Path(folder) / "agent"
    target.mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        shutil.copyfile(source / name, target / name)
    config = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, "max_position_embeddings": CONTEXT_TOKENS}))
    tokenizer = json.loads((source / "tokenizer_config.json").read_text())
    (target / "tokenizer_config.json").write_text(
        json.dumps({**tokenizer, "chat_template": TEMPLATE, "model_max_length": CONTEXT_TOKENS}))
    defaults = {"bos_token_id": config["bos_token_id"], "eos_token_id": [380, 383], "do_sample": False}
    (target / "generation_config.json").write_text(json.dumps(defaults))
    words = json.loads((source / "tokenizer.json").read_text())
    ids = {**words["model"]["vocab"], **{token["content"]: token["id"] for token in words["added_tokens"]}}
    _make_loud(target / "model.safetensors", {ids[text]: exponent for text, exponent in LOUD_EXPONENTS.items()})
    return target
