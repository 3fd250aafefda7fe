#include "router/serving/output/tool_call_id.h"

#include <fmt/format.h>

#include <string_view>

#include "common/hash.h"
#include "router/calls/output_format_table.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kAlphabet =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr size_t kLettersPerHash = 8;
constexpr size_t kLetters = 24;
constexpr size_t kLettersOfShortIds = 9;

}  // namespace

std::string ToolCallId(const OutputFormat& format, const Request& request, uint32_t sample,
                       uint32_t call) {
  // A client may use the id of a request again. The seed and the prompt then make the difference.
  const std::string key = fmt::format("{} {} {} {} {}", request.id, request.sampling.seed,
                                      request.prompt_tokens.size(), sample, call);
  std::string id = format.short_ids ? "" : "call_";
  const size_t size = id.size() + (format.short_ids ? kLettersOfShortIds : kLetters);
  for (uint64_t round = 0; id.size() < size; ++round) {
    uint64_t hash = Hash64(key, round);
    for (size_t i = 0; i < kLettersPerHash && id.size() < size; ++i) {
      id += kAlphabet[hash % kAlphabet.size()];
      hash /= kAlphabet.size();
    }
  }
  return id;
}

}  // namespace lockstep::router
