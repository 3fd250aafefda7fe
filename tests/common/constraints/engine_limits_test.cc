// Constraints and faults that hurt: each ends in time, and the engine comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <utility>

#include "tests/common/constraints/test_engine.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Walk;

const Constraint kDigits = {ConstraintKind::kRegex, "[0-9]+"};

// A text that repeats its pieces, with a number in each.
std::string Repeated(std::string_view begin, std::string_view end, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}{}{}{}", i == 0 ? "" : ",", begin, i, end);
  }
  return text;
}

std::string Nested(std::string_view begin, std::string_view end, int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += begin;
  text += "{}";
  for (int i = 0; i < depth; ++i) text += end;
  return text;
}

struct Bomb {
  const char* name;
  Constraint constraint;
};

std::vector<Bomb> Bombs() {
  const auto schema = [](std::string text) {
    return Constraint{ConstraintKind::kJsonSchema, std::move(text)};
  };
  std::string rules = "start: r0\n";
  for (int i = 0; i < 10'000; ++i) rules += fmt::format("r{}: r{} | \"x\" r{}\n", i, i + 1, i + 1);
  rules += "r10000: \"a\"\n";
  std::string patterns;
  for (int i = 0; i < 24; ++i) {
    patterns += fmt::format(R"({}{{"pattern": "(a|b)*a(a|b){{{}}}"}})", i == 0 ? "" : ",", i);
  }
  return {
      {"nested arrays", schema(Nested(R"({"type": "array", "items": )", "}", 1000))},
      {"nested anyOf", schema(Nested(R"({"anyOf": [{"type": "null"}, )", "]}", 500))},
      {"optional properties", schema(R"({"type": "object", "properties": {)" +
                                     Repeated("\"p", "\": {\"type\": \"string\"}", 2000) + "}}")},
      {"enum", schema(R"({"enum": [)" + Repeated("\"value ", "\"", 100'000) + "]}")},
      {"itself", schema(R"({"$ref": "#"})")},
      {"intersection of patterns", schema(R"({"type": "string", "allOf": [)" + patterns + "]}")},
      {"repetition", {ConstraintKind::kRegex, "((a{1000}){1000}){1000}"}},
      {"alternatives", {ConstraintKind::kRegex, "(x+x+)+y(x|xx|xxx)*{0,500}z"}},
      {"large classes", {ConstraintKind::kRegex, R"((\p{L}{0,1000}\p{N}){0,1000})"}},
      {"rules", {ConstraintKind::kGrammar, rules}},
      {"left recursion", {ConstraintKind::kGrammar, "start: start start | start \"a\" | \"\""}},
      {"tall brackets", {ConstraintKind::kJsonSchema, std::string(100'000, '[')}},
      {"choices", {ConstraintKind::kChoice, "[" + Repeated("\"choice ", "\"", 100'000) + "]"}},
      {"no UTF-8", {ConstraintKind::kRegex, "a\xFF\xC3"}},
      {"zero", {ConstraintKind::kRegex, std::string("a\0b", 3)}},
  };
}

class EngineLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override { LOCKSTEP_SKIP_WITHOUT_LLGUIDANCE(); }
};

TEST_F(EngineLimitsTest, EveryBombEndsInTime) {
  ConstraintEngineConfig config = testing::TestEngineConfig();
  config.job_time = absl::Seconds(1);
  const auto engine = testing::StartTestEngine(config);
  for (const Bomb& bomb : Bombs()) {
    SCOPED_TRACE(bomb.name);
    const absl::Status status = engine->Check(bomb.constraint);
    // Either it is compiled, or a reason comes. Processor time is bounded by the limit.
    if (absl::IsAborted(status)) {
      EXPECT_THAT(Message(status),
                  AnyOf(HasSubstr("takes more than 1s"), HasSubstr("MiB"), HasSubstr("crash")));
      EXPECT_EQ(engine->pid(), -1);
      EXPECT_THAT(engine->Check(kDigits),
                  HasError(absl::StatusCode::kUnavailable, HasSubstr("has ended")));
      ASSERT_THAT(engine->Restart(), IsOk());
    } else if (!status.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_FALSE(status.message().empty());
    }
    EXPECT_EQ(Walk(*engine, kDigits, "123"), "ok");
  }
}

TEST_F(EngineLimitsTest, MemoryIsBounded) {
  ConstraintEngineConfig config = testing::TestEngineConfig();
  config.memory_mib = 256;
  const auto engine = testing::StartTestEngine(config);
  const std::string values = Repeated("\"value ", "\"", 2'000'000);
  const absl::Status status =
      engine->Check({ConstraintKind::kJsonSchema, R"({"enum": [)" + values + "]}"});
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(absl::IsUnavailable(status)) << status;
  if (absl::IsAborted(status)) {
    ASSERT_THAT(engine->Restart(), IsOk());
  }
  EXPECT_EQ(Walk(*engine, kDigits, "123"), "ok");
}

TEST_F(EngineLimitsTest, AKilledEngineIsUnavailableUntilItRestarts) {
  const auto engine = testing::StartTestEngine();
  const std::string version = engine->version();
  ASSERT_EQ(kill(engine->pid(), SIGKILL), 0);
  EXPECT_TRUE(absl::IsUnavailable(engine->Check(kDigits)));
  EXPECT_EQ(engine->pid(), -1);
  EXPECT_TRUE(absl::IsUnavailable(engine->Release(0)));
  ASSERT_THAT(engine->Restart(), IsOk());
  EXPECT_EQ(engine->version(), version);
  EXPECT_EQ(Walk(*engine, kDigits, "7"), "ok");
}

TEST_F(EngineLimitsTest, AStoppedEngineIsOverdue) {
  ConstraintEngineConfig config = testing::TestEngineConfig();
  config.job_time = absl::Milliseconds(100);
  const auto engine = testing::StartTestEngine(config);
  ASSERT_EQ(kill(engine->pid(), SIGSTOP), 0);
  EXPECT_THAT(engine->Check(kDigits),
              HasError(absl::StatusCode::kAborted, HasSubstr("takes more than 100ms")));
  ASSERT_THAT(engine->Restart(), IsOk());
}

TEST_F(EngineLimitsTest, TheCauseIsThatOfTheLastEnd) {
  using Cause = CagedConstraintEngine::Cause;
  const TempFolder folder;
  ConstraintEngineConfig config = testing::TestEngineConfig();
  config.job_time = absl::Milliseconds(100);
  const std::string packages = std::exchange(config.packages, folder.path() + "/link");
  std::filesystem::create_directory_symlink(packages, config.packages);
  const auto engine = testing::StartTestEngine(config);
  ASSERT_EQ(kill(engine->pid(), SIGSTOP), 0);
  EXPECT_TRUE(absl::IsAborted(engine->Check(kDigits)));
  EXPECT_EQ(engine->cause(), Cause::kMachine);
  std::filesystem::remove(config.packages);
  EXPECT_TRUE(absl::IsUnavailable(engine->Restart()));
  EXPECT_EQ(engine->pid(), -1);
  EXPECT_EQ(engine->cause(), Cause::kProcess);
  EXPECT_TRUE(absl::IsUnavailable(engine->Check(kDigits)));
  EXPECT_EQ(engine->cause(), Cause::kProcess);
}

TEST(EngineStartTest, WhatIsMissingIsNamed) {
  ConstraintEngineConfig config = testing::TestEngineConfig();
  config.packages = "/nonexistent";
  EXPECT_THAT(CagedConstraintEngine::Start(config, testing::TestVocabulary()),
              HasError(absl::StatusCode::kUnavailable, HasSubstr("has no llguidance 1.9")));
  config.python = "/nonexistent/python3";
  EXPECT_THAT(CagedConstraintEngine::Start(config, testing::TestVocabulary()),
              HasError(absl::StatusCode::kNotFound, HasSubstr("/nonexistent/python3")));
  config = testing::TestEngineConfig();
  config.program = "/nonexistent/engine";
  EXPECT_THAT(CagedConstraintEngine::Start(config, testing::TestVocabulary()),
              HasError(absl::StatusCode::kNotFound, HasSubstr("/nonexistent/engine")));
}

}  // namespace
}  // namespace lockstep
