#include "router/client/generation_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;

// Nothing listens at the address: such a request is not sent.
TEST(GenerationClientTest, TextThatIsNotUtf8IsRefusedAtOnce) {
  GenerationClient client("127.0.0.1:1");
  const auto status_of = [&client](const lockstep::v1::GenerateRequest& request) {
    return client.Generate(request, absl::Seconds(1), [](const auto&) {}).status();
  };
  lockstep::v1::GenerateRequest completion;
  completion.set_text("ab\xff");
  EXPECT_THAT(status_of(completion), HasError(absl::StatusCode::kInvalidArgument,
                                              HasSubstr("the prompt: byte 2 is not UTF-8")));
  lockstep::v1::GenerateRequest chat;
  chat.mutable_chat()->add_messages()->set_content("\xc3");
  EXPECT_THAT(status_of(chat), HasError(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("a message: byte 0 is not UTF-8")));
}

}  // namespace
}  // namespace lockstep::router
