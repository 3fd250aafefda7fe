#include "router/http/http_stream.h"

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

#include "common/ids.h"
#include "common/runtime/release_memory.h"
#include "router/front/connection/request_target.h"
#include "router/http/exchanges/reply_exchange.h"

namespace lockstep::router {
namespace {

// Approximate memory of one of many requests that a connection has open, without its body.
constexpr size_t kStreamBytes = 2 << 10;
constexpr size_t kFirstBodyBytes = 4 << 10;

// The value of a header with an id, if it has at most 256 bytes that all satisfy IsIdCharacter.
std::string_view UsableId(std::string_view header) {
  constexpr size_t kMaxBytes = 256;
  const bool usable =
      header.size() <= kMaxBytes && std::all_of(header.begin(), header.end(), IsIdCharacter);
  return usable ? header : std::string_view();
}

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
          .request_id = std::string(UsableId(fields.Find("x-request-id"))),
          // Several keys, joined, are nobody's.
          .authorization = fields.FindAll("authorization"),
          .api_key = fields.FindAll("x-api-key"),
          .session_id = std::string(UsableId(fields.Find("x-claude-code-session-id"))),
          .host = std::move(target.host),
          .origin = std::string(fields.Find("origin")),
          .content_type = std::string(fields.Find("content-type")),
          .content_encoding = fields.FindAll("content-encoding"),
          .trace = ParseTraceContext(fields.FindOnly("traceparent"), fields.FindAll("tracestate")),
          .loopback_only = request.loopback_only,
          .body_follows = !request.ends,
          .announced_body_bytes = request.ends ? 0 : AnnouncedBytes(fields),
          .connection_runner = request.connection_runner};
}

bool ExpectsContinue(const HeaderList& fields) {
  const std::string_view expectation = fields.Find("expect");
  return absl::EqualsIgnoreCase(absl::string_view(expectation.data(), expectation.size()),
                                "100-continue");
}

class HttpStream final : public StreamHandler {
 public:
  HttpStream(const HttpStreamContext& context, const StreamRequest& request, TargetReading target,
             std::shared_ptr<OutputSignal> signal)
      : context_(context),
        request_(HeaderOf(request, std::move(target.target))),
        path_(request_.path),
        head_only_(request_.method == "HEAD"),
        expects_continue_(ExpectsContinue(request.fields)),
        num_stream_bytes_(request.http2 ? kStreamBytes : 0),
        signal_(std::move(signal)),
        held_(context.memory) {
    // Over HTTP/1.1 a request counts once it is complete.
    if (request.http2) Count();
    if (request.refusal.has_value()) {
      Refuse(request.refusal->http_status, request.refusal->message);
    } else if (target.refusal != nullptr) {
      Refuse(400, target.refusal);
    } else {
      Begin();
    }
  }

  void OnBody(std::string_view bytes) override {
    if (exchange_ != nullptr) return;
    std::string& body = request_.body;
    const size_t needed = body.size() + bytes.size();
    if (needed > context_.max_body_bytes) {
      return Refuse(413, fmt::format("the body is too large, at most {} bytes are read",
                                     context_.max_body_bytes));
    }
    if (needed > room_) {
      // Counted before the body grows. What is announced and has not come takes nothing.
      const size_t most = static_cast<size_t>(
          std::min<uint64_t>(context_.max_body_bytes, request_.announced_body_bytes));
      const size_t room = std::max(needed, std::min(most, std::max(2 * room_, kFirstBodyBytes)));
      if (!held_.Resize(num_stream_bytes_ + room)) return RefuseForMemory();
      room_ = room;
      body.reserve(room);
    }
    body.append(bytes);
  }

  void OnBodyEnd() override {
    if (exchange_ != nullptr) return;
    request_.body_follows = false;
    request_.announced_body_bytes = 0;
    Count();
    exchange_ = context_.handle(std::move(request_), signal_);
  }

  bool AwaitsContinue() const override { return expects_continue_ && exchange_ == nullptr; }

  Output Take() override {
    if (exchange_ == nullptr) return {};
    Output output = exchange_->Take();
    if (output.head.has_value()) {
      http_status_ = StatusOf(*output.head);
      if (output.last) {
        output.head->Add("content-length", fmt::format_int(output.body.size()).str());
      }
    }
    if (head_only_ && !output.empty()) {
      ReleaseMemory(output.body);
      output.last = true;
    }
    return output;
  }

  void OnWritten() override { exchange_->OnWritten(); }

  void OnClosed() override {
    constexpr int kClientLeft = 499;
    if (counted_) {
      context_.metrics.CountRequest(path_, http_status_ == 0 ? kClientLeft : http_status_);
      context_.metrics.requests_in_flight->Decrement();
    }
    held_.Resize(0);
    if (exchange_ != nullptr) exchange_->OnClosed();
  }

 private:
  void Begin() {
    request_.max_body_bytes = context_.max_body_bytes;
    request_.answer = context_.answer;
    // If the header alone is refused, the body is not read.
    if (request_.body_follows) {
      request_.body_share = &held_;
      exchange_ = context_.handle(request_, signal_);
      request_.body_share = nullptr;
      if (exchange_ != nullptr) return Count();
    } else {
      held_.ChargeTo(&context_.memory.strangers());
    }
    if (!held_.Resize(num_stream_bytes_)) RefuseForMemory();
  }
  void Count() {
    if (std::exchange(counted_, true)) return;
    context_.metrics.requests_in_flight->Increment();
  }
  void RefuseForMemory() { Refuse(503, "too many bytes of other requests are in transit"); }
  void Refuse(int http_status, std::string message) {
    ReleaseMemory(request_.body);
    held_.Resize(0);
    Count();
    exchange_ = context_.refuse == nullptr
                    ? Refusal(http_status, std::move(message), signal_)
                    : context_.refuse(request_, http_status, std::move(message), signal_);
  }

  const HttpStreamContext& context_;
  HttpRequest request_;
  const std::string path_;
  const bool head_only_;
  const bool expects_continue_;
  const size_t num_stream_bytes_;
  const std::shared_ptr<OutputSignal> signal_;
  ByteBudget::Share held_;              // counts the stream and its body until the end
  size_t room_ = 0;                     // for the body
  std::shared_ptr<Exchange> exchange_;  // null: the request is not complete
  bool counted_ = false;                // the metrics know the request
  int http_status_ = 0;                 // of the answer; 0: no head was taken yet
};

}  // namespace

std::shared_ptr<StreamHandler> OpenHttpStream(const HttpStreamContext& context,
                                              const StreamRequest& request,
                                              std::shared_ptr<OutputSignal> signal) {
  return std::make_shared<HttpStream>(context, request, ReadTarget(request.fields),
                                      std::move(signal));
}

}  // namespace lockstep::router
