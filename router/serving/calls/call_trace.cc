#include "router/serving/calls/call_trace.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "router/serving/calls/finish_reason.h"

namespace lockstep::router {

namespace v1 = lockstep::v1;

std::string_view OperationName(bool is_chat) { return is_chat ? "chat" : "text_completion"; }

std::string SpanName(std::string_view operation, std::string_view model) {
  return fmt::format("{} {}", operation, model);
}

void TraceRequest(const v1::GenerateRequest& message, const Request& request,
                  std::string_view model, RequestTrace& trace) {
  const std::string_view operation = OperationName(message.has_chat());
  trace.SetName(SpanName(operation, model));
  const SamplingParams& sampling = request.sampling;
  std::vector<SpanAttribute> attributes = {
      {"gen_ai.operation.name", std::string(operation)},
      {"lockstep.request.id", request.id},
      {"gen_ai.request.max_tokens", int64_t{sampling.max_new_tokens}},
      {"gen_ai.request.temperature", double{sampling.temperature}},
      {"gen_ai.request.top_p", double{sampling.top_p}}};
  if (request.num_samples > 1) {
    attributes.emplace_back("gen_ai.request.choice.count", int64_t{request.num_samples});
  }
  trace.Set(std::move(attributes));
}

void TraceOutput(size_t num_tokens, std::span<const v1::GenerateResponse> messages,
                 RequestTrace& trace) {
  trace.OnTokens(num_tokens);
  for (const v1::GenerateResponse& message : messages) {
    if (!message.has_finish()) continue;
    const v1::Finish& finish = message.finish();
    trace.OnFinish(FinishReasonName(finish.reason()), finish.usage().completion_tokens());
  }
}

}  // namespace lockstep::router
