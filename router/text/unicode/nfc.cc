#include "router/text/unicode/nfc.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "router/text/unicode/combining_marks.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

// U+0300, the first character that can compose or reorder, starts with this byte.
constexpr uint8_t kFirstLeadByteInQuestion = 0xCC;
// Bytes normalised between two checks for cancellation: less than a millisecond.
constexpr size_t kPieceBytes = size_t{64} << 10;

bool IsTriviallyNormal(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<uint8_t>(c) >= kFirstLeadByteInQuestion; });
}

// Returns the end of a piece of about kPieceBytes that starts at `begin`. The text after it neither
// composes nor reorders with the text before it.
size_t PieceEnd(const icu::Normalizer2& nfc, std::string_view text, size_t begin) {
  if (text.size() - begin <= kPieceBytes) return text.size();
  size_t end = PreviousCharOffset(text, begin + kPieceBytes + 1);
  while (end < text.size()) {
    const DecodedChar c = DecodeUtf8(text, end);
    if (nfc.hasBoundaryBefore(static_cast<UChar32>(c.code_point))) break;
    end += c.length;
  }
  return end;
}

// Writes the normal form of `text` to `out`. `out` stays empty while all pieces are normal already.
class NfcWriter {
 public:
  NfcWriter(const icu::Normalizer2& nfc, std::string_view text, std::string& out)
      : nfc_(nfc), text_(text), out_(out) {}

  // Pieces come in order, without gaps.
  absl::Status Add(size_t begin, size_t end) {
    UErrorCode error = U_ZERO_ERROR;
    const icu::StringPiece piece(text_.data() + begin, static_cast<int32_t>(end - begin));
    const bool is_normal = nfc_.isNormalizedUTF8(piece, error) != 0;
    if (U_FAILURE(error)) return Internal("ICU failed to check NFC: {}", u_errorName(error));
    if (is_normal) {
      if (changed_) out_ += text_.substr(begin, end - begin);
      return absl::OkStatus();
    }
    if (!changed_) out_ = text_.substr(0, begin);
    changed_ = true;
    icu::StringByteSink<std::string> sink(&out_);
    nfc_.normalizeUTF8(0, piece, sink, nullptr, error);
    if (U_FAILURE(error)) return Internal("ICU failed to normalise: {}", u_errorName(error));
    return absl::OkStatus();
  }
  bool changed() const { return changed_; }

 private:
  const icu::Normalizer2& nfc_;
  const std::string_view text_;
  std::string& out_;  // empty until a piece is not normal
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<std::string_view> NormalizeNfc(std::string_view text, std::string& storage,
                                              const CancelFlag* cancellation) {
  if (IsTriviallyNormal(text)) return text;
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(error);
  if (U_FAILURE(error)) return Internal("ICU has no NFC data: {}", u_errorName(error));
  std::string ordered_storage;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view ordered,
                            OrderLongMarkRuns(text, ordered_storage));
  storage.clear();
  NfcWriter writer(*nfc, ordered, storage);
  for (size_t begin = 0; begin < ordered.size();) {
    if (IsCancelled(cancellation)) return absl::CancelledError("the text is not wanted any more");
    const size_t end = PieceEnd(*nfc, ordered, begin);
    LOCKSTEP_RETURN_IF_ERROR(writer.Add(begin, end));
    begin = end;
  }
  if (writer.changed()) return std::string_view(storage);
  if (ordered.data() == text.data()) return text;
  storage = std::move(ordered_storage);
  return std::string_view(storage);
}

}  // namespace lockstep::router
