"""The program `llm` against a running router: http_clients_test runs it.

    python3 llm_program_check.py HOST:PORT
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SERVER = sys.argv.pop(1)
# As its documentation says for servers of OpenAI's API.
MODELS = f"""
- model_id: chat
  model_name: tiny-llama
  api_base: http://{SERVER}/v1
- model_id: text
  model_name: tiny-llama
  api_base: http://{SERVER}/v1
  completion: true
"""


class LlmProgramCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        pathlib.Path(self.folder.name, "extra-openai-models.yaml").write_text(MODELS)

    def tearDown(self):
        self.folder.cleanup()

    def run_llm(self, *arguments, typed=""):
        environment = {**os.environ, "LLM_USER_PATH": self.folder.name, "OPENAI_API_KEY": "none"}
        return subprocess.run([sys.executable, "-m", "llm", *arguments], env=environment, input=typed, text=True,
                              capture_output=True, timeout=60)

    def ask(self, *arguments, **options):
        done = self.run_llm(*arguments, "-o", "max_tokens", "6", "-o", "temperature", "0", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_a_prompt_is_answered_streamed_or_not(self):
        streamed = self.ask("-m", "chat", "-s", "Be brief.", "Hi")
        self.assertTrue(streamed.stdout.strip())
        whole = self.ask("-m", "chat", "--no-stream", "--usage", "-s", "Be brief.", "Hi")
        self.assertEqual(whole.stdout, streamed.stdout)
        self.assertIn("6 output", whole.stderr)

    def test_a_conversation_goes_on(self):
        self.ask("-m", "chat", "Hi")
        self.assertTrue(self.ask("-c", "And?").stdout.strip())
        self.assertEqual(self.ask("chat", "-m", "chat", typed="Hi\nexit\n").stderr, "")

    def test_a_text_is_continued(self):
        self.assertTrue(self.ask("-m", "text", "Once").stdout.strip())

    def test_an_error_is_shown(self):
        done = self.run_llm("-m", "chat", "x " * 500)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("maximum context length is 256 tokens", done.stderr)


if __name__ == "__main__":
    unittest.main()
