#include "router/http/http_stream.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/runtime/release_memory.h"
#include "router/front/connection/request_target.h"

namespace lockstep::router {
namespace {

// Approximate memory of an open request without its body.
constexpr size_t kStreamBytes = 2 << 10;
constexpr size_t kFirstBodyBytes = 4 << 10;

uint64_t AnnouncedBytes(const HeaderList& fields) {
  const std::string_view text = fields.FindOnly("content-length");
  uint64_t num_bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), num_bytes);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? num_bytes : std::numeric_limits<uint64_t>::max();
}

HttpRequest HeaderOf(const StreamRequest& request, RequestTarget target) {
  const HeaderList& fields = request.fields;
  return {.method = std::string(fields.Find(":method")),
          .path = std::move(target.path),
          .body = {},
          .request_id = std::string(UsableRequestId(fields.Find("x-request-id"))),
          .authorization = std::string(fields.FindOnly("authorization")),
          .host = std::move(target.host),
          .origin = std::string(fields.Find("origin")),
          .content_type = std::string(fields.Find("content-type")),
          .content_encoding = fields.FindAll("content-encoding"),
          .trace = ParseTraceContext(fields.FindOnly("traceparent"), fields.FindAll("tracestate")),
          .loopback_only = request.loopback_only,
          .body_follows = !request.ends,
          .announced_body_bytes = request.ends ? 0 : AnnouncedBytes(fields),
          .home = request.home};
}

bool ExpectsContinue(const HeaderList& fields) {
  const std::string_view expectation = fields.Find("expect");
  return absl::EqualsIgnoreCase(absl::string_view(expectation.data(), expectation.size()),
                                "100-continue");
}

class HttpStream final : public StreamHandler {
 public:
  HttpStream(ConnectionContext& context, const StreamRequest& request, TargetReading target,
             std::shared_ptr<OutputSignal> signal)
      : context_(context),
        request_(HeaderOf(request, std::move(target.target))),
        path_(request_.path),
        head_only_(request_.method == "HEAD"),
        expects_continue_(ExpectsContinue(request.fields)),
        signal_(std::move(signal)),
        held_(context.memory) {
    context_.metrics.requests_in_flight->Increment();
    if (target.refusal != nullptr) {
      Refuse(400, target.refusal);
      return;
    }
    // If the header alone is refused, the body is not read.
    if (request_.body_follows) {
      request_.body_share = &held_;
      exchange_ = context_.handle(request_, signal_);
      request_.body_share = nullptr;
      if (exchange_ != nullptr) return;
    } else {
      held_.ChargeTo(&context_.memory.strangers());
    }
    if (!held_.Resize(kStreamBytes)) RefuseForMemory();
  }

  void OnBody(std::string_view bytes) override {
    if (exchange_ != nullptr) return;
    std::string& body = request_.body;
    const size_t needed = body.size() + bytes.size();
    if (needed > context_.limits.max_body_bytes) {
      return Refuse(413, fmt::format("the body is too large, at most {} bytes are read",
                                     context_.limits.max_body_bytes));
    }
    if (needed > room_) {
      // Counted before the body grows.
      const size_t room =
          std::min(context_.limits.max_body_bytes, std::max({needed, 2 * room_, kFirstBodyBytes}));
      if (!held_.Resize(kStreamBytes + room)) return RefuseForMemory();
      room_ = room;
      body.reserve(room);
    }
    body.append(bytes);
  }

  void OnBodyEnd() override {
    if (exchange_ != nullptr) return;
    request_.body_follows = false;
    request_.announced_body_bytes = 0;
    exchange_ = context_.handle(std::move(request_), signal_);
  }

  bool AwaitsContinue() const override { return expects_continue_ && exchange_ == nullptr; }

  Output Take() override {
    if (exchange_ == nullptr) return {};
    Exchange::Output taken = exchange_->Take();
    Output output;
    if (taken.empty()) return output;
    output.last = taken.last;
    output.body = std::move(taken.body);
    if (taken.head.has_value()) {
      http_status_ = taken.head->status;
      output.head = HeadOf(*taken.head, output);
    }
    if (head_only_) {
      ReleaseMemory(output.body);
      output.last = true;
    }
    return output;
  }

  void OnWritten() override { exchange_->OnWritten(); }

  void OnClosed() override {
    constexpr int kClientLeft = 499;
    context_.metrics.CountRequest(path_, http_status_ == 0 ? kClientLeft : http_status_);
    context_.metrics.requests_in_flight->Decrement();
    held_.Resize(0);
    if (exchange_ != nullptr) exchange_->Abandon();
  }

 private:
  void RefuseForMemory() { Refuse(503, "too many bytes of other requests are in transit"); }
  void Refuse(int http_status, std::string message) {
    ReleaseMemory(request_.body);
    held_.Resize(0);
    exchange_ = context_.refuse(http_status, std::move(message), signal_);
  }

  static HeaderList HeadOf(const HttpHead& head, const Output& output) {
    HeaderList fields = {{":status", fmt::format_int(head.status).str()},
                         {"server", "lockstep"},
                         {"content-type", head.content_type}};
    for (const auto& [name, value] : head.headers) {
      fields.Add(absl::AsciiStrToLower(absl::string_view(name.data(), name.size())), value);
    }
    if (output.last) fields.Add("content-length", fmt::format_int(output.body.size()).str());
    return fields;
  }

  ConnectionContext& context_;
  HttpRequest request_;
  const std::string path_;
  const bool head_only_;
  const bool expects_continue_;
  const std::shared_ptr<OutputSignal> signal_;
  ByteBudget::Share held_;              // counts the stream and its body until the end
  size_t room_ = 0;                     // for the body
  std::shared_ptr<Exchange> exchange_;  // null: the request is not complete
  int http_status_ = 0;                 // of the answer; 0: no head was taken yet
};

}  // namespace

std::shared_ptr<StreamHandler> OpenHttpStream(ConnectionContext& context,
                                              const StreamRequest& request,
                                              std::shared_ptr<OutputSignal> signal) {
  return std::make_shared<HttpStream>(context, request, ReadTarget(request.fields),
                                      std::move(signal));
}

}  // namespace lockstep::router
