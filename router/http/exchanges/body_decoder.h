#pragma once

#include <absl/status/statusor.h>
#include <zlib.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "router/http/messages/http_request.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {

// How a body is compressed (RFC 9110, 8.4.1).
enum class ContentCoding { kIdentity, kGzip, kDeflate };

// The served codings of a request's body, for the field Accept-Encoding of a refusal.
inline constexpr std::string_view kServedCodings = "gzip, deflate";

// Parses Content-Encoding. Nothing for an unserved coding, or for several.
std::optional<ContentCoding> ParseContentCoding(std::string_view content_encoding);

// True if the body is compressed. Unserved codings were refused before the body.
inline bool IsCompressed(const HttpRequest& request) {
  return ParseContentCoding(request.content_encoding).value_or(ContentCoding::kIdentity) !=
         ContentCoding::kIdentity;
}

// Decompresses a body. Works in turns, so that a small body with large content takes no more time
// at once than other work. Counts memory before it is used. One thread at a time.
class BodyDecoder {
 public:
  // Approximate output of the first turn, and of every later one.
  static constexpr size_t kFirstTurnBytes = size_t{32} << 10;
  static constexpr size_t kTurnBytes = size_t{1} << 20;

  // `coding` must not be kIdentity. `share` counts the output, up to `max_bytes`, until the object
  // is destroyed.
  BodyDecoder(ContentCoding coding, std::string encoded, size_t max_bytes, ByteBudget::Share share);
  // For a compressed request with this body. The output counts for the tenant.
  static std::unique_ptr<BodyDecoder> Of(const HttpRequest& request, std::string body,
                                         std::string_view tenant);
  BodyDecoder(const BodyDecoder&) = delete;
  BodyDecoder& operator=(const BodyDecoder&) = delete;
  ~BodyDecoder();

  // Runs one turn. True: the body is complete. INVALID_ARGUMENT: the data is damaged. OUT_OF_RANGE:
  // more than `max_bytes`. RESOURCE_EXHAUSTED: the share grants no more.
  absl::StatusOr<bool> Turn();
  // Call when the body is complete. Its memory is counted until the object is destroyed.
  std::string TakeBody() { return std::move(body_); }

 private:
  absl::Status Begin();
  absl::Status Append(std::string_view bytes);
  // At the end of the data: checks the bytes after it.
  absl::StatusOr<bool> End();

  const ContentCoding coding_;
  const std::string encoded_;
  const size_t max_bytes_;
  ByteBudget::Share share_;
  z_stream stream_ = {};
  bool begun_ = false;
  size_t num_read_bytes_ = 0;  // of encoded_
  size_t room_ = 0;            // of body_, counted
  std::string body_;
};

}  // namespace lockstep::router
