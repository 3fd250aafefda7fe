#include "router/tracing/trace_context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::router {
namespace {

// version "-" trace-id "-" parent-id "-" flags
constexpr size_t kVersionAt = 0;
constexpr size_t kTraceIdAt = 3;
constexpr size_t kParentIdAt = 36;
constexpr size_t kFlagsAt = 53;
constexpr size_t kTraceparentBytes = 55;
constexpr uint8_t kSampledFlag = 0x01;

constexpr size_t kMaxMembers = 32;
constexpr size_t kMaxKeyBytes = 256;
constexpr size_t kMaxValueBytes = 256;

// Upper-case digits are not allowed.
int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Reads two digits for each byte. False if `text` has anything else.
bool ReadHex(std::string_view text, std::span<uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = DigitOf(text[2 * i]);
    const int low = DigitOf(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

bool IsZero(std::span<const uint8_t> id) {
  return std::ranges::all_of(id, [](uint8_t byte) { return byte == 0; });
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool IsKey(std::string_view key) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (key.empty() || key.size() > kMaxKeyBytes || !is_plain(key.front())) return false;
  return std::ranges::all_of(key, [&](char c) {
    return is_plain(c) || std::string_view("_-*/@").find(c) != std::string_view::npos;
  });
}

bool IsValue(std::string_view value) {
  if (value.empty() || value.size() > kMaxValueBytes) return false;
  return std::ranges::all_of(value,
                             [](char c) { return c >= 0x20 && c <= 0x7e && c != ',' && c != '='; });
}

bool IsMember(std::string_view member) {
  const size_t equals = member.find('=');
  if (equals == std::string_view::npos) return false;
  return IsKey(member.substr(0, equals)) && IsValue(member.substr(equals + 1));
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view header) {
  if (header.size() < kTraceparentBytes) return std::nullopt;
  std::array<uint8_t, 1> version;
  if (!ReadHex(header.substr(kVersionAt), version) || version[0] == 0xff) return std::nullopt;
  if (header.size() > kTraceparentBytes) {
    if (version[0] == 0 || header[kTraceparentBytes] != '-') return std::nullopt;
  }
  for (const size_t at : {kTraceIdAt, kParentIdAt, kFlagsAt}) {
    if (header[at - 1] != '-') return std::nullopt;
  }
  TraceContext context;
  std::array<uint8_t, 1> flags;
  if (!ReadHex(header.substr(kTraceIdAt), context.trace_id) ||
      !ReadHex(header.substr(kParentIdAt), context.parent_span_id) ||
      !ReadHex(header.substr(kFlagsAt), flags)) {
    return std::nullopt;
  }
  if (IsZero(context.trace_id) || IsZero(context.parent_span_id)) return std::nullopt;
  context.sampled = (flags[0] & kSampledFlag) != 0;
  return context;
}

bool IsTraceState(std::string_view text) {
  if (text.size() > kMaxTraceStateBytes) return false;
  size_t num_members = 0;
  for (;;) {
    const size_t comma = text.find(',');
    const std::string_view member = Trimmed(text.substr(0, comma));
    // A list may have empty members.
    if (!member.empty() && (!IsMember(member) || ++num_members > kMaxMembers)) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

std::optional<TraceContext> ParseTraceContext(std::string_view traceparent,
                                              std::string_view tracestate) {
  std::optional<TraceContext> context = ParseTraceparent(traceparent);
  if (context.has_value() && IsTraceState(tracestate)) context->trace_state = tracestate;
  return context;
}

std::string HexOf(std::span<const uint8_t> id) { return fmt::format("{:02x}", fmt::join(id, "")); }

}  // namespace lockstep::router
