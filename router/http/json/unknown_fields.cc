#include "router/http/json/unknown_fields.h"

#include <fmt/format.h>

#include <iterator>

#include "common/status.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kMore = "...";

void AppendHeaderText(std::string_view text, std::string& out) {
  constexpr std::string_view kEscaped = ",%\"\\";
  for (const char c : text) {
    const bool plain = c > ' ' && c <= '~' && kEscaped.find(c) == std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
}

absl::Status Refusal(std::string_view path, std::string_view name) {
  const std::string_view dot = path.empty() ? "" : ".";
  // The error begins with the field only if its name can be shown unchanged.
  const bool plain = !name.empty() && CheckId("", name, 64).ok();
  const std::string where = plain ? fmt::format("{}{}{}", path, dot, name) : "body";
  return Unimplemented("{}: this router does not know the field {}", where, Quote(name));
}

}  // namespace

absl::Status UnknownFields::Add(std::string_view path, std::string_view name) {
  if (refuse_) return Refusal(path, name);
  if (full_) return absl::OkStatus();
  std::string entry;
  AppendHeaderText(path, entry);
  if (!path.empty()) entry += '.';
  AppendHeaderText(name.substr(0, kMaxQuotedBytes), entry);
  if (name.size() > kMaxQuotedBytes) entry += kMore;
  const std::string_view separator = list_.empty() ? "" : ", ";
  const size_t num_bytes = list_.size() + separator.size() + entry.size();
  full_ = num_bytes + std::string_view(", ...").size() > kMaxIgnoredFieldsBytes;
  list_ += separator;
  list_ += full_ ? kMore : entry;
  return absl::OkStatus();
}

}  // namespace lockstep::router
