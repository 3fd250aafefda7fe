#include "common/command_line.h"

#include <absl/flags/declare.h>
#include <absl/flags/flag.h>
#include <absl/flags/reflection.h>
#include <absl/time/time.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/common/status_matchers.h"

ABSL_DECLARE_FLAG(std::string, test_name);
ABSL_DECLARE_FLAG(uint32_t, test_count);
ABSL_DECLARE_FLAG(bool, test_loud);
ABSL_DECLARE_FLAG(absl::Duration, test_wait);
ABSL_DECLARE_FLAG(std::vector<std::string>, test_list);

namespace lockstep {
namespace {

using ::testing::ElementsAre;

class CommandLineTest : public ::testing::Test {
 protected:
  static CommandLine Make(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    return CommandLine(static_cast<int>(pointers.size()), pointers.data());
  }
  static absl::Status Parse(const std::vector<std::string>& arguments) {
    return Make(arguments).Parse("program [--test-name TEXT]");
  }

 private:
  absl::FlagSaver saver_;
};

TEST_F(CommandLineTest, FlagsAreSpelledWithDashesOrUnderscores) {
  ASSERT_THAT(
      Parse({"--test-name", "a-b", "--test_count=9", "--test-wait=250ms", "--test-list=x,y-z"}),
      IsOk());
  EXPECT_EQ(absl::GetFlag(FLAGS_test_name), "a-b");
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 9u);
  EXPECT_EQ(absl::GetFlag(FLAGS_test_wait), absl::Milliseconds(250));
  EXPECT_THAT(absl::GetFlag(FLAGS_test_list), ElementsAre("x", "y-z"));
}

TEST_F(CommandLineTest, TimesNeedNoUnit) {
  for (const auto& [text, seconds] :
       {std::pair("10", 10.0), {"1.5", 1.5}, {"0", 0.0}, {"10s", 10.0}, {"2m", 120.0}}) {
    ASSERT_THAT(Parse({"--test-wait", text}), IsOk()) << text;
    EXPECT_EQ(absl::GetFlag(FLAGS_test_wait), absl::Seconds(seconds)) << text;
  }
  for (const char* const text : {"10 s", "ten", "1.2.3", "", "."}) {
    EXPECT_FALSE(Parse({"--test-wait", text}).ok()) << text;
  }
}

using CommandLineDeathTest = CommandLineTest;

TEST_F(CommandLineDeathTest, HelpGoesToStdoutAndEndsWell) {
  for (const char* const help : {"--help", "-h", "--helpfull"}) {
    // A death test sees stderr only.
    const auto print = [&] {
      dup2(STDERR_FILENO, STDOUT_FILENO);
      (void)Parse({"--test-count=8", help, "--nonsense"});
    };
    EXPECT_EXIT(print(), ::testing::ExitedWithCode(0),
                ::testing::AllOf(::testing::StartsWith("program [--test-name TEXT]\n\nFlags:\n"),
                                 ::testing::HasSubstr("\n  --test-count (a number); default: 7;\n"),
                                 ::testing::HasSubstr("--test-name (a text); default: \"nobody\";"),
                                 ::testing::Not(::testing::HasSubstr("nonsense"))));
  }
  ASSERT_THAT(Parse({"--test-name", "--help"}), IsOk()) << "a value";
}

TEST_F(CommandLineTest, SwitchesAreTurnedOffInFourWays) {
  for (const char* off :
       {"--test-loud=false", "--notest-loud", "--no-test-loud", "--no_test_loud"}) {
    absl::SetFlag(&FLAGS_test_loud, true);
    ASSERT_THAT(Parse({off}), IsOk()) << off;
    EXPECT_FALSE(absl::GetFlag(FLAGS_test_loud)) << off;
  }
  ASSERT_THAT(Parse({"--test-loud"}), IsOk());
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_loud));
}

TEST_F(CommandLineTest, EveryWrongArgumentIsReportedAndTheRightOnesAreTaken) {
  EXPECT_THAT(Parse({"--tets-name", "x", "--test-count=many", "--test-wait", "5s", "--zebra=1",
                     "--no-test-name", "stray", "--test-list"}),
              HasError(absl::StatusCode::kInvalidArgument,
                       "--tets-name: there is no such flag; did you mean --test-name?\n"
                       "--test-count: cannot read \"many\"\n"
                       "--zebra: there is no such flag\n"
                       "--no-test-name: there is no such flag; did you mean --test-name?\n"
                       "--test-list: expected a value"));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_wait), absl::Seconds(5));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 7u);
}

TEST_F(CommandLineTest, ArgumentsThatAreNoFlagsAreQuoted) {
  EXPECT_THAT(Parse({"stray", "--test-count=8", "-"}),
              HasError(absl::StatusCode::kInvalidArgument,
                       "unexpected argument \"stray\": every option is a flag\n"
                       "unexpected argument \"-\": every option is a flag"));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 8u);
}

TEST_F(CommandLineTest, RepeatedFlagsAreTakenOutInOrder) {
  CommandLine line = Make({"--test-stop", "a", "--test-count=3", "--test-stop=b"});
  EXPECT_THAT(line.TakeRepeated("test_stop").value(), ElementsAre("a", "b"));
  ASSERT_THAT(line.Parse("program"), IsOk());
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 3u);
  EXPECT_THAT(Make({"--test-stop"}).TakeRepeated("test_stop"),
              HasError(absl::StatusCode::kInvalidArgument, "--test_stop: expected a value"));
}

TEST(JoinErrorsTest, HasTheLinesOfBoth) {
  const absl::Status first = absl::InvalidArgumentError("--a: wrong");
  const absl::Status second = absl::InvalidArgumentError("--b: wrong");
  EXPECT_THAT(JoinErrors(absl::OkStatus(), absl::OkStatus()), IsOk());
  EXPECT_EQ(JoinErrors(first, absl::OkStatus()), first);
  EXPECT_EQ(JoinErrors(absl::OkStatus(), second), second);
  EXPECT_THAT(JoinErrors(first, second),
              HasError(absl::StatusCode::kInvalidArgument, "--a: wrong\n--b: wrong"));
}

}  // namespace
}  // namespace lockstep
