#include "router/front/http1/chunk_extensions.h"

#include <absl/strings/ascii.h>

#include <cstddef>

namespace lockstep::router {
namespace {

bool IsTokenCharacter(char c) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         kOthers.find(c) != std::string_view::npos;
}

// Space, tab and printable characters, also above ASCII.
bool IsQuotable(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

void SkipSpace(std::string_view& text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
}

bool SkipToken(std::string_view& text) {
  size_t size = 0;
  while (size < text.size() && IsTokenCharacter(text[size])) ++size;
  text.remove_prefix(size);
  return size > 0;
}

// `text` begins with the opening quote.
bool SkipQuoted(std::string_view& text) {
  text.remove_prefix(1);
  while (!text.empty()) {
    const char c = text[0];
    text.remove_prefix(1);
    if (c == '"') return true;
    if (!IsQuotable(c)) return false;
    if (c != '\\') continue;
    if (text.empty() || !IsQuotable(text[0])) return false;
    text.remove_prefix(1);
  }
  return false;
}

}  // namespace

bool AreChunkExtensions(std::string_view text) {
  while (!text.empty()) {
    SkipSpace(text);
    if (!text.starts_with(';')) return false;
    text.remove_prefix(1);
    SkipSpace(text);
    if (!SkipToken(text)) return false;
    std::string_view value = text;
    SkipSpace(value);
    if (!value.starts_with('=')) continue;
    value.remove_prefix(1);
    SkipSpace(value);
    if (!(value.starts_with('"') ? SkipQuoted(value) : SkipToken(value))) return false;
    text = value;
  }
  return true;
}

}  // namespace lockstep::router
