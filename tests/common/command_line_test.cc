#include "common/command_line.h"

#include <absl/time/time.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CommandLineTest : public ::testing::Test {
 protected:
  struct Options {
    std::string name = "nobody";
    uint32_t count = 7;
    bool loud = true;
    absl::Duration wait = absl::Seconds(1);
    std::vector<std::string> list;
    std::vector<std::string> stop = {"a default"};
  };

  FlagTable Table() {
    return {{"Texts",
             {
                 {"test-name", &options_.name, "a text"},
                 {"test-list", &options_.list, "texts, separated by commas"},
                 {"test-stop", RepeatedText{&options_.stop}, "a text; repeatable"},
             }},
            {"Numbers",
             {
                 {"test-count", &options_.count, "a number", FromTo(1, 9)},
                 {"test-loud", &options_.loud, "a switch"},
                 {"test-wait", &options_.wait, "a time"},
             }}};
  }

  absl::Status Parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    FlagTable table = Table();
    return ParseCommandLine(static_cast<int>(pointers.size()), pointers.data(),
                            "program [--test-name TEXT]", table);
  }

  // A death test sees stderr only.
  void ParseAndPrintToStderr(std::vector<std::string> arguments) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    (void)Parse(std::move(arguments));
  }

  Options options_;
};

TEST_F(CommandLineTest, FlagsAreSpelledWithDashesOrUnderscores) {
  ASSERT_THAT(
      Parse({"--test-name", "a-b_c", "--test_count=9", "--test-wait=250ms", "--test-list=x,y_z"}),
      IsOk());
  EXPECT_EQ(options_.name, "a-b_c");
  EXPECT_EQ(options_.count, 9u);
  EXPECT_EQ(options_.wait, absl::Milliseconds(250));
  EXPECT_THAT(options_.list, ElementsAre("x", "y_z"));
}

TEST_F(CommandLineTest, OneDashIsEnough) {
  ASSERT_THAT(Parse({"-test-name", "-", "-test_count=9"}), IsOk());
  EXPECT_EQ(options_.name, "-");
  EXPECT_EQ(options_.count, 9u);
}

TEST_F(CommandLineTest, TheLastValueCountsUnlessAFlagIsRepeatable) {
  ASSERT_THAT(Parse({"--test-count=3", "--test-count=4", "--test-list=a", "--test-list=b"}),
              IsOk());
  EXPECT_EQ(options_.count, 4u);
  EXPECT_THAT(options_.list, ElementsAre("b"));
  EXPECT_THAT(options_.stop, ElementsAre("a default"));
  ASSERT_THAT(Parse({"--test-stop", "a,b", "--test-count=3", "--test_stop=--c"}), IsOk());
  EXPECT_THAT(options_.stop, ElementsAre("a,b", "--c"));
  EXPECT_THAT(Parse({"--test-stop"}),
              HasError(absl::StatusCode::kInvalidArgument, "--test-stop: expected a value"));
}

using CommandLineDeathTest = CommandLineTest;

TEST_F(CommandLineDeathTest, HelpGoesToStdoutAndEndsWell) {
  for (const char* const help : {"--help", "-h", "--helpfull"}) {
    EXPECT_EXIT(ParseAndPrintToStderr({"--test-count=8", help, "--nonsense"}),
                ::testing::ExitedWithCode(0),
                AllOf(StartsWith("program [--test-name TEXT]\n\nTexts:\n"),
                      HasSubstr("\n  --test-name   a text [default: nobody]\n"),
                      HasSubstr("\n\nNumbers:\n  --test-count  a number [1 to 9; default: 7]\n"),
                      Not(HasSubstr("nonsense"))));
  }
  ASSERT_THAT(Parse({"--test-name", "--help"}), IsOk()) << "a value";
}

TEST_F(CommandLineDeathTest, VersionGoesToStdoutAndEndsWell) {
  EXPECT_EXIT(ParseAndPrintToStderr({"--version", "--nonsense"}), ::testing::ExitedWithCode(0),
              AllOf(StartsWith("program "), HasSubstr("commit"), Not(HasSubstr("nonsense"))));
}

TEST_F(CommandLineTest, HelpHasLinesOfAHundredColumns) {
  std::string help;
  for (int i = 0; i < 40; ++i) help += "word ";
  help += "end";
  bool loud = false;
  const FlagTable table = {{"Switches", {{"loud", &loud, help}}}};
  const std::string text = HelpText("program", table);
  EXPECT_THAT(text, StartsWith("program\n\nSwitches:\n  --loud  word word"));
  EXPECT_THAT(text, HasSubstr("word\n          word"));
  EXPECT_THAT(text, HasSubstr("word end [default: false]\n"));
  for (size_t start = 0, end = 0; (end = text.find('\n', start)) != std::string::npos;
       start = end + 1) {
    EXPECT_LE(end - start, 100u);
  }
}

TEST_F(CommandLineTest, SwitchesAreTurnedOffInFourWays) {
  for (const char* off :
       {"--test-loud=false", "--notest-loud", "--no-test-loud", "--no_test_loud"}) {
    options_.loud = true;
    ASSERT_THAT(Parse({off}), IsOk()) << off;
    EXPECT_FALSE(options_.loud) << off;
  }
  ASSERT_THAT(Parse({"--test-loud"}), IsOk());
  EXPECT_TRUE(options_.loud);
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
  EXPECT_EQ(options_.wait, absl::Seconds(5));
  EXPECT_EQ(options_.count, 7u);
}

TEST_F(CommandLineTest, ArgumentsThatAreNoFlagsAreQuoted) {
  EXPECT_THAT(Parse({"stray", "--test-count=8", "-", "--"}),
              HasError(absl::StatusCode::kInvalidArgument,
                       "unexpected argument \"stray\": every option is a flag\n"
                       "unexpected argument \"-\": every option is a flag\n"
                       "unexpected argument \"--\": every option is a flag"));
  EXPECT_EQ(options_.count, 8u);
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
