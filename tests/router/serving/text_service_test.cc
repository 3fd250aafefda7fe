#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/router/serving/byte_tokenizer.h"
#include "tests/router/serving/serving_fixture.h"
#include "tests/support/raw_calls.h"

// The calls beside Generate.
namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using TextServiceTest = ServingTest;

TEST_F(TextServiceTest, TokenizeAndDetokenize) {
  StartRouter();  // no worker is needed
  v1::TokenizeRequest request;
  request.set_text("a<s>");
  v1::TokenizeResponse response;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->Tokenize(&context, request, &response).ok());
    EXPECT_THAT(response.token_ids(),
                ElementsAreArray({ByteTokenizer::kBos, TokenId{'a'}, ByteTokenizer::kBos}));
  }
  request.set_parse_special(false);
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->Tokenize(&context, request, &response).ok());
    std::vector<TokenId> expected = {ByteTokenizer::kBos};
    for (const TokenId id : Bytes("a<s>")) expected.push_back(id);
    EXPECT_THAT(response.token_ids(), ElementsAreArray(expected));
  }
  {
    grpc::ClientContext context;
    v1::DetokenizeRequest back;
    back.mutable_token_ids()->CopyFrom(response.token_ids());
    v1::DetokenizeResponse text;
    ASSERT_TRUE(stub_->Detokenize(&context, back, &text).ok());
    EXPECT_EQ(text.text(), "<s>a<s>");
  }
  {
    grpc::ClientContext context;
    ExpectStatus(stub_->Tokenize(&context, v1::TokenizeRequest(), &response),
                 grpc::StatusCode::INVALID_ARGUMENT, "input: expected one of text, chat");
  }
  {
    grpc::ClientContext context;
    v1::DetokenizeRequest beyond;
    beyond.add_token_ids(1000);
    v1::DetokenizeResponse text;
    ExpectStatus(stub_->Detokenize(&context, beyond, &text), grpc::StatusCode::INVALID_ARGUMENT,
                 "token_ids");
  }
}

TEST_F(TextServiceTest, ArgumentsOfATemplateKeepTheirOrder) {
  model_ = MakeByteModel("{{ tools[0] | tojson }}");
  StartRouter();
  v1::TokenizeRequest request;
  request.mutable_chat()->add_messages()->set_role("user");
  request.mutable_chat()->set_template_arguments_json(R"({"tools": [{"type": "f", "name": "g"}]})");
  grpc::ClientContext context;
  v1::TokenizeResponse response;
  const grpc::Status status = stub_->Tokenize(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response.token_ids(), ElementsAreArray(Bytes(R"({"type": "f", "name": "g"})")));
}

TEST_F(TextServiceTest, TextCallsAreCheckedLikeGenerate) {
  router_config_.api.limits.max_prompt_bytes = 2048;
  StartRouter();
  const auto tokenize = [&](const v1::TokenizeRequest& request) {
    grpc::ClientContext context;
    v1::TokenizeResponse response;
    return stub_->Tokenize(&context, request, &response);
  };
  const auto detokenize = [&](int num_ids, TokenId id = 'x') {
    grpc::ClientContext context;
    v1::DetokenizeRequest request;
    for (int i = 0; i < num_ids; ++i) request.add_token_ids(id);
    v1::DetokenizeResponse response;
    return stub_->Detokenize(&context, request, &response);
  };
  v1::TokenizeRequest chat;
  v1::ChatMessage* const message = chat.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("Hi");
  EXPECT_TRUE(tokenize(chat).ok());
  for (const bool add : {false, true}) {
    chat.set_add_special_tokens(add);
    ExpectStatus(tokenize(chat), grpc::StatusCode::INVALID_ARGUMENT,
                 "add_special_tokens: expected with text only");
  }
  chat.clear_add_special_tokens();
  chat.set_parse_special(true);
  ExpectStatus(tokenize(chat), grpc::StatusCode::INVALID_ARGUMENT,
               "parse_special: expected with text only");
  // The model's own texts may have longer tokens than texts that Tokenize takes.
  EXPECT_TRUE(detokenize(kContextTokens, ByteTokenizer::kBos).ok());
  EXPECT_TRUE(detokenize(8192).ok());
  ExpectStatus(detokenize(8193), grpc::StatusCode::INVALID_ARGUMENT,
               "token_ids: expected at most 8192 ids, got 8193 or more");
  ExpectStatus(detokenize(kContextTokens + 1, ByteTokenizer::kBos),
               grpc::StatusCode::INVALID_ARGUMENT,
               "token_ids: expected at most 8192 bytes of text, got 12291");
}

TEST_F(TextServiceTest, UnknownFieldsAreNamedByEveryCall) {
  StartRouter();
  const std::string field_99("\x98\x06\x01", 3);  // is 1
  for (const std::string method : {"Abort", "Tokenize", "Detokenize", "GetModel", "ListModels"}) {
    const grpc::Status status =
        CallRaw(channel_, "/lockstep.v1.Generation/" + method, field_99).status;
    ExpectStatus(status, grpc::StatusCode::UNIMPLEMENTED, "request: field number 99");
  }
}

TEST_F(TextServiceTest, DescribesItsModel) {
  StartBoth();
  grpc::ClientContext context;
  v1::Model model;
  ASSERT_TRUE(stub_->GetModel(&context, v1::GetModelRequest(), &model).ok());
  EXPECT_EQ(model.id(), "bytes");
  EXPECT_EQ(model.vocab_size(), ByteTokenizer::kVocabSize);
  EXPECT_EQ(model.max_context_tokens(), kContextTokens);
  EXPECT_TRUE(model.has_chat_template());
  EXPECT_TRUE(model.ready());
  EXPECT_EQ(model.default_sampling().top_p(), 1.0f);
  grpc::ClientContext list_context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(stub_->ListModels(&list_context, v1::ListModelsRequest(), &list).ok());
  ASSERT_EQ(list.models_size(), 1);
  EXPECT_EQ(list.models(0).id(), "bytes");
}

}  // namespace
}  // namespace lockstep::testing
