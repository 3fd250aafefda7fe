"""A plugin of pytest: packages that vLLM's tests import and that a test of an HTTP API does not need.

`vllm.tokenizers.get_tokenizer` is real: Hugging Face's tokenizer of the model that is served, made of the vocabulary in its GGUF file.
Everything else of vllm, torch and the like is a mock, so that files can be imported whose other tests look into vLLM itself.
"""

import functools
import importlib.abc
import importlib.machinery
import os
import struct
import sys
import types
from unittest import mock

ABSENT = ("fastapi", "hypothesis", "pybase64", "schemathesis", "starlette", "torch", "vllm")


def read_gguf_metadata(path):
    """The key-value part of a GGUF file."""
    formats = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    with open(path, "rb") as file:
        def number(kind):
            size = struct.calcsize("<" + kind)
            return struct.unpack("<" + kind, file.read(size))[0]

        def text():
            return file.read(number("Q")).decode()

        def value(kind):
            if kind == 8:
                return text()
            if kind == 9:
                element, count = number("I"), number("Q")
                return [value(element) for _ in range(count)]
            return number(formats[kind])

        assert file.read(4) == b"GGUF"
        number("I"), number("Q")
        return {text(): value(number("I")) for _ in range(number("Q"))}


@functools.cache
def get_tokenizer(*_, **__):
    """Of SmolLM2: digits alone, then GPT-2's words."""
    import tokenizers
    import transformers

    metadata = read_gguf_metadata(os.environ["LOCKSTEP_GGUF"])
    assert metadata["tokenizer.ggml.pre"] == "smollm", metadata["tokenizer.ggml.pre"]
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    model = tokenizers.models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    control = 3
    special = [token for token, kind in zip(tokens, metadata["tokenizer.ggml.token_type"]) if kind == control]
    tokenizer.add_special_tokens([tokenizers.AddedToken(token, special=True, normalized=False) for token in special])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=tokens[metadata["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[metadata["tokenizer.ggml.eos_token_id"]], clean_up_tokenization_spaces=False)
    fast.chat_template = metadata["tokenizer.chat_template"]
    return fast


class Mocks(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules whose every name is a mock."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ABSENT:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = functools.cache(lambda name: mock.MagicMock(name=f"{spec.name}.{name}"))
        if spec.name == "vllm.tokenizers":
            module.get_tokenizer = get_tokenizer
        if spec.name == "vllm.config":
            module.ModelConfig = lambda **_: types.SimpleNamespace(get_vocab_size=lambda: len(get_tokenizer()))
        if spec.name == "vllm.model_executor.model_loader.weight_utils":
            module.download_weights_from_hf = lambda name, **_: name
        if spec.name == "torch":
            module.long, module.iinfo = int, lambda _: types.SimpleNamespace(min=-2**63, max=2**63 - 1)
        if spec.name == "vllm.platforms":
            module.current_platform = mock.MagicMock(**{f"is_{kind}.return_value": False for kind in ("rocm", "cpu", "xpu", "tpu")})
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Mocks())
