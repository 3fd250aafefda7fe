#include "cli/bench/load/grpc_transport.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/runtime/mutex.h"
#include "common/shown_text.h"
#include "lockstep/v1/generation.grpc.pb.h"

namespace lockstep::cli {
namespace {

namespace v1 = lockstep::v1;

class GrpcTransport final : public Transport {
 public:
  GrpcTransport(const std::string& address, TransportOptions options, const LoadClock& clock)
      : options_(std::move(options)), clock_(clock) {
    for (uint32_t i = 0; i < options_.num_threads; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs_.push_back(v1::Generation::NewStub(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments)));
    }
  }
  ~GrpcTransport() override {
    GrpcTransport::Abandon();
    MutexLock lock(mutex_);
    while (!calls_.empty()) changed_.Wait(mutex_);
  }

  void Send(BenchRequest request, double scheduled, Done done) override {
    auto* const call = new Call(*this, request, scheduled, std::move(done));
    {
      MutexLock lock(mutex_);
      calls_.insert(call);
    }
    call->Start(*stubs_[next_++ % stubs_.size()]);
  }
  void Abandon() override {
    MutexLock lock(mutex_);
    for (Call* const call : calls_) call->Cancel();
  }
  // The threads are gRPC's own.
  std::vector<double> ThreadSeconds() const override { return {}; }

 private:
  class Call final : public grpc::ClientReadReactor<v1::GenerateResponse> {
   public:
    Call(GrpcTransport& owner, const BenchRequest& request, double scheduled, Done done)
        : owner_(owner),
          request_(ToGenerateRequest(request, owner.options_.sampling)),
          done_(std::move(done)) {
      record_.scheduled = scheduled;
      if (!owner.options_.api_key.empty()) {
        context_.AddMetadata("authorization", "Bearer " + owner.options_.api_key);
      }
      context_.set_deadline(
          std::chrono::system_clock::now() +
          std::chrono::microseconds(static_cast<int64_t>(owner.options_.timeout_seconds * 1e6)));
    }
    void Start(v1::Generation::Stub& stub) {
      record_.sent = owner_.clock_.Now();
      stub.async()->Generate(&context_, &request_, this);
      StartRead(&response_);
      StartCall();
    }
    void Cancel() { context_.TryCancel(); }

    void OnReadDone(bool ok) override {
      if (!ok) return;
      if (response_.has_delta() && response_.delta().token_ids_size() > 0) {
        record_.pieces.push_back(owner_.clock_.Now());
        if (record_.pieces.size() > kMaxPieces) Cancel();
      }
      if (response_.has_finish()) {
        record_.prompt_tokens = response_.finish().usage().prompt_tokens();
        record_.output_tokens = response_.finish().usage().completion_tokens();
        record_.cached_tokens = response_.finish().usage().cached_tokens();
        finished_ = true;
      }
      StartRead(&response_);
    }
    void OnDone(const grpc::Status& status) override {
      record_.end = owner_.clock_.Now();
      if (!status.ok()) {
        record_.error = fmt::format("gRPC {}: {}", static_cast<int>(status.error_code()),
                                    status.error_message());
      } else if (!finished_) {
        record_.error = "the stream broke off";
      }
      record_.error = OneLine(record_.error, kMaxShownErrorBytes);
      done_(std::move(record_));
      owner_.Remove(this);
    }

   private:
    GrpcTransport& owner_;
    const v1::GenerateRequest request_;
    Done done_;
    RequestRecord record_;
    grpc::ClientContext context_;
    v1::GenerateResponse response_;
    bool finished_ = false;
  };

  void Remove(Call* call) {
    MutexLock lock(mutex_);
    calls_.erase(call);
    delete call;
    changed_.NotifyAll();
  }

  const TransportOptions options_;
  const LoadClock& clock_;
  std::vector<std::unique_ptr<v1::Generation::Stub>> stubs_;
  std::atomic<uint64_t> next_{0};
  Mutex mutex_;
  CondVar changed_;
  std::unordered_set<Call*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

v1::GenerateRequest ToGenerateRequest(const BenchRequest& request,
                                      const SamplingNumbers& sampling) {
  v1::GenerateRequest to;
  if (request.messages.empty()) {
    to.mutable_token_ids()->mutable_ids()->Assign(request.token_ids.begin(),
                                                  request.token_ids.end());
  }
  for (const BenchMessage& message : request.messages) {
    v1::ChatMessage& added = *to.mutable_chat()->add_messages();
    added.set_role(message.role);
    added.set_content(message.content);
  }
  v1::SamplingParams& params = *to.mutable_sampling();
  params.set_temperature(sampling.temperature);
  params.set_top_p(sampling.top_p);
  params.set_top_k(sampling.top_k);
  to.mutable_stop()->set_max_tokens(request.max_tokens);
  to.mutable_stop()->set_ignore_eos(true);
  return to;
}

std::unique_ptr<Transport> MakeGrpcTransport(const std::string& address,
                                             const TransportOptions& options,
                                             const LoadClock& clock) {
  return std::make_unique<GrpcTransport>(address, options, clock);
}

}  // namespace lockstep::cli
