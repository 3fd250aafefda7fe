// OpenAI's own Python client and a model that calls a tool.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/rigs/child_process.h"
#include "tests/router/http/tool_serving_fixture.h"

namespace lockstep::testing {
namespace {

TEST_F(ToolServingTest, OpenAisClientCallsTools) {
  StartAll();
  ASSERT_NO_FATAL_FAILURE(
      Script(ToolBody(), "<think>\nEasy.\n</think>\n\nI add.\n" + std::string(kToolCall)));
  const Outcome outcome =
      RunShell(fmt::format("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=build/clients python3 "
                           "tests/router/http/openai_tools_check.py 127.0.0.1:{}",
                           port()));
  EXPECT_THAT(outcome.output, ::testing::Not(::testing::HasSubstr("ModuleNotFoundError")))
      << "deploy/fetch-clients fetches the packages";
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  ExpectEverythingBack();
}

}  // namespace
}  // namespace lockstep::testing
