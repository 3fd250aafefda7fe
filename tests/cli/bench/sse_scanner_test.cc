#include "cli/bench/load/sse_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench/load/grpc_transport.h"
#include "cli/bench/load/http_transport.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAnswer[] =
    "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"text\":\" one\"}]}\n\n"
    ": a comment\n\n"
    "data: {\"choices\": [{\"text\": \"\", \"index\": 0}]}\r\n\r\n"
    "data:{\"choices\":[{\"text\":\"\\\"text\\\":\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":34,"
    "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\n"
    "data: [DONE]\n\n";

TEST(SseScannerTest, CountsEventsWithTextAndReadsTheUsage) {
  SseScanner scanner;
  EXPECT_EQ(scanner.Feed(kAnswer), 2);
  EXPECT_TRUE(scanner.done());
  EXPECT_EQ(scanner.prompt_tokens(), 12);
  EXPECT_EQ(scanner.output_tokens(), 34);
  EXPECT_EQ(scanner.cached_tokens(), 8);
  EXPECT_EQ(scanner.error(), "");
}

TEST(SseScannerTest, PiecesOfAnySizeSayTheSame) {
  const std::string_view answer(kAnswer);
  for (size_t size = 1; size < answer.size(); size += 3) {
    SseScanner scanner;
    uint32_t count = 0;
    for (size_t at = 0; at < answer.size(); at += size)
      count += scanner.Feed(answer.substr(at, size));
    EXPECT_EQ(count, 2) << size;
    EXPECT_TRUE(scanner.done()) << size;
    EXPECT_EQ(scanner.output_tokens(), 34) << size;
  }
}

TEST(SseScannerTest, KnowsChatDeltas) {
  SseScanner scanner;
  EXPECT_EQ(
      scanner.Feed("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n"
                   "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n"
                   "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"b\"}}]}\n"
                   "data: {\"choices\":[{\"delta\":{\"content\":null}}]}\n"),
      2);
  EXPECT_FALSE(scanner.done());
}

TEST(SseScannerTest, KeepsTheMessageOfAnError) {
  SseScanner scanner;
  EXPECT_EQ(scanner.Feed("data: {\"error\":{\"message\":\"no worker\",\"code\":503}}\n\n"), 0);
  EXPECT_EQ(scanner.error(), "no worker");
  SseScanner other;
  other.Feed("data: {\"error\":7}\n\n");
  EXPECT_EQ(other.error(), "an error without a message");
}

TEST(SseScannerTest, ATextThatQuotesUsageIsNoUsage) {
  SseScanner scanner;
  EXPECT_EQ(scanner.Feed("data: {\"choices\":[{\"text\":\"\\\"completion_tokens\\\":9\"}]}\n"), 1);
  EXPECT_EQ(scanner.output_tokens(), 0);
}

TEST(BenchRequestJsonTest, SendsIdsTextOrMessages) {
  const TransportOptions options = {.model = "m\"1"};
  EXPECT_THAT(BenchRequestJson({.token_ids = {4, 5}, .max_tokens = 3}, options),
              AllOf(HasSubstr("\"model\":\"m\\\"1\""), HasSubstr("\"prompt\":[4,5]"),
                    HasSubstr("\"max_tokens\":3"), HasSubstr("\"ignore_eos\":true"),
                    HasSubstr("\"temperature\":0,"), Not(HasSubstr("top_p")),
                    HasSubstr("\"include_usage\":true")));
  EXPECT_THAT(BenchRequestJson(
                  {.token_ids = {4}, .max_tokens = 3},
                  {.model = "m", .sampling = {.temperature = 0.7f, .top_p = 0.9f, .top_k = 50}}),
              HasSubstr("\"temperature\":0.7,\"top_p\":0.9,\"top_k\":50,"));
  const BenchRequest talk = {.messages = {{"user", "a\n\"b\""}}, .max_tokens = 1};
  EXPECT_THAT(BenchRequestJson(talk, options), HasSubstr("\"prompt\":\"a\\n\\\"b\\\"\\n\""));
  EXPECT_THAT(BenchRequestJson(talk, {.model = "m", .chat = true}),
              AllOf(HasSubstr("\"messages\":[{\"content\":\"a\\n\\\"b\\\"\",\"role\":\"user\"}]"),
                    Not(HasSubstr("\"prompt\""))));
}

TEST(ToGenerateRequestTest, SendsIdsAndHowToDraw) {
  const auto request = ToGenerateRequest({.token_ids = {4, 5}, .max_tokens = 3},
                                         {.temperature = 0.7f, .top_p = 0.9f, .top_k = 50});
  EXPECT_THAT(request.token_ids().ids(), ::testing::ElementsAre(4, 5));
  EXPECT_EQ(request.sampling().temperature(), 0.7f);
  EXPECT_EQ(request.sampling().top_p(), 0.9f);
  EXPECT_EQ(request.sampling().top_k(), 50u);
  EXPECT_EQ(request.stop().max_tokens(), 3u);
  EXPECT_TRUE(request.stop().ignore_eos());
}

TEST(SseScannerTest, ALineThatDoesNotEndIsGivenUp) {
  for (const bool ends : {false, true}) {
    SseScanner scanner;
    const std::string part(100'000, 'x');
    for (int i = 0; i < 10; ++i) scanner.Feed(part);
    EXPECT_FALSE(scanner.failed());
    scanner.Feed(part + (ends ? "\n" : ""));
    EXPECT_TRUE(scanner.failed());
    EXPECT_EQ(scanner.error(), "a line has more than 1048576 bytes");
    EXPECT_EQ(scanner.Feed("\ndata: {\"choices\":[{\"text\":\"a\"}]}\n"), 0u);
  }
}

}  // namespace
}  // namespace lockstep::cli
