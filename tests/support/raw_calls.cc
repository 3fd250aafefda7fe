#include "tests/support/raw_calls.h"

#include <grpcpp/generic/generic_stub.h>

#include <chrono>

#include "common/check.h"

namespace lockstep::testing {
namespace {

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.Valid() || !buffer.DumpToSingleSlice(&slice).ok()) return {};
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

bool Await(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  LOCKSTEP_CHECK(queue.Next(&tag, &ok), "the queue is open");
  return ok;
}

}  // namespace

RawReply CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                 const std::string& message, const RawMetadata& metadata) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  RawReply reply;
  call->StartCall(nullptr);
  if (Await(queue)) {
    call->Write(ToBuffer(message), nullptr);
    Await(queue);
    call->WritesDone(nullptr);
    Await(queue);
    grpc::ByteBuffer received;
    call->Read(&received, nullptr);
    if (Await(queue)) reply.first_message = ToString(received);
  }
  call->Finish(&reply.status, nullptr);
  Await(queue);
  return reply;
}

std::string CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  // HealthCheckRequest: field 1 is the service; HealthCheckResponse: field 1 is the status.
  const std::string request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  const RawReply reply = CallRaw(channel, "/grpc.health.v1.Health/Check", request);
  if (!reply.status.ok()) return reply.status.error_message();
  if (reply.first_message == std::string("\x08\x01")) return "SERVING";
  if (reply.first_message == std::string("\x08\x02")) return "NOT_SERVING";
  return "UNKNOWN";
}

}  // namespace lockstep::testing
