"""openai-agents, over chats and over responses: agent_clients_check.py runs it.

    python3 openai_agents_check.py HOST:PORT
"""

import sys
import unittest

import agents
import openai

from shapes import MAX_TOKENS, QUESTION, Colour, Note

SERVER = sys.argv.pop(1)
agents.set_tracing_disabled(True)


class OpenAiAgentsCheck(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = openai.AsyncOpenAI(base_url=f"http://{SERVER}/v1", api_key="none", max_retries=0, timeout=60)
        self.models = [make(model="agent", openai_client=self.client)
                       for make in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel)]

    async def asyncTearDown(self):
        await self.client.close()

    def agent(self, model, picks):
        @agents.function_tool
        def pick(colour: Colour, sure: bool) -> str:
            """Picks a colour.

            Args:
                colour: The colour.
                sure: Whether it is sure.
            """
            picks.append((colour, sure))
            return "It is."

        return agents.Agent(
            name="painter", instructions="You know colours.", model=model, tools=[pick],
            model_settings=agents.ModelSettings(temperature=0, max_tokens=MAX_TOKENS, tool_choice="required", parallel_tool_calls=False))

    async def test_a_tool_is_called_and_its_result_read(self):
        for model in self.models:
            picks = []
            result = await agents.Runner.run(self.agent(model, picks), QUESTION)
            self.assertEqual(len(picks), 1)
            self.assertIn(picks[0][0], list(Colour))
            self.assertEqual([item.type for item in result.new_items][:2], ["tool_call_item", "tool_call_output_item"])
            self.assertIsInstance(result.final_output, str)

    async def test_a_stream_does_the_same(self):
        for model in self.models:
            picks, streamed_picks = [], []
            whole = await agents.Runner.run(self.agent(model, picks), QUESTION)
            streamed = agents.Runner.run_streamed(self.agent(model, streamed_picks), QUESTION)
            kinds = {event.type async for event in streamed.stream_events()}
            self.assertLessEqual({"raw_response_event", "run_item_stream_event"}, kinds)
            self.assertEqual(streamed_picks, picks)
            self.assertEqual(streamed.final_output, whole.final_output)

    async def test_a_result_of_a_type(self):
        for model in self.models:
            agent = agents.Agent(name="painter", model=model, output_type=Note, model_settings=agents.ModelSettings(temperature=0, max_tokens=MAX_TOKENS))
            result = await agents.Runner.run(agent, QUESTION)
            self.assertIsInstance(result.final_output, Note)


if __name__ == "__main__":
    unittest.main()
