#include "router/http/exchanges/body_decoder.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

// Approximate memory of zlib: its window and its tables.
constexpr size_t kZlibBytes = size_t{48} << 10;
constexpr size_t kPieceBytes = size_t{32} << 10;
// Input limit of a turn. Data without output, such as empty members, must not make a turn endless.
constexpr size_t kTurnEncodedBytes = size_t{256} << 10;
constexpr int kWindowBits = 15;
constexpr int kGzipWindowBits = kWindowBits + 16;  // zlib's code for the gzip format

std::string_view NameOf(ContentCoding coding) {
  return coding == ContentCoding::kGzip ? "gzip" : "deflate";
}

// RFC 1950, 2.2. "deflate" has this header by definition, but some clients omit it.
bool HasZlibHeader(std::string_view bytes) {
  if (bytes.size() < 2) return false;
  const auto first = static_cast<unsigned char>(bytes[0]);
  const auto second = static_cast<unsigned char>(bytes[1]);
  return (first & 0x0f) == Z_DEFLATED && first >> 4 <= kWindowBits - 8 &&
         (first * 256 + second) % 31 == 0;
}

}  // namespace

std::optional<ContentCoding> ParseContentCoding(std::string_view content_encoding) {
  const absl::string_view list(content_encoding.data(), content_encoding.size());
  ContentCoding coding = ContentCoding::kIdentity;
  for (const absl::string_view element : absl::StrSplit(list, ',')) {
    const std::string name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(element));
    if (name.empty() || name == "identity") continue;
    const bool gzip = name == "gzip" || name == "x-gzip";
    if (coding != ContentCoding::kIdentity || (!gzip && name != "deflate")) return std::nullopt;
    coding = gzip ? ContentCoding::kGzip : ContentCoding::kDeflate;
  }
  return coding;
}

BodyDecoder::BodyDecoder(ContentCoding coding, std::string encoded, size_t max_bytes,
                         ByteBudget::Share share)
    : coding_(coding),
      encoded_(std::move(encoded)),
      max_bytes_(max_bytes),
      share_(std::move(share)) {}

std::unique_ptr<BodyDecoder> BodyDecoder::Of(const HttpRequest& request, std::string body,
                                             std::string_view tenant) {
  return std::make_unique<BodyDecoder>(
      ParseContentCoding(request.content_encoding).value_or(ContentCoding::kGzip), std::move(body),
      request.max_body_bytes, request.answer.ShareOf(tenant));
}

BodyDecoder::~BodyDecoder() {
  if (begun_) inflateEnd(&stream_);
}

absl::Status BodyDecoder::Begin() {
  if (begun_) return absl::OkStatus();
  if (!share_.Resize(kZlibBytes)) {
    return ResourceExhausted("too many bytes of other requests are in transit");
  }
  int window_bits = kGzipWindowBits;
  if (coding_ == ContentCoding::kDeflate) {
    window_bits = HasZlibHeader(encoded_) ? kWindowBits : -kWindowBits;
  }
  LOCKSTEP_CHECK(inflateInit2(&stream_, window_bits) == Z_OK, "no memory for zlib");
  begun_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> BodyDecoder::Turn() {
  const size_t max_made_bytes = body_.size() + (begun_ ? kTurnBytes : kFirstTurnBytes);
  const size_t max_read_bytes = std::min(encoded_.size(), num_read_bytes_ + kTurnEncodedBytes);
  LOCKSTEP_RETURN_IF_ERROR(Begin());
  std::array<char, kPieceBytes> piece;
  for (;;) {
    const size_t num_given_bytes = max_read_bytes - num_read_bytes_;
    // zlib only reads the input, but its API lacks const.
    stream_.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(encoded_.data() + num_read_bytes_));
    stream_.avail_in = static_cast<uInt>(num_given_bytes);
    stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream_.avail_out = static_cast<uInt>(piece.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    num_read_bytes_ += num_given_bytes - stream_.avail_in;
    LOCKSTEP_CHECK(result != Z_MEM_ERROR && result != Z_STREAM_ERROR, "zlib fails: {}", result);
    if (result == Z_DATA_ERROR || result == Z_NEED_DICT) {
      return InvalidArgument("body: the {} data is damaged near its byte {}", NameOf(coding_),
                             num_read_bytes_);
    }
    LOCKSTEP_RETURN_IF_ERROR(Append({piece.data(), piece.size() - stream_.avail_out}));
    if (result == Z_STREAM_END) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool over, End());
      if (over) return true;
    } else if (num_read_bytes_ == encoded_.size() && stream_.avail_out > 0) {
      return InvalidArgument("body: the {} data ends before its end", NameOf(coding_));
    }
    const bool read_enough = num_read_bytes_ == max_read_bytes && stream_.avail_out > 0;
    if (read_enough || body_.size() >= max_made_bytes) return false;
  }
}

// A file of gzip may have several members (RFC 1952, 2.2).
absl::StatusOr<bool> BodyDecoder::End() {
  const std::string_view rest = std::string_view(encoded_).substr(num_read_bytes_);
  if (rest.empty()) return true;
  if (coding_ != ContentCoding::kGzip || !rest.starts_with("\x1f\x8b")) {
    return InvalidArgument("body: {} bytes come behind the end of the {} data", rest.size(),
                           NameOf(coding_));
  }
  LOCKSTEP_CHECK(inflateReset(&stream_) == Z_OK, "zlib fails");
  return false;
}

absl::Status BodyDecoder::Append(std::string_view bytes) {
  const size_t needed = body_.size() + bytes.size();
  if (needed > max_bytes_) {
    return MakeError(absl::StatusCode::kOutOfRange,
                     "the body is too large, at most {} bytes are read, once it is decompressed",
                     max_bytes_);
  }
  if (needed > room_) {
    const size_t room = std::min(max_bytes_, std::max({needed, 2 * room_, kPieceBytes}));
    if (!share_.Resize(kZlibBytes + room)) {
      return ResourceExhausted("too many bytes of other requests are in transit");
    }
    room_ = room;
    body_.reserve(room);
  }
  body_.append(bytes);
  return absl::OkStatus();
}

}  // namespace lockstep::router
