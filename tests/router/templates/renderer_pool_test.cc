#include "router/templates/renderer_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/status.h"
#include "tests/common/temp_folder.h"
#include "tests/router/templates/child_processes.h"
#include "tests/router/text/golden_corpus.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::HasEnded;
using ::lockstep::testing::ProcFile;
using ::lockstep::testing::RenderersOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kProgram[] = LOCKSTEP_BIN_DIR "/lockstep-template-renderer";

// Runs what the first message names; the chat of the start runs nothing.
constexpr char kHostileTemplate[] = R"(
{%- macro again(x) %}{{ again(x) }}{% endmacro %}
{%- set what = messages[0].content %}
{%- set ns = namespace(text='abcdefgh', one=1) %}
{%- if what == 'value' %}{% set ns.self = ns %}{{ ns }}
{%- elif what == 'macro' %}{{ again(1) }}
{%- elif what == 'loops' %}
{%- for a in range(90000) %}{% for b in range(90000) %}{% set ns.one = b %}{% endfor %}{% endfor %}
{%- elif what == 'doubling' %}
{%- for a in range(60) %}{% set ns.text = ns.text + ns.text %}{% endfor %}
{%- elif what == 'list' %}
{%- set ns.list = [ns.text] %}
{%- for a in range(60) %}{% set ns.list = ns.list + ns.list %}{% endfor %}
{%- elif what == 'zero' %}{{ 1 % (ns.one - 1) }}
{%- elif what == 'slice' %}{{ ns.text[100000000:100000009:2] }}
{%- elif what == 'output' %}{% for a in range(100000) %}{{ ns.text * 100 }}{% endfor %}
{%- else %}<{{ what }}>{% endif %})";

RendererPoolConfig Config() {
  RendererPoolConfig config{.program = kProgram, .max_processes = 2, .limits = {}};
  // Sanitizers make everything slower, a machine with other work as well.
  if (kSanitized) config.limits.time = absl::Seconds(2);
  config.limits.load_time = absl::Seconds(30);
  return config;
}

std::unique_ptr<const CagedTemplate> Cage(const std::string& text,
                                          const RendererPoolConfig& config = Config()) {
  auto caged =
      CagedTemplate::Start(config, {.text = text, .bos_token = "<s>", .eos_token = "</s>"});
  EXPECT_TRUE(caged.ok()) << caged.status();
  return caged.ok() ? *std::move(caged) : nullptr;
}

absl::StatusOr<std::string> Say(const CagedTemplate& caged, const std::string& content,
                                const std::string& arguments = "") {
  const std::vector<ChatMessage> chat = {{.role = "user", .content = content, .name = ""}};
  return caged.Render(chat, {.add_generation_prompt = true, .extra_arguments_json = arguments});
}

TEST(CagedTemplateTest, RendersAsTheEngineDoes) {
  const auto cases =
      nlohmann::ordered_json::parse(ReadGoldenFile("chat_templates.json"), nullptr, false);
  ASSERT_TRUE(cases.is_array());
  std::map<std::string, std::unique_ptr<const CagedTemplate>> templates;
  for (const auto& golden : cases) {
    if (golden["messages"].empty()) continue;  // the families of public templates only
    auto& caged = templates[golden["template"]];
    if (caged == nullptr) caged = Cage(golden["template"]);
    ASSERT_NE(caged, nullptr);
    std::vector<ChatMessage> messages;
    for (const auto& message : golden["messages"]) {
      messages.push_back({message["role"], message["content"], ""});
    }
    const auto prompt =
        caged->Render(messages, {.add_generation_prompt = golden["add_generation_prompt"],
                                 .extra_arguments_json = golden["extra"].dump()});
    if (golden.contains("error")) {
      EXPECT_THAT(Message(prompt.status()), HasSubstr(std::string(golden["error"])));
    } else {
      ASSERT_TRUE(prompt.ok()) << prompt.status();
      EXPECT_EQ(*prompt, std::string(golden["expected"]));
    }
  }
  EXPECT_GE(templates.size(), 5u);
}

TEST(CagedTemplateTest, WhatHitsABoundFailsAloneAndIsCounted) {
  const auto caged = Cage(kHostileTemplate);
  ASSERT_NE(caged, nullptr);
  std::vector<RendererEnd> ends;
  caged->pool().Watch([&ends](RendererEnd end) { ends.push_back(end); });
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"value", "refers to itself or nests too deeply"},
      {"loops", "rendering takes more than"},
      {"zero", "crash"},
      {"slice", "crash"},
  };
  for (const auto& [what, problem] : cases) {
    const auto text = Say(*caged, what);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << what << text.status();
    if (!kSanitized) {
      EXPECT_THAT(Message(text.status()), HasSubstr(problem)) << what;
    }
    EXPECT_LT(Message(text.status()).size(), 200u);
    EXPECT_EQ(Say(*caged, "Hi").value_or("none"), "<Hi>") << what;
  }
  ASSERT_THAT(ends, SizeIs(cases.size()));
  if (kSanitized) return;
  EXPECT_THAT(ends, ::testing::ElementsAre(RendererEnd::kStack, RendererEnd::kTime,
                                           RendererEnd::kCrash, RendererEnd::kCrash));
}

TEST(CagedTemplateTest, WhatGrowsWithoutEndIsStopped) {
  RendererPoolConfig config = Config();
  config.limits.time = absl::Seconds(10);
  config.limits.memory_mib = 128;
  if (kSanitized) config.limits.time = absl::Milliseconds(500);
  const auto caged = Cage(kHostileTemplate, config);
  ASSERT_NE(caged, nullptr);
  for (const std::string what : {"doubling", "list"}) {
    const auto text = Say(*caged, what);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << text.status();
    if (!kSanitized) {
      EXPECT_THAT(Message(text.status()), HasSubstr("needs more than 128 MiB"));
    }
    EXPECT_EQ(Say(*caged, "Hi").value_or("none"), "<Hi>");
  }
}

TEST(CagedTemplateTest, TheEnginesOwnBoundsNeedNoNewProcess) {
  RendererPoolConfig config = Config();
  config.limits.time = absl::Seconds(10);
  const auto caged = Cage(kHostileTemplate, config);
  ASSERT_NE(caged, nullptr);
  const std::vector<pid_t> before = RenderersOf(getpid());
  EXPECT_THAT(Message(Say(*caged, "macro").status()), HasSubstr("too deeply"));
  EXPECT_THAT(Message(Say(*caged, "output").status()), HasSubstr("renders to more than"));
  EXPECT_EQ(RenderersOf(getpid()), before);
}

TEST(CagedTemplateTest, AMessageOfATemplateIsCut) {
  const auto caged = Cage("{{ raise_exception('Not you: ' + messages[0].content) }}");
  ASSERT_NE(caged, nullptr) << "a template may refuse the chat of the start";
  const auto text = Say(*caged, std::string(100'000, 'x'));
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(text.status()), HasSubstr("Not you: xxx"));
  EXPECT_LE(Message(text.status()).size(), 512u);
}

TEST(CagedTemplateTest, TemplatesThatCannotServeAreRefusedAtTheStart) {
  RendererPoolConfig config = Config();
  const auto refusal = [&config](const std::string& text) {
    const auto caged =
        CagedTemplate::Start(config, {.text = text, .bos_token = "", .eos_token = ""});
    EXPECT_EQ(caged.status().code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 80);
    return Message(caged.status());
  };
  EXPECT_THAT(refusal("a\n{% if %}"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}"),
              HasSubstr("rendering"));
  EXPECT_THAT(refusal("{{ 1 % 0 }}"), HasSubstr("rendering"));
  EXPECT_THAT(refusal(std::string(100'000, 'x')), HasSubstr("expected at most"));
  // The parser recurses, and takes time that grows with the square of a tag's length.
  config.limits.load_time = absl::Seconds(1);
  EXPECT_THAT(refusal("{{ " + std::string(10'000, '(') + "1" + std::string(10'000, ')') + " }}"),
              HasSubstr("parsing"));
  EXPECT_THAT(RenderersOf(getpid()), SizeIs(0));
}

TEST(CagedTemplateTest, ARendererThatWasEndedByOthersIsReplaced) {
  const auto caged = Cage("<{{ messages[0].content }}>");
  ASSERT_NE(caged, nullptr);
  for (const int signal_number : {SIGKILL, SIGTERM}) {
    const std::vector<pid_t> renderers = RenderersOf(getpid());
    ASSERT_THAT(renderers, SizeIs(1));
    kill(renderers[0], signal_number);
    ASSERT_TRUE(HasEnded(renderers[0]));
    EXPECT_EQ(Say(*caged, "Hi").value_or("none"), "<Hi>");
  }
}

TEST(CagedTemplateTest, ARendererThatIsEndedInTheMiddleIsTriedAgainOnce) {
  RendererPoolConfig config = Config();
  config.limits.time = absl::Seconds(10);  // the loops take longer
  const auto caged = Cage(kHostileTemplate, config);
  ASSERT_NE(caged, nullptr);
  std::atomic<int> num_ends = 0;
  caged->pool().Watch([&num_ends](RendererEnd end) { num_ends += end == RendererEnd::kGone; });
  std::atomic<bool> done = false;
  std::thread killer([&done] {
    while (!done) {
      for (const pid_t renderer : RenderersOf(getpid())) kill(renderer, SIGKILL);
      std::this_thread::yield();
    }
  });
  const auto text = Say(*caged, "loops");
  done = true;
  killer.join();
  EXPECT_EQ(text.status().code(), absl::StatusCode::kUnavailable) << text.status();
  EXPECT_EQ(num_ends, 2);
  // The killer may have met the successor as well.
  EXPECT_EQ(Say(*caged, "Hi").value_or("none"), "<Hi>");
}

// What the dynamic loader ends with when a shared library is missing; env does when its argument is
// no program. The template is not to blame.
TEST(CagedTemplateTest, AProgramThatCannotBeLoadedIsNotTheTemplatesFault) {
  RendererPoolConfig config = Config();
  config.program = "/usr/bin/env";
  const auto caged =
      CagedTemplate::Start(config, {.text = "{{ 1 }}", .bos_token = "", .eos_token = ""});
  EXPECT_EQ(caged.status().code(), absl::StatusCode::kUnavailable) << caged.status();
  EXPECT_THAT(caged.status().message(), HasSubstr("shared library"));
}

TEST(CagedTemplateTest, AMissingProgramIsAnErrorAndAnUpgradedOneIsNot) {
  RendererPoolConfig config = Config();
  config.program = "/nowhere/lockstep-template-renderer";
  const TemplateSource source = {.text = "{{ 1 }}", .bos_token = "", .eos_token = ""};
  EXPECT_EQ(CagedTemplate::Start(config, source).status().code(), absl::StatusCode::kNotFound);

  const TempFolder folder;
  config.program = folder.path() + "/renderer";
  std::filesystem::copy_file(kProgram, config.program);
  const auto caged = Cage("<{{ messages[0].content }}>", config);
  ASSERT_NE(caged, nullptr);
  std::filesystem::remove(config.program);
  const std::vector<pid_t> renderers = RenderersOf(getpid());
  ASSERT_THAT(renderers, SizeIs(1));
  kill(renderers[0], SIGKILL);
  EXPECT_EQ(Say(*caged, "Hi").value_or("none"), "<Hi>");
}

TEST(CagedTemplateTest, ManyThreadsShareFewProcesses) {
  const auto caged = Cage(kHostileTemplate);
  ASSERT_NE(caged, nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&caged, t] {
      for (int i = 0; i < 50; ++i) {
        const bool hostile = t == 0 && i % 10 == 0;
        const std::string content = hostile ? "zero" : std::to_string(t * 1000 + i);
        const auto text = Say(*caged, content);
        if (hostile) {
          ASSERT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
        } else {
          ASSERT_EQ(text.value_or(Message(text.status())), "<" + content + ">");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(RenderersOf(getpid()).size(), 2u);
}

TEST(CagedTemplateTest, LongChatsFitAndLongerOnesAreRefused) {
  RendererPoolConfig config = Config();
  config.limits.time = absl::Seconds(10);
  const auto caged = Cage("<{{ messages[0].content | length }}>", config);
  ASSERT_NE(caged, nullptr);
  EXPECT_EQ(Say(*caged, std::string(4 << 20, 'x')).value_or("none"), "<4194304>");
  EXPECT_THAT(Message(Say(*caged, std::string(64 << 20, 'x')).status()),
              HasSubstr("expected at most"));
}

// Macros inside loops are never freed: each holds the context that holds it.
TEST(CagedTemplateTest, ALeakingTemplateIsReplacedBeforeItHurts) {
  if (kSanitized) return;  // their allocators do not count
  RendererPoolConfig config = Config();
  config.limits.time = absl::Seconds(10);
  const auto caged = Cage(
      "{% for i in range(3) %}{% set big = messages[0].content ~ i %}"
      "{% macro m() %}{{ big }}{% endmacro %}{% endfor %}ok",
      config);
  ASSERT_NE(caged, nullptr);
  int num_gone = 0;
  caged->pool().Watch([&num_gone](RendererEnd end) {
    EXPECT_EQ(end, RendererEnd::kGone);
    ++num_gone;
  });
  const std::string content(4 << 20, 'x');
  for (int i = 0; i < 40; ++i) ASSERT_EQ(Say(*caged, content).value_or("none"), "ok") << i;
  EXPECT_GE(num_gone, 1);
}

TEST(CagedTemplateTest, ARendererHasNothingToReachOutWith) {
  const auto caged = Cage("<{{ messages[0].content }}>");
  ASSERT_NE(caged, nullptr);
  const std::vector<pid_t> renderers = RenderersOf(getpid());
  ASSERT_THAT(renderers, SizeIs(1));
  const pid_t pid = renderers[0];
  EXPECT_EQ(getpgid(pid), pid);
  EXPECT_EQ(ProcFile(pid, "environ"), "");
  const std::string status = ProcFile(pid, "status");
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  if (!kSanitized) {
    EXPECT_THAT(status, HasSubstr("Seccomp:\t2"));
  }
  const std::string limits = ProcFile(pid, "limits");
  EXPECT_THAT(limits, ::testing::ContainsRegex("Max processes +0 +0 "));
  EXPECT_THAT(limits, ::testing::ContainsRegex("Max core file size +0 +0 "));
  if (!kSanitized) {
    EXPECT_THAT(limits, ::testing::ContainsRegex("Max open files +3 +3 "));
    EXPECT_THAT(limits, ::testing::ContainsRegex("Max address space +268435456 "));
  }
  size_t num_descriptors = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path());
    EXPECT_TRUE(target == "/dev/null" || target.starts_with("socket:") || kSanitized) << target;
    ++num_descriptors;
  }
  EXPECT_EQ(num_descriptors, 3u);
}

TEST(CagedTemplateTest, NoProcessStaysBehind) {
  std::vector<pid_t> renderers;
  {
    const auto caged = Cage("x");
    ASSERT_NE(caged, nullptr);
    renderers = RenderersOf(getpid());
    ASSERT_THAT(renderers, SizeIs(1));
  }
  EXPECT_TRUE(HasEnded(renderers[0]));
  EXPECT_THAT(RenderersOf(getpid()), SizeIs(0));
}

TEST(RendererLimitsTest, RangesAreChecked) {
  EXPECT_TRUE(RendererLimits().Validate().ok());
  for (const absl::Duration time : {absl::ZeroDuration(), absl::Seconds(11)}) {
    const RendererLimits limits{.time = time};
    EXPECT_THAT(Message(limits.Validate()), HasSubstr("template_timeout"));
  }
  EXPECT_FALSE(RendererLimits{.memory_mib = 63}.Validate().ok());
}

}  // namespace
}  // namespace lockstep::router
