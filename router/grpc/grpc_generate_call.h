#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/runtime/mutex.h"
#include "lockstep/v1/generation.pb.h"
#include "router/grpc/grpc_services.h"
#include "router/serving/calls/call_door.h"
#include "router/serving/calls/generate_call.h"

namespace lockstep::router {

// Finds the tenant by the key in the call's metadata (one "authorization: Bearer KEY").
absl::StatusOr<std::shared_ptr<const Tenant>> IdentifyCaller(const Gatekeeper& gatekeeper,
                                                             const HeaderList& fields);

class GrpcGenerateCall;

// A Generate call on its connection, until it ends there. Large requests are parsed on the encode
// pool, which runs this strand.
class GenerateStream final : public GrpcCall,
                             public Strand,
                             public std::enable_shared_from_this<GenerateStream> {
 public:
  // `context` must outlive the object.
  static std::shared_ptr<GenerateStream> Open(ApiContext& context, GrpcCallStart start);
  GenerateStream(ApiContext& context, GrpcCallStart start);

  void RunStrand() override;
  std::string_view owner() const override { return door_.tenant_name(); }
  size_t num_work_bytes() const override { return num_message_bytes_; }

 private:
  friend class GrpcGenerateCall;

  void Identify(const HeaderList& fields);
  void BeginTrace(const HeaderList& fields);
  // Ends the stream of a request that the door refused.
  void FinishRefused(const absl::Status& status);
  void OnMessage(Message message) override;
  void OnHalfClose() override;
  void OnSent(bool awaited) override;
  void OnOver(bool finished) override;
  // No more is expected from the call.
  void Forget();
  std::shared_ptr<GrpcGenerateCall> call() const {
    MutexLock lock(call_mutex_);
    return call_;
  }

  ApiContext& context_;
  const std::shared_ptr<ByteBudget> memory_;
  const Instant deadline_;
  const std::shared_ptr<StrandRunner> connection_runner_;
  CallDoor door_;
  bool has_message_ = false;
  size_t num_message_bytes_ = 0;

  mutable Mutex call_mutex_;
  Message message_ ABSL_GUARDED_BY(call_mutex_);  // until it is parsed or the client is gone
  bool over_ ABSL_GUARDED_BY(call_mutex_) = false;
  std::shared_ptr<GrpcGenerateCall> call_ ABSL_GUARDED_BY(call_mutex_);  // null: not begun, or over
};

// A GenerateCall over gRPC. Its stream may end before it.
class GrpcGenerateCall final : public GenerateCall {
 public:
  GrpcGenerateCall(ApiContext& context, Origin origin, std::weak_ptr<GenerateStream> stream)
      : GenerateCall(context, std::move(origin)), stream_(std::move(stream)) {}

 private:
  void StartWrite(std::vector<lockstep::v1::GenerateResponse> messages) override;
  absl::StatusCode StartLastWrite(std::vector<lockstep::v1::GenerateResponse> messages) override;
  void End(const absl::Status& status) override;

  const std::weak_ptr<GenerateStream> stream_;
};

}  // namespace lockstep::router
