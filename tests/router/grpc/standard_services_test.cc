#include "router/grpc/standard_services.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "lockstep/standard/standard.pb.h"
#include "tests/router/grpc/grpc_test_server.h"
#include "tests/support/raw_calls.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::CallRaw;
using ::lockstep::testing::CheckHealth;
using ::lockstep::testing::RawReply;
using Health = standard::HealthCheckResponse;

constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
constexpr char kService[] = "lockstep.v1.Generation";

// Streaming calls, one operation after the other.
class RawStream {
 public:
  RawStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& method)
      : stub_(channel) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    call_ = stub_.PrepareCall(&context_, method, &queue_);
    call_->StartCall(nullptr);
    LOCKSTEP_CHECK(Await(), "the call starts");
  }
  ~RawStream() {
    context_.TryCancel();
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Await();
  }

  template <typename Message>
  void Send(const Message& message) {
    const grpc::Slice slice(message.SerializeAsString());
    call_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    LOCKSTEP_CHECK(Await(), "the message is sent");
  }
  template <typename Message>
  Message Receive() {
    grpc::ByteBuffer buffer;
    call_->Read(&buffer, nullptr);
    LOCKSTEP_CHECK(Await(), "a message comes");
    grpc::Slice slice;
    Message message;
    LOCKSTEP_CHECK(buffer.DumpToSingleSlice(&slice).ok() &&
                       message.ParseFromArray(slice.begin(), static_cast<int>(slice.size())),
                   "the message can be parsed");
    return message;
  }

 private:
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    LOCKSTEP_CHECK(queue_.Next(&tag, &ok), "the queue is open");
    return ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

class StandardServicesTest : public ::testing::Test {
 protected:
  void StartServer(bool reflection) {
    services_ = std::make_unique<StandardServices>(kService, reflection);
    services_->AddTo(methods_);
    server_.emplace(methods_);
    channel_ = OpenChannel();
  }
  // On a connection of its own.
  std::shared_ptr<grpc::Channel> OpenChannel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  static standard::HealthCheckRequest Asking(const std::string& service) {
    standard::HealthCheckRequest request;
    request.set_service(service);
    return request;
  }

  std::unique_ptr<StandardServices> services_;
  GrpcServices methods_{size_t{1} << 20};
  std::optional<lockstep::testing::GrpcTestServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(StandardServicesTest, HealthFollowsReadiness) {
  StartServer(/*reflection=*/true);
  EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
  EXPECT_EQ(CheckHealth(channel_, kService), "NOT_SERVING");
  services_->SetServing(true);
  EXPECT_EQ(CheckHealth(channel_, kService), "SERVING");
  services_->SetServing(false);
  EXPECT_EQ(CheckHealth(channel_, kService), "NOT_SERVING");
  EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
}

TEST_F(StandardServicesTest, HealthOfAnUnknownServiceIsNotFound) {
  StartServer(/*reflection=*/true);
  EXPECT_EQ(CallRaw(channel_, "/grpc.health.v1.Health/Check", "\x0a\x01x").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(StandardServicesTest, WatchersAreToldOfEveryChange) {
  StartServer(/*reflection=*/true);
  RawStream watch(channel_, "/grpc.health.v1.Health/Watch");
  RawStream of_process(channel_, "/grpc.health.v1.Health/Watch");
  RawStream of_stranger(channel_, "/grpc.health.v1.Health/Watch");
  watch.Send(Asking(kService));
  of_process.Send(Asking(""));
  of_stranger.Send(Asking("stranger"));
  EXPECT_EQ(watch.Receive<Health>().status(), Health::NOT_SERVING);
  EXPECT_EQ(of_process.Receive<Health>().status(), Health::SERVING);
  EXPECT_EQ(of_stranger.Receive<Health>().status(), Health::SERVICE_UNKNOWN);
  for (int i = 0; i < 3; ++i) {
    services_->SetServing(true);
    services_->SetServing(true);
    EXPECT_EQ(watch.Receive<Health>().status(), Health::SERVING);
    services_->SetServing(false);
    EXPECT_EQ(watch.Receive<Health>().status(), Health::NOT_SERVING);
  }
}

TEST_F(StandardServicesTest, WatchersWhoLeaveAreForgotten) {
  StartServer(/*reflection=*/true);
  for (int i = 0; i < 20; ++i) {
    RawStream watch(channel_, "/grpc.health.v1.Health/Watch");
    watch.Send(Asking(kService));
    EXPECT_EQ(watch.Receive<Health>().status(), i % 2 == 0 ? Health::NOT_SERVING : Health::SERVING);
    EXPECT_GE(services_->num_watchers(), 1u);
    services_->SetServing(i % 2 == 0);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (services_->num_watchers() > 0) {
    EXPECT_EQ(CheckHealth(channel_, kService), "NOT_SERVING");
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
}

TEST_F(StandardServicesTest, NobodyIsServingWhileNoConnectionsAreAccepted) {
  StartServer(/*reflection=*/false);
  RawStream watch(channel_, "/grpc.health.v1.Health/Watch");
  watch.Send(Asking(""));
  EXPECT_EQ(watch.Receive<Health>().status(), Health::SERVING);
  services_->SetServing(true, /*accepting=*/false);
  EXPECT_EQ(watch.Receive<Health>().status(), Health::NOT_SERVING);
  EXPECT_EQ(CheckHealth(channel_, kService), "NOT_SERVING");
  services_->SetServing(true);
  EXPECT_EQ(watch.Receive<Health>().status(), Health::SERVING);
  EXPECT_EQ(CheckHealth(channel_, kService), "SERVING");
}

TEST_F(StandardServicesTest, WatchersOfOneConnectionAreBounded) {
  StartServer(/*reflection=*/false);
  std::vector<std::unique_ptr<RawStream>> watchers;
  for (size_t i = 0; i < StandardServices::kMaxWatchersOfConnection; ++i) {
    watchers.push_back(std::make_unique<RawStream>(channel_, "/grpc.health.v1.Health/Watch"));
    watchers.back()->Send(Asking(kService));
    EXPECT_EQ(watchers.back()->Receive<Health>().status(), Health::NOT_SERVING);
  }
  EXPECT_EQ(CallRaw(channel_, "/grpc.health.v1.Health/Watch", Asking(kService).SerializeAsString())
                .status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CheckHealth(channel_, kService), "NOT_SERVING");
  // Others are not concerned, and a place is free again once somebody leaves.
  const auto other = OpenChannel();
  RawStream neighbour(other, "/grpc.health.v1.Health/Watch");
  neighbour.Send(Asking(kService));
  EXPECT_EQ(neighbour.Receive<Health>().status(), Health::NOT_SERVING);
  watchers.pop_back();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (services_->num_watchers() > StandardServices::kMaxWatchersOfConnection) {
    EXPECT_EQ(CheckHealth(channel_, kService), "NOT_SERVING");
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
}

// Whoever needs no key may not hold calls open without end by never coming to the message.
TEST_F(StandardServicesTest, OpenCallsOfOneConnectionAreBoundedAndCounted) {
  StartServer(/*reflection=*/false);
  std::vector<std::unique_ptr<RawStream>> open;
  for (size_t i = 0; i < StandardServices::kMaxCallsOfConnection; ++i) {
    open.push_back(std::make_unique<RawStream>(channel_, "/grpc.health.v1.Health/Check"));
  }
  const auto await_held = [this](size_t num_calls) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (server_->held_bytes() != num_calls * GrpcCall::kCallBytes) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  };
  EXPECT_TRUE(await_held(open.size()));
  EXPECT_EQ(CallRaw(channel_, "/grpc.health.v1.Health/Check", Asking(kService).SerializeAsString())
                .status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CheckHealth(OpenChannel(), kService), "NOT_SERVING");
  open.resize(1);
  EXPECT_TRUE(await_held(1));
  EXPECT_EQ(CheckHealth(channel_, kService), "NOT_SERVING");
}

TEST_F(StandardServicesTest, QuestionsWhoseAnswersAreNotReadWait) {
  StartServer(/*reflection=*/true);
  RawStream stream(channel_, kReflection);
  standard::ReflectionRequest request;
  request.set_file_containing_symbol(kService);
  constexpr int kNumQuestions = 2000;  // some 40 MB of answers
  for (int i = 0; i < kNumQuestions; ++i) stream.Send(request);
  for (int i = 0; i < kNumQuestions; ++i) {
    EXPECT_TRUE(stream.Receive<standard::ReflectionResponse>().has_file_descriptor_response());
    ASSERT_LT(server_->held_bytes(), size_t{1} << 20);
  }
}

TEST_F(StandardServicesTest, NamesOfServicesAreBounded) {
  StartServer(/*reflection=*/true);
  for (const char* const method :
       {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}) {
    const RawReply reply =
        CallRaw(channel_, method, Asking(std::string(201, 'x')).SerializeAsString());
    EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(reply.status.error_message(), "service: expected at most 200 bytes, got 201");
  }
  EXPECT_EQ(CallRaw(channel_, "/grpc.health.v1.Health/Check",
                    Asking(std::string(200, 'x')).SerializeAsString())
                .status.error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(StandardServicesTest, ReflectionAnswersOneQuestionAfterTheOther) {
  StartServer(/*reflection=*/true);
  RawStream stream(channel_, kReflection);
  standard::ReflectionRequest request;
  request.set_list_services("*");
  stream.Send(request);
  const auto services = stream.Receive<standard::ReflectionResponse>();
  ASSERT_EQ(services.list_services_response().service_size(), 1);
  EXPECT_EQ(services.list_services_response().service(0).name(), kService);
  request.set_file_containing_symbol(kService);
  stream.Send(request);
  EXPECT_TRUE(stream.Receive<standard::ReflectionResponse>().has_file_descriptor_response());
}

TEST_F(StandardServicesTest, WhatIsNoMethodIsUnimplemented) {
  StartServer(/*reflection=*/false);
  EXPECT_EQ(CallRaw(channel_, kReflection, "").status.error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(CallRaw(channel_, "/no.Such/Method", "").status.error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
}

TEST_F(StandardServicesTest, BytesThatAreNoMessageEndTheirCallOnly) {
  StartServer(/*reflection=*/true);
  for (const char* const method :
       {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", kReflection}) {
    EXPECT_EQ(CallRaw(channel_, method, "\xff\xff\xff").status.error_code(),
              grpc::StatusCode::INVALID_ARGUMENT)
        << method;
  }
  EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
}

}  // namespace
}  // namespace lockstep::router
