#include "router/serving/validation/context_overflow.h"

#include <absl/strings/cord.h>

#include <algorithm>

#include "common/status.h"

namespace lockstep::router {

namespace v1 = lockstep::v1;

namespace {

constexpr char kContextOverflow[] = "lockstep.context_overflow";  // payload: path of the field

}  // namespace

absl::Status MarkOverflow(absl::Status status, std::string_view path) {
  if (!status.ok()) {
    status.SetPayload(kContextOverflow, absl::Cord(absl::string_view(path.data(), path.size())));
  }
  return status;
}

absl::Status ContextOverflow(const v1::GenerateRequest& request, uint32_t context_tokens,
                             uint64_t prompt_tokens, uint64_t completion_tokens,
                             std::string_view path) {
  const std::string_view input = request.has_chat() ? "messages" : "prompt";
  return MarkOverflow(
      InvalidArgument("This model's maximum context length is {} tokens. However, you requested {} "
                      "tokens ({} in the {}, {} in the completion). Please reduce the length of "
                      "the {} or completion (context_length_exceeded).",
                      context_tokens, prompt_tokens + completion_tokens, prompt_tokens, input,
                      completion_tokens, input),
      path);
}

uint32_t RequestedTokens(const v1::GenerateRequest& request) {
  return std::max(request.stop().max_tokens(), 1u);
}

std::optional<std::string> ContextOverflowPath(const absl::Status& status) {
  const auto path = status.GetPayload(kContextOverflow);
  if (!path.has_value()) return std::nullopt;
  return std::string(*path);
}

}  // namespace lockstep::router
