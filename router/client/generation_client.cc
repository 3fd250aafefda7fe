#include "router/client/generation_client.h"

#include <absl/time/clock.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/grpc/credentials.h"
#include "common/status.h"
#include "lockstep/v1/generation.grpc.pb.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

constexpr int kMaxMessageBytes = 64 << 20;
// Of all messages. A million tokens with 20 log-probabilities each have less.
constexpr uint64_t kMaxAnswerBytes = uint64_t{512} << 20;

absl::Status CheckUtf8(std::string_view what, std::string_view text) {
  const std::optional<size_t> invalid = FindInvalidUtf8(text);
  if (!invalid.has_value()) return absl::OkStatus();
  return InvalidArgument("{}: byte {} is not UTF-8", what, *invalid);
}

// Protobuf sends no other text, and says so on stderr in words of its own.
absl::Status CheckUtf8(const v1::GenerateRequest& request) {
  LOCKSTEP_RETURN_IF_ERROR(CheckUtf8("the prompt", request.text()));
  for (const v1::ChatMessage& message : request.chat().messages()) {
    LOCKSTEP_RETURN_IF_ERROR(CheckUtf8("a message", message.content()));
  }
  return absl::OkStatus();
}

}  // namespace

class GenerationClient::Impl {
 public:
  Impl(std::string address, const Options& options)
      : address_(std::move(address)), api_key_(options.api_key) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    // While WaitUntilReady waits for the router to start, the channel tries again soon.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    // In spite of its name, this is how long gRPC waits for a connection before it gives up and
    // tries again. A busy machine may take seconds for it.
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    const auto credentials = MakeChannelCredentials(options.tls, arguments);
    stub_ = v1::Generation::NewStub(grpc::CreateCustomChannel(address_, credentials, arguments));
  }

  absl::Status ToStatus(const grpc::Status& status) const {
    const absl::Status converted(static_cast<absl::StatusCode>(status.error_code()),
                                 status.error_message());
    return status.error_code() == grpc::StatusCode::UNAVAILABLE
               ? Annotate(converted, "router " + address_)
               : converted;
  }

  absl::StatusOr<v1::Model> GetModel(absl::Duration timeout) {
    grpc::ClientContext context;
    ShowKey(context);
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    v1::Model model;
    const grpc::Status status = stub_->GetModel(&context, v1::GetModelRequest(), &model);
    if (!status.ok()) return ToStatus(status);
    return model;
  }

  absl::StatusOr<v1::Model> WaitUntilReady(absl::Duration timeout) {
    constexpr absl::Duration kPollInterval = absl::Milliseconds(100);
    const absl::Time deadline = absl::Now() + timeout;
    for (;;) {
      absl::StatusOr<v1::Model> model = GetModel(absl::Seconds(5));
      if (model.ok() && model->ready()) return model;
      if (!model.ok() && model.status().code() != absl::StatusCode::kUnavailable &&
          model.status().code() != absl::StatusCode::kDeadlineExceeded) {
        return model.status();
      }
      if (absl::Now() + kPollInterval > deadline) {
        return model.ok() ? Unavailable("router {}: no worker is attached", address_)
                          : model.status();
      }
      absl::SleepFor(kPollInterval);
    }
  }

  absl::StatusOr<Answer> Generate(
      const v1::GenerateRequest& request, absl::Duration timeout,
      const std::function<void(const v1::GenerateResponse&)>& on_response, std::stop_token stop) {
    LOCKSTEP_RETURN_IF_ERROR(CheckUtf8(request));
    grpc::ClientContext context;
    ShowKey(context);
    if (timeout < absl::InfiniteDuration()) {
      context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    }
    const auto reader = stub_->Generate(&context, request);
    const std::stop_callback cancel(std::move(stop), [&context] { context.TryCancel(); });
    Answer answer;
    v1::GenerateResponse response;
    absl::Status refused;  // what the server sent cannot be an answer
    uint64_t num_bytes = 0;
    while (refused.ok() && reader->Read(&response)) {
      num_bytes += response.ByteSizeLong();
      refused = num_bytes > kMaxAnswerBytes
                    ? ResourceExhausted("the answer has more than {} bytes", kMaxAnswerBytes)
                    : answer.Add(response, std::max(request.sampling().n(), 1u));
      if (refused.ok()) on_response(response);
    }
    if (!refused.ok()) context.TryCancel();
    const grpc::Status status = reader->Finish();
    if (!refused.ok()) return refused;
    if (!status.ok()) return ToStatus(status);
    if (!answer.complete()) return absl::InternalError("the stream ended before its outputs did");
    return answer;
  }

 private:
  void ShowKey(grpc::ClientContext& context) const {
    if (!api_key_.empty()) context.AddMetadata("authorization", "Bearer " + api_key_);
  }

  const std::string address_;
  const std::string api_key_;
  std::unique_ptr<v1::Generation::Stub> stub_;
};

GenerationClient::GenerationClient(std::string address, const Options& options)
    : impl_(std::make_unique<Impl>(std::move(address), options)) {}

GenerationClient::~GenerationClient() = default;

absl::StatusOr<v1::Model> GenerationClient::GetModel(absl::Duration timeout) {
  return impl_->GetModel(timeout);
}

absl::StatusOr<v1::Model> GenerationClient::WaitUntilReady(absl::Duration timeout) {
  return impl_->WaitUntilReady(timeout);
}

absl::StatusOr<Answer> GenerationClient::Generate(
    const v1::GenerateRequest& request, absl::Duration timeout,
    const std::function<void(const v1::GenerateResponse&)>& on_response, std::stop_token stop) {
  return impl_->Generate(request, timeout, on_response, std::move(stop));
}

}  // namespace lockstep::router
