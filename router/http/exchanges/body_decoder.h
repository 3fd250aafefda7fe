#pragma once

#include <absl/status/statusor.h>
#include <zlib.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "router/front/connection/exchange.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {

// How a body is compressed (RFC 9110, 8.4.1).
enum class ContentCoding { kIdentity, kGzip, kDeflate };

// The codings of a request's body that are served, as the field Accept-Encoding of a refusal lists
// them.
inline constexpr std::string_view kServedCodings = "gzip, deflate";

// From the value of Content-Encoding. Nothing: a coding that is not served, or several.
std::optional<ContentCoding> ParseContentCoding(std::string_view content_encoding);

// Other codings than these were refused before the body.
inline bool IsCompressed(const HttpRequest& request) {
  return ParseContentCoding(request.content_encoding).value_or(ContentCoding::kIdentity) !=
         ContentCoding::kIdentity;
}

// A compressed body on its way back to what it was. It works in turns, so that a body which is
// small on the wire and large behind it takes no more time at once than other work, and counts what
// it makes before it makes it. One thread at a time.
class BodyDecoder {
 public:
  // About what the first turn makes, and every other one.
  static constexpr size_t kFirstTurnBytes = size_t{32} << 10;
  static constexpr size_t kTurnBytes = size_t{1} << 20;

  // `coding` is not kIdentity. `share` counts what is made, up to `max_bytes`, until the object
  // ends.
  BodyDecoder(ContentCoding coding, std::string encoded, size_t max_bytes, ByteBudget::Share share);
  // Of a compressed request, whose body this is; counts for this tenant.
  static std::unique_ptr<BodyDecoder> Of(const HttpRequest& request, std::string body,
                                         std::string_view tenant);
  BodyDecoder(const BodyDecoder&) = delete;
  BodyDecoder& operator=(const BodyDecoder&) = delete;
  ~BodyDecoder();

  // One turn. True: the body is whole. INVALID_ARGUMENT: this is no such data. OUT_OF_RANGE: there
  // are more than `max_bytes`. RESOURCE_EXHAUSTED: the share grants no more.
  absl::StatusOr<bool> Turn();
  // Once it is whole. What it takes is counted for as long as the object lives.
  std::string TakeBody() { return std::move(body_); }

 private:
  absl::Status Begin();
  absl::Status Append(std::string_view bytes);
  // At the end of the data: what is behind it.
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
