"""In the place of vLLM's tests/utils.py: the server is ours, and runs already."""

import functools
import os

import openai

URL = os.environ["LOCKSTEP_URL"]
# Of a chat whose test sets no limit: our model may go on up to the end of its context, and runs on a CPU.
MAX_CHAT_TOKENS = 256
ROCM_EXTRA_ARGS = []


def with_limit(client):
    completions = client.chat.completions
    create = completions.create

    @functools.wraps(create)
    def create_with_limit(**arguments):
        if not {"max_tokens", "max_completion_tokens"} & arguments.keys():
            arguments["max_completion_tokens"] = MAX_CHAT_TOKENS
        return create(**arguments)

    completions.create = create_with_limit
    return client


class RemoteOpenAIServer:
    """A context, as theirs is. What its flags turn on is either always on here, or its tests are not selected."""

    DUMMY_API_KEY = "token-abc123"

    def __init__(self, model, vllm_serve_args, *, env_dict=None, **_):
        self.model = model
        self.url_root = URL

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def url_for(self, *parts):
        return "/".join([self.url_root, *parts])

    def get_client(self, **arguments):
        return with_limit(openai.OpenAI(**self._defaults(arguments)))

    def get_async_client(self, **arguments):
        return with_limit(openai.AsyncOpenAI(**self._defaults(arguments)))

    def _defaults(self, arguments):
        return {"base_url": self.url_for("v1"), "api_key": self.DUMMY_API_KEY, "max_retries": 0, "timeout": 600, **arguments}
