#include <gmock/gmock.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/runtime/mutex.h"
#include "router/serving/calls/gatekeeper.h"
#include "tests/router/serving/serving_fixture.h"
#include "tests/router/serving/test_tenants.h"
#include "tests/support/raw_calls.h"

// API keys, tenants and their limits, over gRPC with everything behind it.
namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TenantServiceTest : public ServingTest {
 protected:
  void StartWith(const std::vector<TestTenant>& tenants) {
    router_config_.tenants_path = WriteTenants(folder_, tenants);
    router_config_.tenants_reload_interval = absl::Milliseconds(5);
    StartBoth();
  }

  std::string Metrics() { return prometheus::TextSerializer().Serialize(registry_.Collect()); }
  double NumUnauthenticated() {
    return router::RouterMetrics::At(metrics_.requests_total, absl::StatusCode::kUnauthenticated)
        .Value();
  }
  // What a call of a service that the stubs do not know ends with.
  grpc::StatusCode CallGeneric(const std::string& method) {
    return CallRaw(channel_, method, {}).status.error_code();
  }

  const TempFolder folder_;
};

TEST(AttributeTest, WhatARequestSaysOfItselfDoesNotCount) {
  const router::Tenant tenant = {.name = "acme", .cache_group = "group", .weight = 2.5};
  router::Request request;
  request.tenant = "another";
  request.prefix_root.salt = "salt";
  router::Attribute(nullptr, request);
  EXPECT_EQ(request.tenant, "another");
  EXPECT_EQ(request.tenant_weight, 1);
  EXPECT_EQ(request.prefix_root.salt, "salt");
  router::Attribute(&tenant, request);
  EXPECT_EQ(request.tenant, "acme");
  EXPECT_EQ(request.tenant_weight, 2.5);
  EXPECT_THAT(request.prefix_root.salt,
              AllOf(HasSubstr("group"), HasSubstr("salt"), Not("groupsalt")));
}

// Keeps what is logged.
class LogText final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  std::string text() {
    MutexLock lock(text_mutex_);
    return text_;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    MutexLock lock(text_mutex_);
    text_.append(message.payload.data(), message.payload.size()).append("\n");
  }
  void flush_() override {}

  Mutex text_mutex_;
  std::string text_ ABSL_GUARDED_BY(text_mutex_);
};

// The retry delay of the google.rpc.RetryInfo in a status's details.
std::optional<double> RetryDelaySeconds(const grpc::Status& status) {
  google::protobuf::UnknownFieldSet outer, any, info;
  google::protobuf::Duration delay;
  if (!outer.ParseFromString(status.error_details()) || outer.field_count() != 3 ||
      outer.field(0).varint() != static_cast<uint64_t>(status.error_code()) ||
      outer.field(1).length_delimited() != status.error_message() ||
      !any.ParseFromString(outer.field(2).length_delimited()) ||
      any.field(0).length_delimited() != "type.googleapis.com/google.rpc.RetryInfo" ||
      !info.ParseFromString(any.field(1).length_delimited()) || info.field_count() != 1 ||
      !delay.ParseFromString(info.field(0).length_delimited())) {
    return std::nullopt;
  }
  return static_cast<double>(delay.seconds()) + delay.nanos() * 1e-9;
}

TEST_F(TenantServiceTest, WithoutItsKeyNobodyIsAnswered) {
  StartWith({{"acme", {"acme-key"}}});
  const std::vector<std::vector<std::string>> refused = {{},
                                                         {"Bearer wrong-key"},
                                                         {"Bearer "},
                                                         {"Bearer"},
                                                         {"Basic acme-key"},
                                                         {"acme-key"},
                                                         {"Bearer acme-keyx"},
                                                         {"Bearer acme-ke"},
                                                         {"Bearer acme-key", "Bearer acme-key"}};
  for (const std::vector<std::string>& values : refused) {
    const auto expect_refusal = [&](const std::string& method, auto call) {
      grpc::ClientContext context;
      for (const std::string& value : values) context.AddMetadata("authorization", value);
      const grpc::Status status = call(context);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << method;
      EXPECT_THAT(status.error_message(), AllOf(HasSubstr("API key"), Not(HasSubstr("-key"))));
    };
    expect_refusal("Generate", [&](grpc::ClientContext& context) {
      return Generate(context, TextRequest("Hello", 4)).status;
    });
    expect_refusal("Abort", [&](grpc::ClientContext& context) {
      v1::AbortResponse response;
      return stub_->Abort(&context, v1::AbortRequest(), &response);
    });
    expect_refusal("Tokenize", [&](grpc::ClientContext& context) {
      v1::TokenizeResponse response;
      return stub_->Tokenize(&context, v1::TokenizeRequest(), &response);
    });
    expect_refusal("Detokenize", [&](grpc::ClientContext& context) {
      v1::DetokenizeResponse response;
      return stub_->Detokenize(&context, v1::DetokenizeRequest(), &response);
    });
    expect_refusal("GetModel", [&](grpc::ClientContext& context) {
      v1::Model response;
      return stub_->GetModel(&context, v1::GetModelRequest(), &response);
    });
    expect_refusal("ListModels", [&](grpc::ClientContext& context) {
      v1::ListModelsResponse response;
      return stub_->ListModels(&context, v1::ListModelsRequest(), &response);
    });
  }
  EXPECT_EQ(NumUnauthenticated(), static_cast<double>(refused.size()));
  EXPECT_EQ(router_->engine().admission().counts().open_requests, 0u);
}

TEST_F(TenantServiceTest, ItsKeyOpensEveryMethod) {
  StartWith({{"acme", {"acme-key", "second-key"}}});
  EXPECT_EQ(GenerateAs("acme-key", TextRequest("Hello", 4)).Text(), Continuation(6, 4));
  EXPECT_EQ(GenerateAs("second-key", TextRequest("Hello", 4)).Text(), Continuation(6, 4));
  grpc::ClientContext contexts[4];
  for (grpc::ClientContext& context : contexts) ShowKey(context, "acme-key");
  v1::TokenizeRequest text;
  text.set_text("abc");
  v1::TokenizeResponse tokens;
  EXPECT_TRUE(stub_->Tokenize(&contexts[0], text, &tokens).ok());
  EXPECT_EQ(tokens.token_ids_size(), 4);
  v1::Model model;
  EXPECT_TRUE(stub_->GetModel(&contexts[1], v1::GetModelRequest(), &model).ok());
  v1::ListModelsResponse models;
  EXPECT_TRUE(stub_->ListModels(&contexts[2], v1::ListModelsRequest(), &models).ok());
  v1::AbortResponse aborted;
  EXPECT_TRUE(stub_->Abort(&contexts[3], v1::AbortRequest(), &aborted).ok());
}

TEST_F(TenantServiceTest, HealthIsForEverybodyAndReflectionForNobody) {
  StartWith({{"acme", {"acme-key"}}});
  EXPECT_EQ(CallGeneric("/grpc.health.v1.Health/Check"), grpc::StatusCode::OK);
  EXPECT_EQ(CallGeneric("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(TenantServiceTest, WithoutKeysThereIsReflection) {
  StartBoth();
  EXPECT_NE(CallGeneric("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(TenantServiceTest, TheKeySaysWhoseARequestIsWhateverTheRequestSays) {
  StartWith({{"acme", {"acme-key"}}, {"blue", {"blue-key"}}});
  v1::GenerateRequest request = TextRequest("Hello", 4);
  request.set_tenant("blue");
  ASSERT_TRUE(GenerateAs("acme-key", request).status.ok());
  const std::string metrics = Metrics();
  EXPECT_THAT(metrics, HasSubstr(R"(tenant_requests_total{model="bytes",tenant="acme"} 1)"));
  EXPECT_THAT(metrics, HasSubstr(R"(tenant_prompt_tokens_total{model="bytes",tenant="acme"} 6)"));
  EXPECT_THAT(metrics,
              HasSubstr(R"(tenant_generation_tokens_total{model="bytes",tenant="acme"} 4)"));
  EXPECT_THAT(metrics, HasSubstr(R"(tenant_open_requests{model="bytes",tenant="acme"} 0)"));
  EXPECT_THAT(metrics, Not(HasSubstr("blue")));
}

TEST_F(TenantServiceTest, PrefixesAreSharedWithinAGroupOnly) {
  StartWith({{"acme", {"acme-key"}},
             {"blue", {"blue-key"}},
             {"acme-batch", {"batch-key"}, R"("cache_group": "acme")"}});
  v1::GenerateRequest request = TextRequest(std::string(100, 'x'), 2);
  const auto cached_tokens = [&](const std::string& key) {
    const Reply reply = GenerateAs(key, request);
    EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
    return reply.prompt_info().cached_tokens();
  };
  EXPECT_EQ(cached_tokens("acme-key"), 0u);
  EXPECT_EQ(cached_tokens("acme-key"), 96u);
  EXPECT_EQ(cached_tokens("blue-key"), 0u);
  EXPECT_EQ(cached_tokens("batch-key"), 96u);
  // Not even under a salt that looks like another's group.
  request.set_cache_salt("\n");
  EXPECT_EQ(cached_tokens("acme-key"), 0u);
  for (const char* const salt : {"acme", "acme\n", "acme\n\n"}) {
    request.set_cache_salt(salt);
    EXPECT_EQ(cached_tokens("blue-key"), 0u) << salt;
  }
}

TEST_F(TenantServiceTest, ATenantAbortsItsOwnRequestsOnly) {
  StartWith({{"acme", {"acme-key"}}, {"blue", {"blue-key"}}});
  HoldForwards();
  v1::GenerateRequest request = TextRequest("Hello", 50);
  request.set_request_id("same");
  Reply acme, blue;
  std::thread acme_client([&] { acme = GenerateAs("acme-key", request); });
  std::thread blue_client([&] { blue = GenerateAs("blue-key", request); });
  Eventually("both are with the engine",
             [&] { return router_->engine().replica_status().live_requests == 2; });
  const auto abort_as = [&](const std::string& key, const std::string& id) {
    grpc::ClientContext context;
    ShowKey(context, key);
    v1::AbortRequest aborting;
    aborting.add_request_ids(id);
    v1::AbortResponse response;
    EXPECT_TRUE(stub_->Abort(&context, aborting, &response).ok());
    return response.aborted();
  };
  EXPECT_EQ(abort_as("blue-key", "acme\nsame"), 0u);
  EXPECT_EQ(abort_as("acme-key", "same"), 1u);
  // The answer to the abort comes before the engine has taken it up. Nothing is computed until
  // then.
  acme_client.join();
  ReleaseForwards();
  blue_client.join();
  ASSERT_NE(acme.Finish(), nullptr) << acme.status.error_message();
  EXPECT_EQ(acme.Finish()->reason(), v1::FINISH_REASON_ABORT);
  ASSERT_NE(blue.Finish(), nullptr) << blue.status.error_message();
  EXPECT_EQ(blue.Finish()->reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(blue.Text(), Continuation(6, 50));
}

TEST_F(TenantServiceTest, OpenRequestsAreLimitedPerTenant) {
  StartWith({{"acme", {"acme-key"}, R"("max_open_requests": 1)"}, {"blue", {"blue-key"}}});
  HoldForwards();
  Reply first;
  std::thread client([&] { first = GenerateAs("acme-key", TextRequest("Hello", 4)); });
  Eventually("the first is open",
             [&] { return router_->engine().admission().counts().open_requests == 1; });
  const Reply second = GenerateAs("acme-key", TextRequest("Hello", 4));
  EXPECT_EQ(second.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(second.status.error_message(), HasSubstr("1 requests open"));
  EXPECT_EQ(RetryDelaySeconds(second.status), 1.0);  // what the router tells everybody
  ReleaseForwards();
  EXPECT_TRUE(GenerateAs("blue-key", TextRequest("Hello", 4)).status.ok());
  client.join();
  EXPECT_TRUE(first.status.ok());
  // One after the other there is no limit, not even at once.
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(GenerateAs("acme-key", TextRequest("Hello", 1)).status.ok());
  }
  EXPECT_THAT(Metrics(),
              HasSubstr(R"(tenant_requests_rejected_total{model="bytes",tenant="acme"} 1)"));
}

TEST_F(TenantServiceTest, ATenantAtItsLimitIsRefusedBeforeItsMessageIsParsed) {
  StartWith({{"acme", {"acme-key"}, R"("tokens_per_second": 0.001, "burst_tokens": 9)"},
             {"blue", {"blue-key"}, R"("max_open_requests": 1)"}});
  const auto send_garbage = [this](const std::string& key, size_t num_bytes) {
    return CallRaw(channel_, "/lockstep.v1.Generation/Generate", std::string(num_bytes, '\xff'),
                   {{"authorization", "Bearer " + key}})
        .status.error_code();
  };
  ASSERT_TRUE(GenerateAs("acme-key", TextRequest("Hello", 4)).status.ok());
  // Parsed by the connection's thread, and by the pool.
  for (const size_t num_bytes : {size_t{10}, size_t{100'000}}) {
    EXPECT_EQ(send_garbage("acme-key", num_bytes), grpc::StatusCode::RESOURCE_EXHAUSTED);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(send_garbage("blue-key", num_bytes), grpc::StatusCode::INVALID_ARGUMENT)
          << "what cannot be parsed keeps no place of its tenant";
    }
  }
  EXPECT_TRUE(GenerateAs("blue-key", TextRequest("Hello", 4)).status.ok());
}

TEST_F(TenantServiceTest, TokensOfPromptAndOutputAreCharged) {
  // One token in a quarter of an hour: the clock plays no part.
  StartWith({{"acme", {"acme-key"}, R"("tokens_per_second": 0.001, "burst_tokens": 10)"},
             {"blue", {"blue-key"}}});
  ASSERT_TRUE(GenerateAs("acme-key", TextRequest("Hel", 4)).status.ok());    // 8 of 10
  ASSERT_TRUE(GenerateAs("acme-key", TextRequest("Hello", 4)).status.ok());  // 18: overdrawn
  grpc::ClientContext context;
  ShowKey(context, "acme-key");
  const Reply refused = Generate(context, TextRequest("Hello", 1));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("tokens a second"));
  const std::optional<double> delay = RetryDelaySeconds(refused.status);
  ASSERT_TRUE(delay.has_value());
  EXPECT_GT(*delay, 7000);  // eight tokens of debt
  EXPECT_LE(*delay, 8000);
  const auto hint = context.GetServerTrailingMetadata().find("retry-after-ms");
  ASSERT_NE(hint, context.GetServerTrailingMetadata().end());
  EXPECT_NEAR(std::stod(std::string(hint->second.data(), hint->second.size())), *delay * 1e3, 1);
  EXPECT_TRUE(GenerateAs("blue-key", TextRequest("Hello", 4)).status.ok());
}

TEST_F(TenantServiceTest, KeysAreReplacedWhileTheRouterRuns) {
  StartWith({{"acme", {"old-key"}}});
  WriteTenants(folder_, {{"acme", {"old-key", "new-key"}}});
  Eventually("the new key is taken",
             [&] { return GenerateAs("new-key", TextRequest("Hello", 1)).status.ok(); });
  EXPECT_TRUE(GenerateAs("old-key", TextRequest("Hello", 1)).status.ok());
  WriteTenants(folder_, {{"acme", {"new-key"}}});
  Eventually("the old key is refused", [&] {
    return GenerateAs("old-key", TextRequest("Hello", 1)).status.error_code() ==
           grpc::StatusCode::UNAUTHENTICATED;
  });
  EXPECT_TRUE(GenerateAs("new-key", TextRequest("Hello", 1)).status.ok());
}

TEST_F(TenantServiceTest, KeysAreInNoLogAndNoMetric) {
  const auto log = std::make_shared<LogText>();
  const auto former = spdlog::default_logger();
  auto logger = std::make_shared<spdlog::logger>("test", log);
  logger->set_level(spdlog::level::trace);
  spdlog::set_default_logger(logger);
  StartWith({{"acme", {"sesame-1"}, R"("max_open_requests": 8)"}});
  EXPECT_TRUE(GenerateAs("sesame-1", TextRequest("Hello", 2)).status.ok());
  EXPECT_FALSE(GenerateAs("sesame-2", TextRequest("Hello", 2)).status.ok());
  folder_.Write("tenants.json", R"({"tenants": [{"name": "acme", "key_sha256": ["sesame-3"]}]})");
  Eventually("the file is found wanting", [&] {
    return log->text().find("the tenants stay as they were") != std::string::npos;
  });
  spdlog::set_default_logger(former);
  router_.reset();
  for (const std::string key : {"sesame-1", "sesame-2", "sesame-3"}) {
    EXPECT_THAT(log->text(), Not(HasSubstr(key)));
    EXPECT_THAT(log->text(), Not(HasSubstr(Sha256Hex(key))));
    EXPECT_THAT(Metrics(), Not(HasSubstr(key)));
  }
}

TEST_F(TenantServiceTest, ATenantFileThatDoesNotReadEndsTheStart) {
  router::RouterServerConfig config = router_config_;
  config.tenants_path = folder_.path() + "/none.json";
  const auto server = router::RouterServer::Start(
      config, {.serving = {.model = model_, .metrics = metrics_, .clock = clock_},
               .replicas = {},
               .loops = std::make_shared<router::GrpcLoops>(1),
               .registry = registry_});
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("none.json"));
}

}  // namespace
}  // namespace lockstep::testing
