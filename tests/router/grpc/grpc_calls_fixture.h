#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>

#include "router/grpc/generation_service.h"
#include "router/grpc/grpc_services.h"
#include "router/limits/byte_budget.h"
#include "router/serving/calls/text_places.h"
#include "router/strands/strand_pool.h"
#include "tests/common/temp_folder.h"
#include "tests/router/front/counting_signal.h"
#include "tests/router/serving/serving_fixture.h"
#include "tests/router/strands/function_strand.h"

namespace lockstep::testing {

inline constexpr size_t kAmple = size_t{256} << 20;
// What a call may hold that holds no message.
inline constexpr size_t kLittle = size_t{16} << 10;

class GrpcCallsTest : public ServingTest {
 protected:
  struct Call {
    std::shared_ptr<router::StreamHandler> handler;
    std::shared_ptr<CountingSignal> signal;

    void Send(const std::string& message) const {
      std::string bytes(router::kMessagePrefixBytes, '\0');
      router::WriteMessagePrefix(message.size(), bytes.data());
      handler->OnBody(bytes + message);
      handler->OnBodyEnd();
    }
  };

  void StartAll(size_t memory_bytes = kAmple) {
    StartBoth();
    memory_ = std::make_shared<router::ByteBudget>(memory_bytes);
    home_ = std::make_unique<router::StrandPool>("home", 1);
    services_ =
        std::make_unique<router::GrpcServices>(router::MaxRequestBytes(router_config_.api.limits));
    service_ = std::make_unique<router::GenerationService>(router_->api());
    service_->AddTo(*services_);
  }
  ~GrpcCallsTest() override {
    Unblock();
    ReleaseForwards();
    router_.reset();
    home_.reset();
  }

  // Keeps the one thread of the pool until Unblock.
  void Block() { Block(router_->api().encode_pool); }
  void Block(router::StrandRunner& pool) {
    begun_ = std::make_unique<std::latch>(1);
    may_go_ = std::make_unique<std::latch>(1);
    pool.Schedule(std::make_shared<router::testing::FunctionStrand>([this] {
      begun_->count_down();
      may_go_->wait();
    }));
    begun_->wait();
  }
  void Unblock() {
    if (may_go_ != nullptr && !may_go_->try_wait()) may_go_->count_down();
  }

  Call Open(const std::string& method, const std::string& key = "") {
    Call call;
    call.signal = std::make_shared<CountingSignal>();
    router::StreamRequest request;
    request.fields = {{":method", "POST"},
                      {":path", "/lockstep.v1.Generation/" + method},
                      {"content-type", "application/grpc"}};
    // Owns nothing. The last owner of a call may be a thread of the pool, which cannot join itself.
    request.connection_runner =
        std::shared_ptr<router::StrandRunner>(std::shared_ptr<void>(), home_.get());
    if (!key.empty()) request.fields.Add("authorization", "Bearer " + key);
    call.handler = services_->Open(request, call.signal, memory_);
    return call;
  }
  Call Ask(const std::string& method, const std::string& message, const std::string& key = "") {
    Call call = Open(method, key);
    call.Send(message);
    return call;
  }
  Call Ask(const std::string& method, const google::protobuf::MessageLite& message,
           const std::string& key = "") {
    return Ask(method, message.SerializeAsString(), key);
  }

  // Until the engine is done with it.
  Call Run(const v1::GenerateRequest& request) {
    HoldForwards();
    Call call = Ask("Generate", request);
    const auto num_live = [this] { return router_->engine().replica_status().live_requests; };
    Eventually("it has begun", [&] { return num_live() == 1; });
    ReleaseForwards();
    Eventually("it is over", [&] { return num_live() == 0; });
    return call;
  }

  // The status that the call ends with, once there is one.
  struct Status {
    std::string code;
    std::string message;
  };
  // What came before it may be taken, but is not written: its bytes stay held.
  static Status StatusOf(const Call& call) {
    call.signal->Await();
    router::StreamHandler::Output output;
    Eventually("its end is taken", [&] {
      output = call.handler->Take();
      return output.last;
    });
    const router::HeaderList& fields =
        output.trailers.Find("grpc-status").empty() && output.head.has_value() ? *output.head
                                                                               : output.trailers;
    return {std::string(fields.Find("grpc-status")), std::string(fields.Find("grpc-message"))};
  }
  // Takes all of the answer. Its end follows messages.
  Status Drain(const Call& call) {
    router::StreamHandler::Output output;
    Eventually("its end is taken", [&] {
      output = call.handler->Take();
      if (!output.empty()) call.handler->OnWritten();
      return output.last;
    });
    return {std::string(output.trailers.Find("grpc-status")),
            std::string(output.trailers.Find("grpc-message"))};
  }
  static std::string Code(grpc::StatusCode code) {
    return fmt::format("{}", static_cast<int>(code));
  }

  // A prompt of many bytes and few tokens.
  static v1::GenerateRequest LongPrompt() {
    v1::GenerateRequest request = TextRequest(std::string(size_t{1} << 20, 'x'), 5);
    request.set_truncate_prompt_tokens(10);
    return request;
  }

  uint32_t num_places() { return router_->api().text_places.num_taken(); }

  const TempFolder folder_;
  std::shared_ptr<router::ByteBudget> memory_;
  std::unique_ptr<router::StrandPool> home_;
  std::unique_ptr<router::GrpcServices> services_;
  std::unique_ptr<router::GenerationService> service_;
  std::unique_ptr<std::latch> begun_, may_go_;
};

}  // namespace lockstep::testing
