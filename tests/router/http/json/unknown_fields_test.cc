#include "router/http/json/unknown_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/status.h"
#include "router/http/dialects/openai/body/openai_request.h"
#include "router/http/dialects/openai/text_queries.h"

namespace lockstep::router {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

std::string ListOf(const std::string& name) {
  UnknownFields unknown(/*refuse=*/false);
  EXPECT_TRUE(unknown.Add("", name).ok());
  return unknown.list();
}

TEST(UnknownFieldsTest, ListsPathsInOrder) {
  UnknownFields unknown(/*refuse=*/false);
  EXPECT_EQ(unknown.list(), "");
  EXPECT_TRUE(unknown.Add("messages[0]", "foo").ok());
  EXPECT_TRUE(unknown.Add("", "temprature").ok());
  EXPECT_EQ(unknown.list(), "messages[0].foo, temprature");
}

TEST(UnknownFieldsTest, NothingOfANameEndsTheHeaderOrTheEntry) {
  EXPECT_EQ(ListOf("a\r\nSet-Cookie: x"), "a%0D%0ASet-Cookie:%20x");
  EXPECT_EQ(ListOf("a, b"), "a%2C%20b");
  EXPECT_EQ(ListOf("50%"), "50%25");
  EXPECT_EQ(ListOf("\xc3\xa4\x7f\"\\"), "%C3%A4%7F%22%5C");
  EXPECT_EQ(ListOf(std::string("\0", 1)), "%00");
  for (int byte = 0; byte < 256; ++byte) {
    for (const char c : ListOf(std::string(1, static_cast<char>(byte)))) {
      EXPECT_TRUE(c > ' ' && c <= '~' && c != ',') << byte;
    }
  }
}

TEST(UnknownFieldsTest, IsCutToItsSize) {
  EXPECT_EQ(ListOf(std::string(1000, 'x')), std::string(100, 'x') + "...");
  UnknownFields unknown(/*refuse=*/false);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(unknown.Add("", std::string(100, '\xff')).ok());
  EXPECT_LE(unknown.list().size(), kMaxIgnoredFieldsBytes);
  EXPECT_GT(unknown.list().size(), kMaxIgnoredFieldsBytes / 2);
  EXPECT_THAT(unknown.list(), EndsWith(", ..."));
}

TEST(UnknownFieldsTest, RefusedOnesAreNamed) {
  UnknownFields unknown(/*refuse=*/true);
  const absl::Status plain = unknown.Add("messages[1]", "foo");
  EXPECT_EQ(plain.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(plain), StartsWith("messages[1].foo: this router does not know the field"));
  EXPECT_THAT(Message(unknown.Add("", "a b")), StartsWith("body: this router does not know"));
}

constexpr char kChat[] = R"({"messages": [{"role": "user", "content": [{"text": "x", "cache": 1}]},
    {"role": "user", "content": "y", "foo": null}], "stream": true,
    "stream_options": {"bar": 1, "include_usage": true}, "temprature": 0, "user": "u"})";

TEST(UnknownFieldsTest, OfEveryPartOfARequestAreListed) {
  const auto chat = ParseChatRequest(kChat);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->ignored_fields,
            "stream_options.bar, messages[0].content[0].cache, messages[1].foo, temprature");
  const auto completion = ParseCompletionRequest(R"({"prompt": "x", "foo": {"bar": 1}})");
  ASSERT_TRUE(completion.ok()) << completion.status();
  EXPECT_EQ(completion->ignored_fields, "foo");
  const auto tokenize = ParseTokenizeRequest(R"({"prompt": "x", "a": 1})");
  ASSERT_TRUE(tokenize.ok()) << tokenize.status();
  EXPECT_EQ(tokenize->ignored_fields, "a");
  const auto detokenize = ParseDetokenizeRequest(R"({"tokens": [1], "b": 1})");
  ASSERT_TRUE(detokenize.ok()) << detokenize.status();
  EXPECT_EQ(detokenize->ignored_fields, "b");
  EXPECT_EQ(ParseCompletionRequest(R"({"prompt": "x", "user": "u"})")->ignored_fields, "");
}

TEST(UnknownFieldsTest, AreRefusedWhereFieldsAreStrict) {
  const BodyReading strict{.strict_fields = true};
  for (const absl::Status& status :
       {ParseChatRequest(kChat, strict).status(),
        ParseCompletionRequest(R"({"prompt": "x", "a": 1})", strict).status(),
        ParseTokenizeRequest(R"({"prompt": "x", "a": 1})", strict).status(),
        ParseDetokenizeRequest(R"({"tokens": [1], "a": 1})", strict).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  }
  EXPECT_TRUE(ParseCompletionRequest(R"({"prompt": "x", "user": "u"})", strict).ok());
}

}  // namespace
}  // namespace lockstep::router
