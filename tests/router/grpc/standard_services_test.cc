#include "router/grpc/standard_services.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/check.h"
#include "lockstep/standard/standard.pb.h"
#include "lockstep/v1/generation.pb.h"
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
    // Without this, nothing here would link the file that reflection finds.
    ASSERT_EQ(lockstep::v1::GenerateRequest::descriptor()->file()->package(), "lockstep.v1");
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

// The test is the connection.
class DirectCallsTest : public ::testing::Test {
 protected:
  DirectCallsTest() { services_.AddTo(methods_); }

  std::shared_ptr<StreamHandler> Open(const std::string& method, uint64_t connection_id = 1,
                                      const ConnectionLimiter::AddressKey& address = {}) {
    return methods_.Open(
        {.fields = {{":method", "POST"}, {":path", method}, {"content-type", "application/grpc"}},
         .connection_id = connection_id,
         .address = address},
        std::make_shared<IgnoringSignal>(), memory_);
  }

  struct IgnoringSignal final : OutputSignal {
    void OnOutput() override {}
  };
  StandardServices services_{kService, /*reflection=*/true};
  GrpcServices methods_{size_t{1} << 20};
  std::shared_ptr<ByteBudget> memory_ = std::make_shared<ByteBudget>(size_t{64} << 20);
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

TEST_F(DirectCallsTest, QuestionsThatWaitStayBytesAndAreCounted) {
  const auto call = Open(kReflection);
  const size_t num_open_bytes = memory_->held_bytes();
  // As many as a window has room for, none of whose answers is taken.
  constexpr size_t kNumQuestions = 13'107;
  const std::string empty_questions(kNumQuestions * kMessagePrefixBytes, '\0');
  call->OnBody(empty_questions);
  EXPECT_FALSE(call->WantsBody());
  EXPECT_GE(memory_->held_bytes(), empty_questions.size());
  EXPECT_LE(memory_->held_bytes(), size_t{200} << 10);
  // Taken, they are answered one after the other.
  size_t num_answers = 0;
  for (;;) {
    const StreamHandler::Output output = call->Take();
    if (output.body.empty()) break;
    for (std::string_view rest = output.body; !rest.empty(); ++num_answers) {
      rest.remove_prefix(kMessagePrefixBytes + ReadMessageSize(rest.data()));
    }
    call->OnWritten();
  }
  EXPECT_EQ(num_answers, kNumQuestions);
  EXPECT_TRUE(call->WantsBody());
  EXPECT_EQ(memory_->held_bytes(), num_open_bytes);
  call->OnClosed();
}

TEST_F(DirectCallsTest, QuestionsWithoutRoomEndTheCall) {
  memory_ = std::make_shared<ByteBudget>(size_t{40} << 10);
  const auto call = Open(kReflection);
  const size_t num_open_bytes = memory_->held_bytes();
  call->OnBody(std::string(size_t{64} << 10, '\0'));
  EXPECT_FALSE(call->Take().trailers.Find("grpc-status").empty());
  call->OnWritten();
  EXPECT_EQ(memory_->held_bytes(), num_open_bytes);
  call->OnClosed();
}

TEST_F(DirectCallsTest, WatchersOfOneAddressAreBounded) {
  std::vector<std::shared_ptr<StreamHandler>> watchers;
  const auto watch = [this](uint64_t connection_id, uint8_t address) {
    auto call = Open("/grpc.health.v1.Health/Watch", connection_id, {127, 0, 0, address});
    call->OnBody(std::string(kMessagePrefixBytes, '\0'));
    return call;
  };
  const auto is_refused = [](StreamHandler& call) { return call.Take().last; };
  for (size_t i = 0; i < StandardServices::kMaxWatchersOfAddress; ++i) {
    watchers.push_back(watch(i / StandardServices::kMaxWatchersOfConnection, 1));
    ASSERT_FALSE(is_refused(*watchers.back()));
  }
  EXPECT_TRUE(is_refused(*watch(1000, 1)));
  const auto other = watch(1001, 2);
  EXPECT_FALSE(is_refused(*other));
  watchers.back()->OnClosed();
  watchers.back() = watch(1000, 1);
  EXPECT_FALSE(is_refused(*watchers.back()));
  EXPECT_EQ(services_.num_watchers(), StandardServices::kMaxWatchersOfAddress + 1);
  other->OnClosed();
  for (const auto& watcher : watchers) watcher->OnClosed();
  EXPECT_EQ(services_.num_watchers(), 0u);
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
  ASSERT_EQ(services.list_services_response().service_size(), 2);
  EXPECT_EQ(services.list_services_response().service(0).name(), kService);
  EXPECT_EQ(services.list_services_response().service(1).name(), "grpc.health.v1.Health");
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
