#include "router/router_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/status.h"
#include "tests/common/flag_table_checks.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What Validate says if one flag has this value; empty if it says nothing about the flag.
std::string ObjectionTo(std::string_view name, const std::string& value) {
  RouterConfig config;
  config.model = "model.gguf";
  FlagTable table = RouterFlags(config);
  EXPECT_TRUE(FindFlag(table, name)->Set(value)) << name << " " << value;
  std::string field(name);
  std::ranges::replace(field, '-', '_');
  // A part may come before the field: "scheduler: max_steps_in_flight: ...".
  const std::string message = " " + Message(config.Validate());
  const size_t start = message.find(" " + field + ": ");
  return start == std::string::npos ? "" : message.substr(start);
}

TEST(RouterFlagsTest, AWrongToolFormatListsTheOthers) {
  for (const char* const name : {"auto", "none", "hermes"}) {
    EXPECT_EQ(ObjectionTo("tool-format", name), "");
  }
  EXPECT_THAT(ObjectionTo("tool-format", "nonsense"), HasSubstr("hermes"));
}

bool IsTime(std::string_view name) {
  RouterConfig config;
  FlagTable table = RouterFlags(config);
  Flag* const flag = FindFlag(table, name);
  return flag->Set("1ms") && flag->ValueText() == "1ms";
}

// A number, or a time of so many seconds.
std::string TextOf(double value, bool is_time) {
  if (is_time) return absl::FormatDuration(absl::Seconds(value));
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

TEST(RouterFlagsTest, RangesAreThoseOfValidate) {
  RouterConfig config;
  size_t num_ranges = 0;
  for (const FlagGroup& group : RouterFlags(config)) {
    for (const Flag& flag : group.flags) {
      const FlagRange& range = flag.range();
      for (const std::string_view word : range.words) {
        EXPECT_EQ(ObjectionTo(flag.name(), std::string(word)), "");
      }
      if (!range.words.empty()) {
        EXPECT_NE(ObjectionTo(flag.name(), "nonsense"), "") << flag.name();
      }
      if (range.min == -FlagRange::kUnbounded) continue;
      ++num_ranges;
      const bool is_time = IsTime(flag.name());
      const double step = is_time ? 1e-6 : 1;
      const auto objection = [&](double value) {
        return ObjectionTo(flag.name(), TextOf(value, is_time));
      };
      if (range.excludes_min) {
        EXPECT_NE(objection(range.min), "") << flag.name();
        EXPECT_EQ(objection(range.min + step), "") << flag.name();
      } else {
        EXPECT_EQ(objection(range.min), "") << flag.name();
        // A field without a sign cannot be below 0.
        if (range.min > 0 || is_time) {
          EXPECT_NE(objection(range.min - step), "") << flag.name();
        }
      }
      if (range.max == FlagRange::kUnbounded) continue;
      EXPECT_EQ(objection(range.max), "") << flag.name();
      EXPECT_NE(objection(range.max + step), "") << flag.name();
    }
  }
  EXPECT_GT(num_ranges, 30u);
}

TEST(RouterFlagsTest, EachFlagSetsAFieldOfItsOwn) { ExpectEachFlagSetsAFieldOfItsOwn(RouterFlags); }

TEST(RouterFlagsTest, ListenersAreAList) {
  RouterConfig config;
  FlagTable table = RouterFlags(config);
  EXPECT_THAT(config.ServerConfig().front.listeners, ElementsAre("127.0.0.1:50051"));
  EXPECT_TRUE(FindFlag(table, "http-listen")->Set("127.0.0.1:8000"));
  EXPECT_THAT(config.ServerConfig().front.listeners,
              ElementsAre("127.0.0.1:50051", "127.0.0.1:8000"));
  EXPECT_TRUE(FindFlag(table, "listen")->Set("127.0.0.1:1"));
  EXPECT_TRUE(FindFlag(table, "listen")->Set("127.0.0.1:2"));
  EXPECT_THAT(config.ServerConfig().front.listeners,
              ElementsAre("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:8000"));
  EXPECT_TRUE(FindFlag(table, "listen")->Set("127.0.0.1"));
  EXPECT_THAT(Message(config.Validate()), HasSubstr("listen: "));
}

TEST(RouterFlagsTest, AliasesOfTheModelAreAList) {
  RouterConfig config;
  config.model = "model.gguf";
  FlagTable table = RouterFlags(config);
  EXPECT_TRUE(FindFlag(table, "model-alias")->Set("claude-opus-4-8"));
  EXPECT_TRUE(FindFlag(table, "model-alias")->Set("*"));
  EXPECT_THAT(config.model_aliases, ElementsAre("claude-opus-4-8", "*"));
  EXPECT_TRUE(config.Validate().ok()) << config.Validate();
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{""}, {std::string(257, 'x')}, std::vector<std::string>(65, "x")}) {
    config.model_aliases = wrong;
    EXPECT_THAT(Message(config.Validate()), HasSubstr("model_alias: expected")) << wrong.size();
  }
}

TEST(RouterFlagsTest, SettingsFollowFromOthers) {
  RouterConfig config;
  FlagTable table = RouterFlags(config);
  EXPECT_TRUE(FindFlag(table, "placement")->Set("round-robin"));
  EXPECT_TRUE(FindFlag(table, "max-waiting-requests")->Set("5"));
  EXPECT_TRUE(FindFlag(table, "max-waiting-tokens")->Set("6"));
  EXPECT_TRUE(FindFlag(table, "encode-threads")->Set("7"));
  const RouterServerConfig server = config.ServerConfig();
  EXPECT_EQ(server.engine.placement.policy, PlacementPolicy::kRoundRobin);
  EXPECT_EQ(server.engine.replica.scheduler.max_waiting_requests, 5u);
  EXPECT_EQ(server.engine.replica.scheduler.max_waiting_tokens, 6u);
  EXPECT_EQ(config.RendererConfig().max_processes, 7u);
}

}  // namespace
}  // namespace lockstep::router
