#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <span>

#include "common/grpc/completion_tag.h"
#include "common/mutex.h"
#include "lockstep/v1/generation.grpc.pb.h"
#include "router/api/generate_call.h"
#include "router/grpc/grpc_loop.h"

namespace lockstep::router {

// The tenant whose key the call's metadata shows ("authorization: Bearer KEY", once).
absl::StatusOr<std::shared_ptr<const Tenant>> IdentifyCaller(const Gatekeeper& gatekeeper,
                                                             const grpc::ServerContext& context);

class GrpcGenerateCall;

// A call of Generate as gRPC has it, from listening for it to its last tag: what is given to gRPC
// and must live until gRPC is done with it. Owns itself. All tags come on the loop's thread.
class GenerateStream {
 public:
  // Listens for a call on the loop, and for the next one whenever one came. All outlive the
  // object; the loop calls must keep.
  static void Listen(ApiContext& context, lockstep::v1::Generation::AsyncService& service,
                     std::shared_ptr<GrpcLoop> loop);
  GenerateStream(const GenerateStream&) = delete;
  GenerateStream& operator=(const GenerateStream&) = delete;

  // One at a time, the message unchanged until OnWriteDone of the call. Finish once, or WriteLast,
  // and nothing behind it.
  void Write(const lockstep::v1::GenerateResponse& message, bool more_follow);
  void WriteLast(const lockstep::v1::GenerateResponse& message);
  void Finish(const absl::Status& status);
  void TryCancel() { server_context_.TryCancel(); }  // until it is over

 private:
  GenerateStream(ApiContext& context, lockstep::v1::Generation::AsyncService& service,
                 std::shared_ptr<GrpcLoop> loop);

  void OnAccepted(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnDone(bool ok);
  void DeleteIfOver();

  ApiContext& context_;
  lockstep::v1::Generation::AsyncService& service_;
  const std::shared_ptr<GrpcLoop> loop_;
  grpc::ServerContext server_context_;
  lockstep::v1::GenerateRequest request_;
  grpc::ServerAsyncWriter<lockstep::v1::GenerateResponse> writer_{&server_context_};
  MethodTag<GenerateStream> accepted_tag_{this, &GenerateStream::OnAccepted};
  MethodTag<GenerateStream> written_tag_{this, &GenerateStream::OnWritten};
  MethodTag<GenerateStream> finished_tag_{this, &GenerateStream::OnFinished};
  MethodTag<GenerateStream> done_tag_{this, &GenerateStream::OnDone};

  bool written_ = false;  // at least once; the call's strand only
  // The loop's thread only.
  std::shared_ptr<GrpcGenerateCall> call_;  // null until the caller is known
  bool finished_ = false;
  bool done_ = false;
};

// A GenerateCall over gRPC, whose strand runs on the thread of its loop.
class GrpcGenerateCall final : public GenerateCall {
 public:
  GrpcGenerateCall(ApiContext& context, const Origin& origin, GenerateStream& stream)
      : GenerateCall(context, origin), stream_(stream) {}

  // Afterwards the stream may go: whatever the call still does, it leaves the stream alone.
  void OnStreamOver();

 private:
  void StartWrite(std::span<const lockstep::v1::GenerateResponse> messages,
                  bool more_follow) override;
  void StartLastWrite(std::span<const lockstep::v1::GenerateResponse> messages) override;
  void End(const absl::Status& status) override;
  void CutOff() override;

  GenerateStream& stream_;
  Mutex mutex_;
  bool stream_over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::router
