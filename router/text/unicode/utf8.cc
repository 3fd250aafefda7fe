#include "router/text/unicode/utf8.h"

#include <cstring>

namespace lockstep::router {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

uint8_t ByteAt(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

// What a lead byte requires. num_bytes is 0 for a byte that cannot lead.
struct LeadByte {
  size_t num_bytes;
  uint8_t second_min;
  uint8_t second_max;
};

LeadByte Classify(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

size_t CountAsciiPrefix(std::string_view text) {
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= text.size(); i += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, sizeof(word));
    if ((word & 0x8080808080808080ull) != 0) break;
  }
  while (i < text.size() && ByteAt(text, i) < 0x80) ++i;
  return i;
}

}  // namespace

Utf8Unit NextUtf8Unit(std::string_view text) {
  const LeadByte lead = Classify(ByteAt(text, 0));
  if (lead.num_bytes == 0) return {Utf8Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.num_bytes; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i};
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    const uint8_t byte = ByteAt(text, i);
    if (byte < min || byte > max) return {Utf8Kind::kInvalid, i};
  }
  return {Utf8Kind::kValid, lead.num_bytes};
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  size_t offset = 0;
  while (true) {
    offset += CountAsciiPrefix(text.substr(offset));
    if (offset == text.size()) return std::nullopt;
    const Utf8Unit unit = NextUtf8Unit(text.substr(offset));
    if (unit.kind != Utf8Kind::kValid) return offset;
    offset += unit.length;
  }
}

DecodedChar DecodeUtf8(std::string_view text, size_t offset) {
  const auto continuation = [&](size_t i) -> char32_t { return ByteAt(text, offset + i) & 0x3Fu; };
  const char32_t lead = ByteAt(text, offset);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {((lead & 0x1Fu) << 6) | continuation(1), 2};
  if (lead < 0xF0) return {((lead & 0x0Fu) << 12) | (continuation(1) << 6) | continuation(2), 3};
  return {
      ((lead & 0x07u) << 18) | (continuation(1) << 12) | (continuation(2) << 6) | continuation(3),
      4};
}

size_t PreviousCharOffset(std::string_view text, size_t end) {
  size_t offset = end - 1;
  while (offset > 0 && (ByteAt(text, offset) & 0xC0) == 0x80) --offset;
  return offset;
}

std::string EncodeUtf8(char32_t code_point) {
  std::string out;
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
  return out;
}

void AppendLossyUtf8(std::string_view bytes, std::string& pending, std::string& out) {
  std::string joined;
  if (!pending.empty()) {
    joined = pending;
    joined += bytes;
    bytes = joined;
    pending.clear();
  }
  while (!bytes.empty()) {
    const size_t num_ascii = CountAsciiPrefix(bytes);
    out += bytes.substr(0, num_ascii);
    bytes.remove_prefix(num_ascii);
    if (bytes.empty()) return;
    const Utf8Unit unit = NextUtf8Unit(bytes);
    if (unit.kind == Utf8Kind::kIncomplete) {
      pending = bytes;
      return;
    }
    out += unit.kind == Utf8Kind::kValid ? bytes.substr(0, unit.length) : kReplacement;
    bytes.remove_prefix(unit.length);
  }
}

void FlushLossyUtf8(std::string& pending, std::string& out) {
  if (pending.empty()) return;
  pending.clear();
  out += kReplacement;
}

}  // namespace lockstep::router
