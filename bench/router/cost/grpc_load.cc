#include "bench/router/cost/grpc_load.h"

#include <fmt/format.h>

#include <utility>

#include "tests/rigs/instant_worker/pacing.h"

namespace lockstep::bench {
namespace {

namespace v1 = lockstep::v1;

v1::GenerateRequest MakeRequest(const StreamShape& shape, uint32_t index) {
  v1::GenerateRequest request;
  if (shape.as_text) {
    request.set_text(PromptText(shape, index));
  } else {
    const std::vector<uint32_t> tokens = PromptTokens(shape, index);
    request.mutable_token_ids()->mutable_ids()->Assign(tokens.begin(), tokens.end());
  }
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_max_tokens(shape.num_output_tokens);
  request.mutable_stop()->set_ignore_eos(true);
  return request;
}

}  // namespace

class GrpcLoad::Stream final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Stream(v1::Generation::Stub& stub, const StreamShape& shape, uint32_t index, LoadRecord& record)
      : record_(record), request_(MakeRequest(shape, index)), start_(Clock::now()) {
    stub.async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (response_.has_delta()) {
      const int num_tokens = response_.delta().token_ids_size();
      if (first_) record_.AddFirstTokenTime(SecondsSince(start_));
      record_.AddChunks(1, static_cast<uint64_t>(num_tokens), std::exchange(first_, false));
    }
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    if (status.ok()) {
      record_.AddEnd(0);
    } else {
      record_.AddFailure(fmt::format("a stream ended with code {}: {}",
                                     static_cast<int>(status.error_code()),
                                     status.error_message()));
    }
    MutexLock lock(mutex_);
    done_ = true;
    ended_.NotifyAll();
  }

  void Cancel() { context_.TryCancel(); }
  void WaitForEnd() {
    MutexLock lock(mutex_);
    while (!done_) ended_.Wait(mutex_);
  }

 private:
  LoadRecord& record_;
  const v1::GenerateRequest request_;
  const Clock::time_point start_;
  grpc::ClientContext context_;
  v1::GenerateResponse response_;
  bool first_ = true;
  Mutex mutex_;
  CondVar ended_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

GrpcLoad::GrpcLoad(const std::string& address, uint32_t num_connections) {
  for (uint32_t i = 0; i < num_connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel =
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    stubs_.push_back(v1::Generation::NewStub(channel));
    channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
}

GrpcLoad::~GrpcLoad() {
  for (const auto& stream : streams_) stream->Cancel();
  for (const auto& stream : streams_) stream->WaitForEnd();
}

void GrpcLoad::Open(const StreamShape& shape) {
  const auto index = static_cast<uint32_t>(streams_.size());
  streams_.push_back(
      std::make_unique<Stream>(*stubs_[index % stubs_.size()], shape, index, record_));
}

}  // namespace lockstep::bench
