#include "router/serving/output/part_messages.h"

#include <utility>

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

bool Follows(OutputPart::Kind kind, const v1::OutputDelta& delta) {
  switch (kind) {
    case OutputPart::Kind::kReasoning:
      return delta.text().empty() && delta.tool_calls().empty();
    case OutputPart::Kind::kContent:
      return delta.tool_calls().empty();
    default:
      return true;
  }
}

// Appends to the last part of the call, unless that part has its name.
void AddArguments(uint32_t call, const std::string& arguments, v1::OutputDelta& delta) {
  if (arguments.empty()) return;
  const int size = delta.tool_calls_size();
  const bool continues = size > 0 && delta.tool_calls(size - 1).index() == call &&
                         delta.tool_calls(size - 1).id().empty();
  v1::ToolCallDelta& out =
      continues ? *delta.mutable_tool_calls(size - 1) : *delta.add_tool_calls();
  out.set_index(call);
  *out.mutable_arguments() += arguments;
}

}  // namespace

PartMessages::PartMessages(uint32_t sample, std::function<std::string(uint32_t)> id_of)
    : sample_(sample), id_of_(std::move(id_of)) {}

v1::OutputDelta& PartMessages::DeltaFor(OutputPart::Kind kind,
                                        std::vector<v1::GenerateResponse>& messages) const {
  if (messages.empty() || !messages.back().has_delta() ||
      messages.back().delta().index() != sample_ || !Follows(kind, messages.back().delta())) {
    messages.emplace_back().mutable_delta()->set_index(sample_);
  }
  return *messages.back().mutable_delta();
}

void PartMessages::Add(OutputPart part, std::vector<v1::GenerateResponse>& messages) {
  switch (part.kind) {
    case OutputPart::Kind::kReasoning:
      *DeltaFor(part.kind, messages).mutable_reasoning() += part.text;
      return;
    case OutputPart::Kind::kContent:
      *DeltaFor(part.kind, messages).mutable_text() += part.text;
      return;
    case OutputPart::Kind::kCallBegin: {
      v1::ToolCallDelta& call = *DeltaFor(part.kind, messages).add_tool_calls();
      call.set_index(num_calls_);
      call.set_id(id_of_(num_calls_));
      call.set_name(std::move(part.text));
      ++num_calls_;
      return;
    }
    case OutputPart::Kind::kCallArguments:
      return AddArguments(num_calls_ - 1, part.text, DeltaFor(part.kind, messages));
    case OutputPart::Kind::kCallEnd:
    case OutputPart::Kind::kCallBroken:
      return;
  }
}

}  // namespace lockstep::router
