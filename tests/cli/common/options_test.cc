#include "cli/common/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "tests/common/status_matchers.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr OptionSpec kOptions[] = {
    {"log-dir", "DIR", ""}, {"port", "N", ""}, {"rate", "NUMBER", ""}, {"once", "", ""}};

Arguments Parse(std::vector<std::string> words) { return Arguments::Parse(kOptions, words); }

TEST(OptionsTest, SplitsOptionsPositionalsAndTheRest) {
  Arguments arguments =
      Parse({"MODEL", "--log_dir", "a", "--once", "--port=7", "x", "--", "--port", "8"});
  std::string folder;
  std::optional<uint64_t> port;
  bool once = false;
  arguments.Read("log-dir", folder);
  arguments.ReadInteger("port", 0, 9, port);
  arguments.Read("once", once);
  EXPECT_EQ(folder, "a");
  EXPECT_EQ(port, 7u);
  EXPECT_TRUE(once);
  EXPECT_THAT(arguments.positionals(), ElementsAre("MODEL", "x"));
  EXPECT_THAT(arguments.rest(), ElementsAre("--port", "8"));
  EXPECT_THAT(arguments.Finish(), IsOk());
}

TEST(OptionsTest, TheLastValueCountsAndAbsentOnesChangeNothing) {
  Arguments arguments = Parse({"--port", "1", "--port", "2"});
  std::optional<uint64_t> port;
  std::optional<double> rate = 0.5;
  arguments.ReadInteger("port", 0, 9, port);
  arguments.ReadNumber("rate", 0, 1, rate);
  EXPECT_EQ(port, 2u);
  EXPECT_EQ(rate, 0.5);
  std::vector<std::string> all;
  arguments.ReadAll("port", all);
  EXPECT_THAT(all, ElementsAre("1", "2"));
}

TEST(OptionsTest, ATimeMayHaveAUnit) {
  for (const auto& [text, seconds] : {std::pair("10", 10.0),
                                      {"10s", 10.0},
                                      {"1.5", 1.5},
                                      {"250ms", 0.25},
                                      {"2m", 120.0},
                                      {"0", 0.0}}) {
    Arguments arguments = Parse({"--rate", text});
    std::optional<double> time;
    arguments.ReadSeconds("rate", 0, 120, time);
    EXPECT_THAT(arguments.Finish(), IsOk()) << text;
    EXPECT_EQ(time, seconds) << text;
  }
  for (const char* const text : {"10 s", "ten", "121", "3m", "-1s", "nan", "inf", ""}) {
    Arguments arguments = Parse({"--rate", text});
    std::optional<double> time;
    arguments.ReadSeconds("rate", 0, 120, time);
    EXPECT_THAT(arguments.Finish(),
                HasError(kInvalid, HasSubstr("--rate: expected a time from 0 s to 120 s, as 10 or "
                                             "10s, got")))
        << text;
  }
}

TEST(OptionsTest, OneErrorNamesEverythingThatIsWrong) {
  constexpr std::array<std::string_view, 1> kNames = {"MODEL"};
  Arguments arguments =
      Parse({"--prot", "--rate=nan", "--port", "70", "-x", "--once=1", "--log-dir"});
  std::optional<uint64_t> port;
  std::optional<double> rate;
  arguments.ReadInteger("port", 0, 9, port);
  arguments.ReadNumber("rate", 0, 1, rate);
  arguments.ExpectPositionals(kNames);
  EXPECT_THAT(
      arguments.Finish(),
      HasError(kInvalid,
               AllOf(HasSubstr("--prot: unknown option; did you mean --port?"),
                     HasSubstr("--rate: expected a number from 0 to 1, got \"nan\""),
                     HasSubstr("--port: expected a whole number from 0 to 9, got \"70\""),
                     HasSubstr("-x: options have two dashes"), HasSubstr("--once: takes no value"),
                     HasSubstr("--log-dir: expected a value, as --log-dir DIR"),
                     HasSubstr("MODEL is missing"))));
}

TEST(OptionsTest, NamesChoicesAndUnexpectedArguments) {
  constexpr std::array<std::string_view, 2> kChoices = {"a", "b"};
  Arguments arguments = Parse({"--log-dir=c", "x", "--", "y"});
  std::string choice = "a";
  arguments.ReadChoice("log-dir", kChoices, choice);
  arguments.ExpectPositionals({});
  arguments.ExpectNoRest();
  EXPECT_EQ(choice, "a");
  EXPECT_THAT(arguments.Finish(),
              HasError(kInvalid, AllOf(HasSubstr("--log-dir: expected one of a, b, got \"c\""),
                                       HasSubstr("unexpected argument \"x\""), HasSubstr("--"))));
}

}  // namespace
}  // namespace lockstep::cli
