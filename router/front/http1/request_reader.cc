#include "router/front/http1/request_reader.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <utility>

#include "common/check.h"
#include "common/net/http_error.h"
#include "common/status.h"
#include "router/front/connection/header_list.h"
#include "router/front/connection/request_target.h"
#include "router/front/http1/chunk_extensions.h"

namespace lockstep::router {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr uint32_t kMaxHeaderBytes = 16 << 10;
constexpr size_t kReadBytes = 4 << 10;
constexpr size_t kChunkedReadBytes = 8 << 10;
constexpr size_t kMaxReadBytes = 64 << 10;
// Empty lines allowed before a request. Some clients send one after a request's body.
constexpr int kMaxEmptyLines = 8;

std::string_view View(boost::string_view text) { return {text.data(), text.size()}; }

// True if every line ends in CR LF and no line is folded. `lines` are whole lines of a header.
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

// Why servers could interpret the header differently; null: they cannot.
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

void CheckChunkHeader(uint64_t, boost::string_view extensions, error_code& error) {
  if (!AreChunkExtensions(View(extensions))) error = http::error::bad_chunk_extension;
}

std::string AllOf(const http::header<true>& header, http::field name) {
  HeaderList values;
  const auto [begin, end] = header.equal_range(name);
  for (auto field = begin; field != end; ++field) values.Add("", View(field->value()));
  return values.FindAll("");
}

// True if the unread bytes of a chunked body begin with a good chunk line, or with part of a line.
// Needed because the parser searches for the end of a quoted value beyond its line.
bool BeginsAChunk(std::string_view unread) {
  if (unread.starts_with("\r\n")) unread.remove_prefix(2);  // ends the previous chunk
  const size_t end = unread.find("\r\n");
  if (end == std::string_view::npos) return true;
  const std::string_view line = unread.substr(0, end);
  return AreChunkExtensions(
      line.substr(std::min(line.find_first_not_of("0123456789abcdefABCDEF"), end)));
}

// For HTTP/1.0, where Beast lets "keep-alive" win over "close" (RFC 9112, 9.3).
bool AsksToClose(const http::header<true>& header) {
  const std::string options = AllOf(header, http::field::connection);
  return http::token_list(boost::string_view(options)).exists("close");
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
  // The tenant is not known before the header is complete.
  if (pending_header_.Resize(state == State::kHeader ? buffer_.size() : 0)) return state;
  return Refuse(503, "too many bytes of other requests are in transit");
}

RequestReader::State RequestReader::Read() {
  while (buffer_.size() > 0) {
    if (!parser_.has_value()) {
      if (!SkipEmptyLines()) return Current();
      parser_.emplace();
      parser_->on_chunk_header(CheckChunkHeader);
      parser_->header_limit(kMaxHeaderBytes);
      parser_->body_limit(max_body_bytes_);
    }
    const State state = Current();
    if (state == State::kRequest || state == State::kRefused) return state;
    const bool in_header = !parser_->is_header_done();
    const bool chunked_body = state == State::kBody && parser_->chunked();
    error_code error;
    const size_t num_taken = parser_->put(buffer_.data(), error);
    const std::string_view taken = Unread().substr(0, num_taken);
    // The end of a chunked body may contain trailer fields. Chunks themselves are parsed by other
    // calls.
    const bool has_fields = in_header || (chunked_body && !error && parser_->is_done());
    if (has_fields && !HasPlainLines(taken)) {
      return Refuse(400, "of a header, lines that end in CR LF are taken, none of them folded");
    }
    buffer_.consume(num_taken);
    if (error == http::error::need_more) {
      const bool between_chunks = parser_->is_header_done() && parser_->chunked();
      if (between_chunks && !BeginsAChunk(Unread())) {
        return RefuseUnread(http::error::bad_chunk_extension);
      }
      // The parser does not limit the lines of a chunked body.
      if (buffer_.size() >= kMaxHeaderBytes) return RefuseUnread(http::error::header_limit);
      return Current();
    }
    if (error) return RefuseUnread(error);
    if (state == State::kBody || !parser_->is_header_done()) continue;
    if (!OnHeader()) break;
    return State::kOpens;
  }
  return Current();
}

// False if no byte of a request is there yet, or if there were too many empty lines.
bool RequestReader::SkipEmptyLines() {
  const std::string_view unread = Unread();
  size_t num_bytes = 0;
  while (unread.substr(num_bytes).starts_with("\r\n")) {
    num_bytes += 2;
    if (++num_empty_lines_ <= kMaxEmptyLines) continue;
    Refuse(400, "too many empty lines come before a request");
    return false;
  }
  const bool begins = num_bytes < unread.size() && unread.substr(num_bytes) != "\r";
  buffer_.consume(num_bytes);
  return begins;
}

// False when the request is refused.
bool RequestReader::OnHeader() {
  const auto& header = parser_->get();
  // A proxy might see a different end of such a request.
  if (const char* const why = AmbiguityOf(header, parser_->chunked())) {
    Refuse(400, why);
    return false;
  }
  const bool has_host = header.count(http::field::host) > 0;
  const bool http_1_0 = header.version() < 11;
  const TargetReading reading = ReadTarget(
      View(header.method_string()), View(header.target()),
      has_host ? std::optional(View(header[http::field::host])) : std::nullopt, http_1_0);
  if (reading.refusal != nullptr) {
    Refuse(400, reading.refusal);
    return false;
  }
  request_ = ReadHeader(reading.target);
  return true;
}

RequestReader::Request RequestReader::ReadHeader(const RequestTarget& target) const {
  const auto& message = parser_->get();
  HeaderList fields = {{":method", View(message.method_string())}, {":path", target.path}};
  if (!target.host.empty()) fields.Add(":authority", target.host);
  for (const auto& field : message) {
    if (field.name() == http::field::host) continue;
    fields.AddLowered(View(field.name_string()), View(field.value()));
  }
  return {.header = {.fields = std::move(fields), .ends = parser_->is_done()},
          .keep_alive = message.keep_alive() && !AsksToClose(message),
          .http_1_0 = message.version() < 11};
}

void RequestReader::StartNext() {
  parser_.reset();
  num_empty_lines_ = 0;
  if (buffer_.size() == 0) buffer_ = beast::flat_buffer();
}

RequestReader::State RequestReader::Refuse(int http_status, std::string message) {
  const bool head_only = parser_.has_value() && parser_->get().method() == http::verb::head;
  refusal_ = {.http_status = http_status, .message = std::move(message), .head_only = head_only};
  parser_.reset();
  pending_header_.Resize(0);
  return State::kRefused;
}

RequestReader::State RequestReader::RefuseUnread(const error_code& error) {
  if (error == http::error::header_limit) {
    // The parser does not consume an incomplete header, so a long first line is still unread.
    const bool in_target =
        parser_->get().target().empty() && Unread().find("\r\n") >= kMaxHeaderBytes;
    return in_target ? Refuse(414, "the target is too long")
                     : Refuse(431, "the header is too large");
  }
  if (error == http::error::body_limit) {
    return Refuse(413,
                  fmt::format("the body is too large, at most {} bytes are read", max_body_bytes_));
  }
  LOCKSTEP_CHECK(IsMalformedHttp(error), "parsing fails for what was sent: {}", error.message());
  return Refuse(400, "this is no HTTP/1.1 request");
}

}  // namespace lockstep::router
