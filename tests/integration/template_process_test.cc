// Chat templates that would take a router down render in processes of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <string>

#include "common/instant.h"
#include "common/runtime/clock.h"
#include "tests/common/temp_folder.h"
#include "tests/integration/process_fixture.h"
#include "tests/router/templates/child_processes.h"

namespace lockstep::testing {
namespace {

// Does what the message names.
constexpr char kHostileTemplate[] =
    "{% set what = messages[0].content %}{% set ns = namespace(n=0) %}"
    "{% if what == 'memory' %}{{ 'x' * 10 ** 9 }}"
    "{% elif what == 'loops' %}{% for a in range(90000) %}{% for b in range(90000) %}"
    "{% set ns.n = b %}{% endfor %}{% endfor %}"
    "{% else %}{{ what }}{% endif %}";

class TemplateProcessTest : public ProcessTest {
 protected:
  // A fleet whose model has this template.
  void StartFleetWith(const std::string& chat_template, const std::vector<std::string>& flags) {
    std::filesystem::copy(kModel, folder_.path());
    const std::filesystem::path path =
        std::filesystem::path(folder_.path()) / "tokenizer_config.json";
    nlohmann::json content = nlohmann::json::parse(std::ifstream(path));
    content["chat_template"] = chat_template;
    std::ofstream(path) << content;
    ASSERT_NO_FATAL_FAILURE(StartWorker("127.0.0.1:0"));
    std::vector<std::string> all = {"--model=" + folder_.path(), "--model_id=tiny-llama",
                                    "--template_timeout=2s"};
    all.insert(all.end(), flags.begin(), flags.end());
    ASSERT_NO_FATAL_FAILURE(StartRouter(all));
    ExpectWorkerStateBecomes("ready");
  }

  Answer Say(const std::string& content) {
    lockstep::v1::GenerateRequest request = Request({}, 4);
    auto* const message = request.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(content);
    return Generate(request);
  }

  TempFolder folder_;
};

TEST_F(TemplateProcessTest, WhatHitsABoundFailsThatRequestAlone) {
  ASSERT_NO_FATAL_FAILURE(StartFleetWith(kHostileTemplate, {}));
  for (const std::string what : {"memory", "loops"}) {
    const grpc::Status status = Say(what).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr("chat template: "));
    EXPECT_LT(status.error_message().size(), 200u);
    EXPECT_TRUE(Say("Hi").status.ok());
  }
  const std::string series = "lockstep_router_template_renderer_ends_total{model=\"tiny-llama\",";
  EXPECT_EQ(Metric(series + "reason=\"time\"}"), 1);
  EXPECT_EQ(Metric(series + "reason=\"memory\"}"), 1);
  ExpectNothingHeld();
}

TEST_F(TemplateProcessTest, ATemplateThatIsNoneCostsChatsOnly) {
  ASSERT_NO_FATAL_FAILURE(StartFleetWith("{% for m in messages %}", {}));
  const grpc::Status status = Say("Hi").status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("chat template cannot be used"));
  EXPECT_TRUE(Generate(Request({5, 6, 7}, 4)).status.ok());
}

TEST_F(TemplateProcessTest, SigtermEndsARouterWhoseTemplateLoops) {
  ASSERT_NO_FATAL_FAILURE(StartFleetWith(kHostileTemplate, {"--drain_timeout=100ms"}));
  auto answer = std::async(std::launch::async, [this] { return Say("loops"); });
  std::vector<pid_t> renderers;
  const auto one_runs = [&] {
    renderers = RenderersOf(router_->pid());
    return std::ranges::any_of(renderers, [](pid_t pid) {
      return ProcFile(pid, "stat").find(") R ") != std::string::npos;
    });
  };
  const Instant give_up = MonotonicNow() + absl::Seconds(30);
  while (!one_runs() && MonotonicNow() < give_up) {
  }
  router_->Signal(SIGTERM);
  EXPECT_EQ(router_->Wait(absl::Seconds(60)), 0);
  EXPECT_FALSE(answer.get().status.ok());
  for (const pid_t renderer : renderers) EXPECT_TRUE(HasEnded(renderer));
}

TEST_F(TemplateProcessTest, RenderersDieWithTheirRouter) {
  ASSERT_NO_FATAL_FAILURE(StartFleetWith(kHostileTemplate, {}));
  const std::vector<pid_t> renderers = RenderersOf(router_->pid());
  ASSERT_GE(renderers.size(), 1u);
  router_->Signal(SIGKILL);
  EXPECT_EQ(router_->Wait(absl::Seconds(60)), 128 + SIGKILL);
  for (const pid_t renderer : renderers) EXPECT_TRUE(HasEnded(renderer));
}

}  // namespace
}  // namespace lockstep::testing
