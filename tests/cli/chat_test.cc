#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <deque>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/chat/chat_options.h"
#include "cli/chat/commands.h"
#include "cli/chat/conversation.h"
#include "cli/chat/line_source.h"
#include "cli/verbs.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ChatCommandTest, TellsCommandsFromMessages) {
  const auto parse = [](std::string_view input) {
    const ChatCommand command = ParseChatCommand(input);
    return std::pair(command.kind, command.text);
  };
  using Kind = ChatCommandKind;
  EXPECT_EQ(parse("hello /help"), std::pair(Kind::kMessage, std::string("hello /help")));
  EXPECT_EQ(parse("//etc is a path"), std::pair(Kind::kMessage, std::string("/etc is a path")));
  EXPECT_EQ(parse("/system  Be brief. "), std::pair(Kind::kSystem, std::string("Be brief.")));
  EXPECT_EQ(parse("/reset"), std::pair(Kind::kReset, std::string()));
  EXPECT_EQ(parse("/save a b.json"), std::pair(Kind::kSave, std::string("a b.json")));
  EXPECT_EQ(parse("/quit"), std::pair(Kind::kQuit, std::string()));
  EXPECT_EQ(parse("/sytem x"), std::pair(Kind::kUnknown, std::string("/sytem")));
  EXPECT_THAT(UnknownCommandText("/sytem"), HasSubstr("did you mean /system?"));
}

TEST(ConversationTest, TheSystemMessageComesFirstAndOutlivesAReset) {
  Conversation conversation;
  conversation.AddUser("one");
  conversation.AddAssistant("two");
  conversation.SetSystem("be brief");
  EXPECT_EQ(conversation.ToText(), "[system]\nbe brief\n\n[user]\none\n\n[assistant]\ntwo\n");
  lockstep::v1::ChatPrompt prompt;
  conversation.FillPrompt(&prompt);
  ASSERT_EQ(prompt.messages_size(), 3);
  EXPECT_EQ(prompt.messages(0).role(), "system");
  EXPECT_EQ(prompt.messages(2).content(), "two");
  conversation.Reset();
  EXPECT_EQ(conversation.ToText(), "[system]\nbe brief\n");
}

TEST(ConversationTest, IsSavedForItsUserAloneAndNeverOverAFile) {
  const TempFolder folder;
  Conversation conversation;
  conversation.AddUser("one");
  const std::string path = folder.path() + "/chat.json";
  ASSERT_THAT(conversation.SaveTo(path), IsOk());
  struct stat status = {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  std::ifstream stream(path);
  const auto json = nlohmann::json::parse(stream);
  EXPECT_EQ(json["messages"][0]["content"], "one");
  EXPECT_THAT(conversation.SaveTo(path),
              HasError(absl::StatusCode::kAlreadyExists, HasSubstr(path)));
  EXPECT_THAT(conversation.SaveTo(""), HasError(kInvalid, HasSubstr("/save FILE")));
}

class ScriptedLines final : public LineSource {
 public:
  explicit ScriptedLines(std::deque<std::string> lines) : lines_(std::move(lines)) {}
  Result ReadLine(const std::string&, std::string& line) override {
    if (lines_.empty()) return Result::kEnd;
    line = lines_.front();
    lines_.pop_front();
    return line == "^C" ? Result::kInterrupted : Result::kLine;
  }

 private:
  std::deque<std::string> lines_;
};

TEST(ReadInputTest, ABackslashAtTheEndGoesOn) {
  ScriptedLines lines({"one\\", "two", "three", "four\\", "^C", "five\\"});
  std::string input;
  EXPECT_EQ(ReadInput(lines, input), LineSource::Result::kLine);
  EXPECT_EQ(input, "one\ntwo");
  EXPECT_EQ(ReadInput(lines, input), LineSource::Result::kLine);
  EXPECT_EQ(input, "three");
  EXPECT_EQ(ReadInput(lines, input), LineSource::Result::kInterrupted);
  EXPECT_EQ(ReadInput(lines, input), LineSource::Result::kLine);
  EXPECT_EQ(input, "five\n");
  EXPECT_EQ(ReadInput(lines, input), LineSource::Result::kEnd);
}

absl::StatusOr<ChatOptions> ParseChat(std::vector<std::string> words) {
  return ParseChatOptions(*FindVerb("chat"), words);
}

TEST(ChatOptionsTest, OnlyWhatWasGivenIsAskedFor) {
  const TempFolder folder;
  const auto options = ParseChat(
      {"--temperature=0", "--max-tokens", "5", "--api-key", "@" + folder.Write("key", "secret\n")});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->client.api_key, "secret");
  EXPECT_EQ(FormatAddress(options->server.address), "127.0.0.1:8000");
  const lockstep::v1::GenerateRequest request = options->MakeRequest();
  EXPECT_EQ(request.sampling().temperature(), 0);
  EXPECT_TRUE(request.sampling().has_temperature());
  EXPECT_FALSE(request.sampling().has_top_p());
  EXPECT_EQ(request.stop().max_tokens(), 5u);
}

TEST(ChatOptionsTest, NamesEverythingThatIsWrong) {
  EXPECT_THAT(ParseChat({"--url=a:b", "--top-p=2", "--api-key=a b", "x"}),
              HasError(kInvalid, AllOf(HasSubstr("--url: expected a server"), HasSubstr("--top-p"),
                                       HasSubstr("--api-key: expected one word"),
                                       HasSubstr("unexpected argument \"x\""))));
}

TEST(ChatOptionsTest, HttpsAndItsAuthoritiesComeTogether) {
  const TempFolder folder;
  const std::string authorities =
      folder.Write("ca.pem", testing::TestAuthority("authority").cert_pem());
  EXPECT_THAT(ParseChat({"--url=https://a:1"}),
              HasError(kInvalid, HasSubstr("--tls-ca is missing: https needs it")));
  EXPECT_THAT(ParseChat({"--url=a:1", "--tls-ca=" + authorities}),
              HasError(kInvalid, HasSubstr("--url: expected https://... with --tls-ca, got ")));
  EXPECT_THAT(ParseChat({"--url=https://a:1", "--tls-ca=" + authorities}), IsOk());
  EXPECT_THAT(ParseChat({"--url=https://a:1", "--tls-ca=no/such/file"}),
              HasError(kInvalid, AllOf(HasSubstr("--tls-ca: "), HasSubstr("no/such/file"))));
}

}  // namespace
}  // namespace lockstep::cli
