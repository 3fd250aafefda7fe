// Other people's clients against the programs: Python packages, as deploy/fetch-clients fetches
// them, and curl, with the examples of docs/ as a reader runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "tests/integration/process_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class HttpClientsTest : public ProcessTest {
 protected:
  void StartGateway() {
    ASSERT_NO_FATAL_FAILURE(StartFleet({"--http_listen=127.0.0.1:0"}));
    ASSERT_FALSE(router_->http_address().empty());
  }
  Outcome RunPython(const std::string& script_and_arguments,
                    const std::string& packages = "build/clients") {
    const Outcome outcome = RunShell("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + packages +
                                     " python3 " + script_and_arguments);
    EXPECT_THAT(outcome.output, Not(HasSubstr("ModuleNotFoundError")))
        << "deploy/fetch-clients fetches the packages";
    return outcome;
  }
  void ExpectPasses(const std::string& script_and_arguments,
                    const std::string& packages = "build/clients") {
    const Outcome outcome = RunPython(script_and_arguments, packages);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    ExpectNothingHeld();
  }
};

TEST_F(HttpClientsTest, OpenAisClientGetsWhatItExpects) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  ExpectPasses("tests/router/http/openai_client_check.py " + router_->http_address());
}

TEST_F(HttpClientsTest, OpenAisClientGetsResponsesOfItsTypes) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  ExpectPasses("tests/router/http/responses_client_check.py " + router_->http_address());
}

TEST_F(HttpClientsTest, LangchainGetsWhatItExpects) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  ExpectPasses("tests/router/http/langchain_client_check.py " + router_->http_address());
}

TEST_F(HttpClientsTest, LitellmGetsWhatItExpects) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  ExpectPasses("-W ignore tests/router/http/litellm_client_check.py " + router_->http_address(),
               "build/clients-litellm");
}

// Two versions of it: they send keys and the version of the API in different ways.
TEST_F(HttpClientsTest, AnthropicsClientGetsWhatItExpects) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  for (const std::string packages : {"build/clients-anthropic", "build/clients-anthropic-1"}) {
    ExpectPasses("tests/router/http/anthropic_client_check.py " + router_->http_address(),
                 packages);
  }
}

TEST_F(HttpClientsTest, TheProgramLlmGetsWhatItExpects) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  ExpectPasses("tests/router/http/llm_program_check.py " + router_->http_address());
}

TEST_F(HttpClientsTest, GrpcioFindsHealthByReflectionAlone) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  for (const std::string& address : {router_->grpc_address(), router_->http_address()}) {
    ExpectPasses("tests/router/grpc/reflection_client_check.py " + address);
  }
}

TEST_F(HttpClientsTest, TheExampleStreamsAnAnswerAndItsUsage) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  const std::string example = "docs/examples/openai_chat.py --server " + router_->http_address();
  const Outcome answer = RunPython(example + " --max-tokens 8 'Hello?'");
  EXPECT_EQ(answer.exit_code, 0) << answer.output;
  EXPECT_THAT(answer.output,
              ContainsRegex("\\[length: [0-9]+ prompt tokens, 0 of them cached, 8 generated\\]"));
  const Outcome wrong = RunPython(example + " --temperature=-1 'Hello?'");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.output, HasSubstr("400 invalid_request_error: temperature: expected"));
}

TEST_F(HttpClientsTest, AnAnswerCanBeHadAgain) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  const Outcome outcome =
      RunShell("python3 docs/examples/same_answer.py --server " + router_->http_address() + " Hi");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, ContainsRegex("fp_[0-9a-f]+ seed [0-9]+: "));
  EXPECT_THAT(outcome.output, ::testing::EndsWith("\nequal\n"));
}

TEST_F(HttpClientsTest, CurlWorksAsTheDocumentsShow) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  const Outcome outcome = RunShell("docs/examples/http-requests " + router_->http_address());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("\"id\":\"tiny-llama\""));
  EXPECT_THAT(outcome.output, HasSubstr("\"index\":1"));
  EXPECT_THAT(outcome.output, HasSubstr("\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"));
  EXPECT_THAT(outcome.output, HasSubstr("data: [DONE]"));
  EXPECT_THAT(outcome.output, HasSubstr("\"object\":\"response\""));
  EXPECT_THAT(outcome.output, HasSubstr("\"tokens\":["));
}

TEST_F(HttpClientsTest, CurlSendsLargeBodiesAndReadsErrors) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  const std::string url = "http://" + router_->http_address() + "/v1/completions";
  // Above 1 MiB curl asks first, with "Expect: 100-continue".
  const Outcome large = RunShell(
      "head -c 2000000 /dev/zero | tr '\\0' ' ' | curl -s -w '%{http_code}' --json @- " + url);
  EXPECT_THAT(large.output, HasSubstr("body: byte 2000000: "));
  EXPECT_THAT(large.output, ::testing::EndsWith("400"));
  const Outcome huge =
      RunShell("head -c 20000000 /dev/zero | curl -s -w '%{http_code}' --json @- " + url);
  EXPECT_THAT(huge.output, HasSubstr("413"));
}

TEST_F(HttpClientsTest, SigtermLetsAStreamFinish) {
  ASSERT_NO_FATAL_FAILURE(StartGateway());
  worker_->Signal(SIGSTOP);
  const std::string url = "http://" + router_->http_address() + "/v1/completions";
  FILE* const curl = popen(("curl -s -N --json '{\"prompt\": \"x\", \"max_tokens\": 100, "
                            "\"ignore_eos\": true, \"stream\": true}' " +
                            url)
                               .c_str(),
                           "r");
  ASSERT_NE(curl, nullptr);
  ExpectMetricBecomes("lockstep_router_running_requests{model=\"tiny-llama\"}", 1);
  router_->Signal(SIGTERM);
  while (HttpGet(router_->admin_address(), "/healthz").ok()) {
  }
  worker_->Signal(SIGCONT);
  std::string output;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof(buffer), curl)) output.append(buffer, count);
  EXPECT_EQ(pclose(curl), 0);
  EXPECT_THAT(output, HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_THAT(output, HasSubstr("data: [DONE]"));
  EXPECT_EQ(router_->Wait(absl::Seconds(30)), 0);
}

}  // namespace
}  // namespace lockstep::testing
