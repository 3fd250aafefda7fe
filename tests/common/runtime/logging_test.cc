#include "common/runtime/logging.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

class LoggingTest : public ::testing::Test {
 protected:
  void TearDown() override { ASSERT_THAT(InitLogging("off"), IsOk()); }
};

TEST_F(LoggingTest, WritesOneLinePerRecordWithTimeAndLevel) {
  CaptureStderr();
  ASSERT_THAT(InitLogging("info"), IsOk());
  spdlog::warn("lost worker {}", 3);
  EXPECT_THAT(GetCapturedStderr(),
              ::testing::MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+Z warning "
                                      "\\[[0-9]+\\] lost worker 3\n"));
}

TEST_F(LoggingTest, ForeignTextCannotForgeARecord) {
  CaptureStderr();
  ASSERT_THAT(InitLogging("info"), IsOk());
  spdlog::info("id {}", "a\n2030-01-01 forged\r\x1b[31m");
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("id a\\n2030-01-01 forged\\r\\x1b[31m\n"));
}

TEST_F(LoggingTest, TheLevelFilters) {
  const std::pair<const char*, int> cases[] = {{"trace", 5}, {"debug", 4}, {"info", 3},
                                               {"warn", 2},  {"error", 1}, {"off", 0}};
  for (const auto& [level, num_lines] : cases) {
    CaptureStderr();
    ASSERT_THAT(InitLogging(level), IsOk());
    spdlog::trace("x");
    spdlog::debug("x");
    spdlog::info("x");
    spdlog::warn("x");
    spdlog::error("x");
    const std::string output = GetCapturedStderr();
    EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), num_lines) << level;
  }
}

TEST_F(LoggingTest, RefusesAnUnknownLevelAndListsTheKnownOnes) {
  EXPECT_THAT(InitLogging("loud"),
              HasError(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"loud\""), HasSubstr("trace, debug, info, warn"))));
}

TEST_F(LoggingTest, WritesAnObjectPerRecordAsJson) {
  CaptureStderr();
  ASSERT_THAT(InitLogging("info", "json"), IsOk());
  spdlog::warn("lost \"worker\" {}\n{{\"time\": forged}}", "\x1b");
  const std::string line = GetCapturedStderr();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  const auto record = nlohmann::json::parse(line);
  EXPECT_EQ(record.at("level"), "warning");
  EXPECT_EQ(record.at("message"), "lost \"worker\" \x1b\n{\"time\": forged}");
  EXPECT_TRUE(record.at("thread").is_number_unsigned());
  EXPECT_THAT(record.at("time").get<std::string>(),
              ::testing::MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+Z"));
  EXPECT_EQ(record.size(), 4u);
}

TEST_F(LoggingTest, BytesThatAreNotUtf8AreReplacedInJson) {
  CaptureStderr();
  ASSERT_THAT(InitLogging("info", "json"), IsOk());
  spdlog::info("name {}", "a\xffz");
  EXPECT_EQ(nlohmann::json::parse(GetCapturedStderr()).at("message"), "name a\xef\xbf\xbdz");
}

TEST_F(LoggingTest, RefusesAnUnknownFormat) {
  EXPECT_THAT(InitLogging("info", "xml"),
              HasError(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"xml\""), HasSubstr("text or json"))));
}

TEST(EscapeControlCharactersTest, KeepsTextAndEscapesControls) {
  EXPECT_EQ(EscapeControlCharacters("plain \"text\" é 漢"), "plain \"text\" é 漢");
  EXPECT_EQ(EscapeControlCharacters("\xc2\x9b[m\xc2\xa0"), "\\xc2\\x9b[m\xc2\xa0");
  EXPECT_EQ(EscapeControlCharacters(std::string_view("\0\t\n\r\x1f\x7f", 6)),
            "\\x00\\t\\n\\r\\x1f\\x7f");
}

}  // namespace
}  // namespace lockstep
