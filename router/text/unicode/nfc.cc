#include "router/text/unicode/nfc.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include <algorithm>

#include "common/status.h"

namespace lockstep::router {
namespace {

// U+0300, the first character that can compose or reorder, starts with this byte.
constexpr uint8_t kFirstLeadByteInQuestion = 0xCC;

bool IsTriviallyNormal(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<uint8_t>(c) >= kFirstLeadByteInQuestion; });
}

}  // namespace

absl::StatusOr<std::string_view> NormalizeNfc(std::string_view text, std::string& storage) {
  if (IsTriviallyNormal(text)) return text;
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(error);
  if (U_FAILURE(error)) return Internal("ICU has no NFC data: {}", u_errorName(error));
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  const bool is_normal = nfc->isNormalizedUTF8(piece, error) != 0;
  if (U_FAILURE(error)) return Internal("ICU failed to check NFC: {}", u_errorName(error));
  if (is_normal) return text;
  storage.clear();
  icu::StringByteSink<std::string> sink(&storage);
  nfc->normalizeUTF8(0, piece, sink, nullptr, error);
  if (U_FAILURE(error)) return Internal("ICU failed to normalise: {}", u_errorName(error));
  return std::string_view(storage);
}

}  // namespace lockstep::router
