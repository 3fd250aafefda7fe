#include "cli/bench/load/sse_scanner.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace lockstep::cli {
namespace {

constexpr std::string_view kData = "data:";

std::string_view WithoutBlanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

// The text after the first `"key":` in JSON; empty: there is no such key. A string cannot contain a
// quoted key, because its quotes are escaped.
std::string_view ValueOf(std::string_view json, std::string_view quoted_key) {
  for (size_t at = json.find(quoted_key); at != std::string_view::npos;
       at = json.find(quoted_key, at + 1)) {
    const std::string_view behind = WithoutBlanks(json.substr(at + quoted_key.size()));
    if (behind.starts_with(':')) return WithoutBlanks(behind.substr(1));
  }
  return {};
}

bool HasText(std::string_view json, std::string_view quoted_key) {
  const std::string_view value = ValueOf(json, quoted_key);
  return value.size() > 1 && value[0] == '"' && value[1] != '"';
}

void ReadNumber(std::string_view json, std::string_view quoted_key, uint32_t& number) {
  const std::string_view value = ValueOf(json, quoted_key);
  std::from_chars(value.data(), value.data() + value.size(), number);
}

}  // namespace

std::optional<std::string> OpenAiErrorMessage(std::string_view json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("error")) return std::nullopt;
  const auto& error = parsed["error"];
  if (error.is_null()) return std::nullopt;
  if (error.is_string()) return error.get<std::string>();
  if (error.is_object() && error.contains("message") && error["message"].is_string()) {
    return error["message"].get<std::string>();
  }
  return "an error without a message";
}

uint32_t SseScanner::Feed(std::string_view bytes) {
  uint32_t num_pieces = 0;
  if (failed_) return num_pieces;
  for (size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    const std::string_view part = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (rest_.size() + part.size() > kMaxLineBytes) return Fail(num_pieces);
    if (rest_.empty()) {
      num_pieces += TakeLine(part) ? 1 : 0;
    } else {
      rest_.append(part);
      num_pieces += TakeLine(rest_) ? 1 : 0;
      rest_.clear();
    }
  }
  if (rest_.size() + bytes.size() > kMaxLineBytes) return Fail(num_pieces);
  rest_.append(bytes);
  return num_pieces;
}

uint32_t SseScanner::Fail(uint32_t num_pieces) {
  failed_ = true;
  error_ = fmt::format("a line has more than {} bytes", kMaxLineBytes);
  rest_ = std::string();
  return num_pieces;
}

bool SseScanner::TakeLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with(kData)) return false;
  const std::string_view json = WithoutBlanks(line.substr(kData.size()));
  if (json == "[DONE]") {
    done_ = true;
    return false;
  }
  if (!ValueOf(json, "\"completion_tokens\"").empty()) {
    ReadNumber(json, "\"prompt_tokens\"", prompt_tokens_);
    ReadNumber(json, "\"completion_tokens\"", output_tokens_);
    ReadNumber(json, "\"cached_tokens\"", cached_tokens_);
  }
  const std::string_view choices = ValueOf(json, "\"choices\"");
  if (choices.empty()) {
    if (auto message = OpenAiErrorMessage(json)) error_ = *std::move(message);
    return false;
  }
  return HasText(choices, "\"text\"") || HasText(choices, "\"content\"") ||
         HasText(choices, "\"reasoning_content\"");
}

}  // namespace lockstep::cli
