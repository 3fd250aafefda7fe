#include "cli/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "cli/completion.h"
#include "cli/verbs.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HelpTest, TheOverviewNamesEveryVerb) {
  for (const Verb& verb : Verbs()) {
    EXPECT_THAT(OverviewText(), HasSubstr("\n  " + std::string(verb.name) + " "));
  }
}

TEST(HelpTest, AVerbsTextHasItsUsageAndEveryOption) {
  for (const Verb& verb : Verbs()) {
    const std::string text = VerbText(verb);
    EXPECT_THAT(text, HasSubstr("Usage: lockstep " + std::string(verb.name)));
    for (const OptionSpec& option : verb.options) {
      EXPECT_THAT(text, HasSubstr("\n  --" + std::string(option.name) + " "));
      EXPECT_FALSE(option.help.empty());
    }
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      EXPECT_LE(end - at, 100u) << text.substr(at, end - at);
      at = end + 1;
    }
  }
}

TEST(HelpTest, AnUnknownVerbGetsTheNearest) {
  EXPECT_THAT(UnknownVerbText("serv"), HasSubstr("did you mean serve?"));
  EXPECT_THAT(UnknownVerbText("frobnicate"), Not(HasSubstr("did you mean")));
}

TEST(CompletionTest, KnowsThreeShells) {
  for (const char* const shell : {"bash", "zsh", "fish"}) {
    const auto script = CompletionScript(shell);
    ASSERT_THAT(script, IsOk());
    EXPECT_THAT(*script, HasSubstr("serve"));
    EXPECT_THAT(*script, HasSubstr("worker-flag"));
  }
  EXPECT_THAT(CompletionScript("csh"), HasError(kInvalid, HasSubstr("bash, zsh or fish")));
}

// What bash offers behind `words`, which end with what was typed of the last one.
std::string BashOffers(const std::string& words) {
  const TempFolder folder;
  const std::string script = folder.Write("completion", CompletionScript("bash").value());
  const std::string command = "bash -c 'source " + script + "; COMP_WORDS=(" + words +
                              "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lockstep; "
                              "echo ${COMPREPLY[*]}'";
  FILE* const pipe = popen(command.c_str(), "r");
  char buffer[512] = {};
  const size_t size = fread(buffer, 1, sizeof(buffer) - 1, pipe);
  EXPECT_EQ(pclose(pipe), 0);
  return std::string(buffer, size);
}

TEST(CompletionTest, BashOffersVerbsAndOptions) {
  EXPECT_EQ(BashOffers("lockstep se"), "serve\n");
  EXPECT_EQ(BashOffers("lockstep serve --po"), "--port\n");
  EXPECT_EQ(BashOffers("lockstep completion z"), "zsh\n");
  EXPECT_EQ(BashOffers("lockstep top --po"), "\n");
}

}  // namespace
}  // namespace lockstep::cli
