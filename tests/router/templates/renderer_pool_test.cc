#include "router/templates/renderer_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <thread>

#include "common/status.h"
#include "tests/common/temp_folder.h"
#include "tests/router/templates/child_processes.h"
#include "tests/router/templates/test_templates.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::HasEnded;
using ::lockstep::testing::ProcFile;
using ::lockstep::testing::RenderersOf;
using ::lockstep::testing::SourceOf;
using ::lockstep::testing::TestRenderers;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Runs what the first message names; the chat of the start runs nothing.
constexpr char kHostileTemplate[] = R"(
{%- macro again(x) %}{{ again(x) }}{% endmacro %}
{%- set what = messages[0].content %}
{%- set ns = namespace(text='abcdefgh', one=1) %}
{%- if what == 'value' %}{% set ns.self = ns %}{{ ns }}
{%- elif what == 'macro' %}{{ again(1) }}
{%- elif what == 'loops' %}
{%- for a in range(90000) %}{% for b in range(90000) %}{% set ns.one = b %}{% endfor %}{% endfor %}
{%- elif what == 'power' %}{{ 9 ** (9 ** (ns.one + 8)) > 1 }}
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
  RendererPoolConfig config = TestRenderers();
  config.max_processes = 2;
  config.limits.time = absl::Milliseconds(kSanitized ? 2000 : 200);
  return config;
}

std::unique_ptr<const CagedTemplate> Cage(const std::string& text,
                                          const RendererPoolConfig& config = Config()) {
  auto caged = CagedTemplate::Start(config, SourceOf(text));
  EXPECT_TRUE(caged.ok()) << caged.status();
  return caged.ok() ? *std::move(caged) : nullptr;
}

absl::StatusOr<std::string> Say(const CagedTemplate& caged, const std::string& content,
                                const std::string& arguments = "") {
  const std::vector<ChatMessage> chat = {{.role = "user", .content = content, .name = ""}};
  return caged.Render(
      chat,
      {.add_generation_prompt = true, .extra_arguments_json = arguments, .marked_characters = {}});
}

TEST(CagedTemplateTest, WhatHitsABoundFailsAloneAndIsCounted) {
  const auto caged = Cage(kHostileTemplate);
  ASSERT_NE(caged, nullptr);
  std::vector<RendererEnd> ends;
  caged->pool().Watch([&ends](RendererEnd end) { ends.push_back(end); });
  for (const std::string what : {"loops", "power"}) {
    const auto text = Say(*caged, what);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << what << text.status();
    EXPECT_THAT(Message(text.status()), HasSubstr("rendering takes more than")) << what;
    EXPECT_LT(Message(text.status()).size(), 200u);
    EXPECT_EQ(Say(*caged, "Hi").value_or("none"), "<Hi>") << what;
  }
  EXPECT_THAT(ends, ::testing::ElementsAre(RendererEnd::kTime, RendererEnd::kTime));
}

TEST(CagedTemplateTest, WhatGrowsWithoutEndIsStopped) {
  RendererPoolConfig config = Config();
  config.limits.time = absl::Seconds(10);
  config.limits.memory_mib = 128;
  const auto caged = Cage(kHostileTemplate, config);
  ASSERT_NE(caged, nullptr);
  for (const std::string what : {"doubling", "list"}) {
    const auto text = Say(*caged, what);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << text.status();
    EXPECT_THAT(Message(text.status()), HasSubstr("needs more than 128 MiB"));
    EXPECT_EQ(Say(*caged, "Hi").value_or("none"), "<Hi>");
  }
}

TEST(CagedTemplateTest, JinjasOwnBoundsNeedNoNewProcess) {
  RendererPoolConfig config = Config();
  config.limits.time = absl::Seconds(10);
  const auto caged = Cage(kHostileTemplate, config);
  ASSERT_NE(caged, nullptr);
  const std::vector<pid_t> before = RenderersOf(getpid());
  EXPECT_THAT(Message(Say(*caged, "macro").status()), HasSubstr("too deeply"));
  EXPECT_THAT(Message(Say(*caged, "output").status()), HasSubstr("renders to more than"));
  EXPECT_THAT(Message(Say(*caged, "zero").status()), HasSubstr("ZeroDivisionError"));
  EXPECT_EQ(Say(*caged, "slice").value_or("none"), "");
  EXPECT_THAT(Say(*caged, "value").value_or("none"), HasSubstr("<Namespace {...}>"));
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
    const auto caged = CagedTemplate::Start(config, SourceOf(text));
    EXPECT_EQ(caged.status().code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 80);
    return Message(caged.status());
  };
  EXPECT_THAT(refusal("a\n{% if %}"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("{{ messages[0].content * 10 ** 9 }}"), HasSubstr("rendering needs more"));
  EXPECT_THAT(refusal("{{ 'x' * 10 ** 9 }}"), HasSubstr("needs more than"));
  EXPECT_THAT(refusal(std::string(2 << 20, 'x')), HasSubstr("expected at most"));
  EXPECT_THAT(refusal("{{ " + std::string(10'000, '(') + "1" + std::string(10'000, ')') + " }}"),
              HasSubstr("nests too deeply"));
  config.limits.load_time = absl::Seconds(1);
  EXPECT_THAT(refusal("{{ 9 ** (9 ** 9) > 1 }}"), HasSubstr("parsing takes more than"));
  EXPECT_THAT(RenderersOf(getpid()), SizeIs(0));
}

TEST(CagedTemplateTest, AChatWithToolsHasATemplateOfItsOwn) {
  TemplateSource source = SourceOf("plain {{ tools is none }}");
  source.templates["tool_use"] = "tools {{ tools | length }}";
  const auto both = CagedTemplate::Start(Config(), source);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(Say(**both, "Hi").value_or("none"), "plain True");
  EXPECT_EQ(Say(**both, "Hi", R"({"tools": [{}]})").value_or("none"), "tools 1");
  EXPECT_EQ(Say(**both, "Hi", R"({"tools": null})").value_or("none"), "plain True");
  EXPECT_THAT(Message(Say(**both, "Hi", R"({"tools": ["x"]})").status()),
              HasSubstr("tools: expected a list of objects"));
  source.templates["tool_use"] = "{% if %}";
  const auto one = CagedTemplate::Start(Config(), source);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(Say(**one, "Hi").value_or("none"), "plain True");
  EXPECT_THAT(Message(Say(**one, "Hi", R"({"tools": [{}]})").status()), HasSubstr("line 1"));
  source.templates.erase("default");
  EXPECT_THAT(Message(CagedTemplate::Start(Config(), source).status()),
              HasSubstr("none of them is named \"default\": tool_use"));
}

TEST(CagedTemplateTest, DatesAreThoseOfTheTimeZone) {
  // What C's functions say is what Python's say without an environment, but for TZ.
  const auto caged = Cage("{{ strftime_now('%Y-%m-%d %H:%M') }}");
  ASSERT_NE(caged, nullptr);
  const auto now = [] {
    const std::time_t seconds = std::time(nullptr);
    std::tm local{};
    localtime_r(&seconds, &local);
    char text[32];
    return std::string(text, std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &local));
  };
  const std::string before = now();
  const std::string said = Say(*caged, "x").value_or("none");
  EXPECT_THAT(said, ::testing::AnyOf(before, now()));
}

TEST(CagedTemplateTest, OneProcessIsReadyWhenAnotherEnds) {
  RendererPoolConfig config = Config();
  config.max_processes = 1;
  config.spare_processes = 1;
  const auto caged = Cage(kHostileTemplate, config);
  ASSERT_NE(caged, nullptr);
  EXPECT_THAT(RenderersOf(getpid()), SizeIs(::testing::Le(2u)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Say(*caged, "loops").ok());
    EXPECT_EQ(Say(*caged, "Hi").value_or("none"), "<Hi>");
  }
  EXPECT_THAT(RenderersOf(getpid()), SizeIs(::testing::Le(2u)));
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

std::string StartError(const RendererPoolConfig& config) {
  const auto caged = CagedTemplate::Start(config, SourceOf("{{ 1 }}"));
  EXPECT_TRUE(absl::IsUnavailable(caged.status()) || absl::IsNotFound(caged.status()))
      << caged.status();
  return Message(caged.status());
}

TEST(CagedTemplateTest, WhatIsMissingIsNamed) {
  RendererPoolConfig config = Config();
  config.python = "/nowhere/python3";
  EXPECT_THAT(StartError(config),
              AllOf(HasSubstr("/nowhere/python3"), HasSubstr("install python3-jinja2")));
  // Fails at the first argument.
  config.python = "/usr/bin/env";
  EXPECT_THAT(StartError(config), HasSubstr("/usr/bin/env cannot run the template renderer"));
  config.python = "python3";
  EXPECT_THAT(Message(config.Validate()), HasSubstr("must be an absolute path"));

  // A Python of its own has no packages.
  const TempFolder folder;
  folder.Write("pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n");
  std::filesystem::create_directory(folder.path() + "/bin");
  config.python = folder.path() + "/bin/python3";
  std::filesystem::create_symlink("/usr/bin/python3", config.python);
  EXPECT_THAT(StartError(config),
              AllOf(HasSubstr("has no Jinja2"), HasSubstr("install python3-jinja2")));
}

TEST(CagedTemplateTest, AMissingProgramIsAnErrorAndAnUpgradedOneIsNot) {
  RendererPoolConfig config = Config();
  config.program = "/nowhere/lockstep-template-renderer";
  EXPECT_EQ(CagedTemplate::Start(config, SourceOf("{{ 1 }}")).status().code(),
            absl::StatusCode::kNotFound);

  const TempFolder folder;
  config.program = folder.path() + "/renderer";
  std::filesystem::copy_file(TestRenderers().program, config.program);
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
        const std::string content = hostile ? "doubling" : std::to_string(t * 1000 + i);
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

// Macros inside loops refer to each other; Python's collector frees them between renderings.
TEST(CagedTemplateTest, WhatATemplateLeavesBehindIsFreed) {
  RendererPoolConfig config = Config();
  config.limits.time = absl::Seconds(10);
  const auto caged = Cage(
      "{% for i in range(300) %}{% set big = messages[0].content ~ i %}"
      "{% macro m() %}{{ big }}{{ m }}{% endmacro %}{% endfor %}ok",
      config);
  ASSERT_NE(caged, nullptr);
  int num_ends = 0;
  caged->pool().Watch([&num_ends](RendererEnd) { ++num_ends; });
  const std::string content(100 << 10, 'x');
  for (int i = 0; i < 40; ++i) ASSERT_EQ(Say(*caged, content).value_or("none"), "ok") << i;
  EXPECT_EQ(num_ends, 0);
}

TEST(CagedTemplateTest, ARendererHasNothingToReachOutWith) {
  const auto caged = Cage("<{{ messages[0].content }}>");
  ASSERT_NE(caged, nullptr);
  const std::vector<pid_t> renderers = RenderersOf(getpid());
  ASSERT_THAT(renderers, SizeIs(1));
  const pid_t pid = renderers[0];
  EXPECT_EQ(getpgid(pid), pid);
  EXPECT_THAT(ProcFile(pid, "environ"), ::testing::MatchesRegex("TZ=[^ =]*"));
  const std::string status = ProcFile(pid, "status");
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(status, HasSubstr("Seccomp:\t2"));
  const std::string limits = ProcFile(pid, "limits");
  EXPECT_THAT(limits, ::testing::ContainsRegex("Max processes +0 +0 "));
  EXPECT_THAT(limits, ::testing::ContainsRegex("Max core file size +0 +0 "));
  EXPECT_THAT(limits, ::testing::ContainsRegex("Max open files +3 +3 "));
  EXPECT_THAT(limits, ::testing::ContainsRegex("Max address space +268435456 "));
  size_t num_descriptors = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path());
    EXPECT_TRUE(target == "/dev/null" || target.starts_with("socket:")) << target;
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
