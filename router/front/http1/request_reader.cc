#include "router/front/http1/request_reader.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <limits>
#include <utility>

#include "common/check.h"
#include "common/net/http_error.h"
#include "common/status.h"
#include "router/front/connection/header_list.h"

namespace lockstep::router {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr uint32_t kMaxHeaderBytes = 16 << 10;
constexpr size_t kReadBytes = 4 << 10;
constexpr size_t kChunkedReadBytes = 8 << 10;
constexpr size_t kMaxReadBytes = 64 << 10;
constexpr size_t kFirstBodyBytes = 4 << 10;

std::string_view View(boost::string_view text) { return {text.data(), text.size()}; }

// Whether every line ends in CR LF, and none goes on in the next one. `lines` are whole lines of a
// header; the parser takes them so.
bool HasPlainLines(std::string_view lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] == '\n' && (i == 0 || lines[i - 1] != '\r')) return false;
    if (lines[i] != '\r') continue;
    if (i + 1 == lines.size() || lines[i + 1] != '\n') return false;
    const bool folded = i + 2 < lines.size() && (lines[i + 2] == ' ' || lines[i + 2] == '\t');
    if (folded) return false;
  }
  return lines.empty() || (lines.front() != ' ' && lines.front() != '\t');
}

// Null: the header is read alike by everybody.
const char* AmbiguityOf(const http::header<true>& header, bool chunked) {
  const size_t num_codings = header.count(http::field::transfer_encoding);
  if (num_codings > 0 && (header.version() < 11 || !chunked || num_codings > 1 ||
                          !beast::iequals(header[http::field::transfer_encoding], "chunked"))) {
    return "of transfer encodings, chunked alone is taken, in HTTP/1.1";
  }
  const size_t num_lengths = header.count(http::field::content_length);
  if (num_lengths > 0 && num_codings > 0)
    return "a length and a transfer encoding exclude each other";
  if (num_lengths > 1 ||
      header[http::field::content_length].find(',') != boost::string_view::npos) {
    return "one content length is taken";
  }
  if (header.count(http::field::host) > 1) return "one host is taken";
  return nullptr;
}

std::optional<TraceContext> TraceOf(const http::header<true>& header) {
  constexpr const char* kParent = "traceparent";
  constexpr const char* kState = "tracestate";
  // Of two parents nobody could say which one counts.
  if (header.count(kParent) != 1) return std::nullopt;
  HeaderList states;
  const auto [begin, end] = header.equal_range(kState);
  for (auto field = begin; field != end; ++field) states.Add(kState, View(field->value()));
  return ParseTraceContext(View(header[kParent]), states.FindAll(kState));
}

}  // namespace

boost::asio::mutable_buffer RequestReader::Prepare() {
  size_t num_bytes = kReadBytes;
  if (parser_.has_value() && parser_->is_header_done()) {
    const auto remaining = parser_->content_length_remaining();
    num_bytes =
        remaining ? static_cast<size_t>(std::clamp<uint64_t>(*remaining, kReadBytes, kMaxReadBytes))
                  : kChunkedReadBytes;
  }
  return buffer_.prepare(num_bytes);
}

RequestReader::State RequestReader::Current() const {
  if (refusal_.http_status != 0) return State::kRefused;
  if (!parser_.has_value()) return State::kNothing;
  if (parser_->is_done()) return State::kRequest;
  return parser_->is_header_done() ? State::kBody : State::kHeader;
}

RequestReader::State RequestReader::Advance() {
  const State state = Read();
  // Nobody knows yet whose header it is.
  if (pending_header_.Resize(state == State::kHeader ? buffer_.size() : 0)) return state;
  return Refuse(503, "too many bytes of other requests are in transit");
}

RequestReader::State RequestReader::Read() {
  while (buffer_.size() > 0) {
    if (!parser_.has_value()) {
      parser_.emplace();
      parser_->header_limit(kMaxHeaderBytes);
      parser_->body_limit(max_body_bytes_);
    }
    const State state = Current();
    if (state == State::kRequest || state == State::kRefused) return state;
    if (state == State::kBody && !MakeRoom()) {
      return Refuse(503, "too many bytes of other requests are in transit");
    }
    const bool in_header = !parser_->is_header_done();
    const bool chunked_body = state == State::kBody && parser_->chunked();
    error_code error;
    const size_t num_taken = parser_->put(buffer_.data(), error);
    const std::string_view taken(static_cast<const char*>(buffer_.data().data()), num_taken);
    // The last of a chunked body is what may be fields; chunks themselves end elsewhere.
    const bool has_fields = in_header || (chunked_body && !error && parser_->is_done());
    if (has_fields && !HasPlainLines(taken)) {
      return Refuse(400, "of a header, lines that end in CR LF are taken, none of them folded");
    }
    buffer_.consume(num_taken);
    if (error == http::error::need_more) {
      // Lines of a chunked body have no limit of their own.
      if (buffer_.size() >= kMaxHeaderBytes) return RefuseUnread(http::error::header_limit);
      return Current();
    }
    if (error) return RefuseUnread(error);
    if (state == State::kBody || !parser_->is_header_done()) continue;
    if (!OnHeader()) break;
    if (!parser_->is_done()) return State::kBodyFollows;
  }
  return Current();
}

// False when the request is refused.
bool RequestReader::OnHeader() {
  const auto& header = parser_->get();
  // Whoever stands before this server might find the end of such a request elsewhere.
  if (const char* const why = AmbiguityOf(header, parser_->chunked())) {
    Refuse(400, why);
    return false;
  }
  header_ = ReadHeader();
  expects_continue_ =
      !parser_->is_done() && beast::iequals(header[http::field::expect], "100-continue");
  return true;
}

// For the bytes that came, or up to twice what the body has: it is counted before it grows.
bool RequestReader::MakeRoom() {
  std::string& body = parser_->get().body();
  const size_t needed = body.size() + buffer_.size();
  if (needed <= share_.bytes()) return true;
  const auto announced = parser_->content_length();
  const size_t most = announced ? static_cast<size_t>(*announced) : max_body_bytes_;
  const size_t room = std::min(most, std::max({needed, 2 * share_.bytes(), kFirstBodyBytes}));
  if (room <= share_.bytes()) return true;  // what came besides is another request's
  if (!share_.Resize(room)) return false;
  body.reserve(room);
  return true;
}

RequestReader::Request RequestReader::ReadHeader() const {
  const http::request<ArrivingBody>& message = parser_->get();
  const std::string_view target = View(message.target());
  const auto length = parser_->content_length();
  const uint64_t announced_bytes = length ? *length : std::numeric_limits<uint64_t>::max();
  // Of two authorizations nobody could say which one counts.
  return {
      .http = {.method = std::string(View(message.method_string())),
               .path = std::string(target.substr(0, target.find('?'))),
               .body = {},
               .request_id = std::string(UsableRequestId(View(message["x-request-id"]))),
               .authorization = std::string(message.count(http::field::authorization) == 1
                                                ? View(message[http::field::authorization])
                                                : std::string_view()),
               .host = std::string(View(message[http::field::host])),
               .origin = std::string(View(message[http::field::origin])),
               .content_type = std::string(View(message[http::field::content_type])),
               .trace = TraceOf(message),
               .body_follows = !parser_->is_done(),
               .announced_body_bytes = parser_->is_done() ? 0 : announced_bytes},
      .keep_alive = message.keep_alive(),
      .http_1_0 = message.version() < 11,
      .head_only = message.method() == http::verb::head,
  };
}

RequestReader::Request RequestReader::Take() {
  Request request = std::exchange(header_, Request());
  request.http.body_follows = false;
  request.http.announced_body_bytes = 0;
  request.http.body = std::move(parser_->get().body());
  parser_.reset();
  expects_continue_ = false;
  if (buffer_.size() == 0) buffer_ = beast::flat_buffer();
  return request;
}

RequestReader::State RequestReader::Refuse(int http_status, std::string message) {
  refusal_ = {.http_status = http_status, .message = std::move(message)};
  parser_.reset();
  share_.Resize(0);
  pending_header_.Resize(0);
  return State::kRefused;
}

RequestReader::State RequestReader::RefuseUnread(const error_code& error) {
  if (error == http::error::header_limit) return Refuse(431, "the header is too large");
  if (error == http::error::body_limit) {
    return Refuse(413,
                  fmt::format("the body is too large, at most {} bytes are read", max_body_bytes_));
  }
  LOCKSTEP_CHECK(IsMalformedHttp(error), "parsing fails for what was sent: {}", error.message());
  return Refuse(400, "this is no HTTP/1.1 request");
}

}  // namespace lockstep::router
