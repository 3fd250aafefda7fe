#include "router/http/dialects/responses/responses_writer.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "router/http/dialects/responses/response_events.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

constexpr size_t kBytesPerItem = 256;    // in JSON, without its text
constexpr size_t kBytesPerLogprob = 64;  // a name, a number and punctuation

std::string_view IdPrefixOf(OutputItem::Kind kind) {
  switch (kind) {
    case OutputItem::Kind::kMessage:
      return "msg_";
    case OutputItem::Kind::kReasoning:
      return "rs_";
    case OutputItem::Kind::kFunctionCall:
      return "fc_";
    case OutputItem::Kind::kCustomCall:
      return "ctc_";
  }
  return "";
}

ResponseState StateOf(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
    case v1::FINISH_REASON_TOOL_CALLS:
      return ResponseState::kCompleted;
    case v1::FINISH_REASON_LENGTH:
      return ResponseState::kIncomplete;
    default:
      return ResponseState::kFailed;
  }
}

size_t NumLogprobBytes(const std::vector<v1::TokenLogprob>& logprobs) {
  size_t num_bytes = 0;
  for (const v1::TokenLogprob& entry : logprobs) {
    num_bytes += kBytesPerLogprob * (1 + static_cast<size_t>(entry.top_ids_size()));
  }
  return num_bytes;
}

// One JSON object at the end.
class WholeResponse final : public ResponsesWriter {
 public:
  WholeResponse(AnswerFacts facts, const ResponsesRequest& request)
      : ResponsesWriter(std::move(facts), request) {}

  void Finish(std::string& out) override {
    JsonWriter json(out);
    WriteResponse(View(), json);
  }
  void Fail(const absl::Status&, std::string&) override {}

 private:
  void OnBegin(std::string&) override {}
  void OnItem(std::string&) override {}
  void OnPiece(std::string_view, const std::vector<v1::TokenLogprob>&, std::string&) override {}
  void OnItemEnd(std::string&) override {}
};

}  // namespace

std::unique_ptr<ResponsesWriter> ResponsesWriter::Make(AnswerFacts facts,
                                                       const ResponsesRequest& request) {
  if (request.stream) return MakeResponseStream(std::move(facts), request);
  return std::make_unique<WholeResponse>(std::move(facts), request);
}

ResponsesWriter::ResponsesWriter(AnswerFacts facts, const ResponsesRequest& request)
    : facts_(std::move(facts)),
      request_(request),
      id_("resp_" + request.request_id),
      num_held_bytes_(request.echo.size()) {}

void ResponsesWriter::Add(uint32_t /*prompt*/, std::span<const v1::GenerateResponse> messages,
                          std::string& out) {
  for (const v1::GenerateResponse& message : messages) {
    if (message.has_prompt_info()) {
      usage_.input_tokens = message.prompt_info().prompt_tokens();
      usage_.cached_tokens = message.prompt_info().cached_tokens();
    }
    Begin(out);
    if (message.has_delta()) AddDelta(message.delta(), out);
    if (message.has_finish()) AddFinish(message.finish(), out);
  }
}

void ResponsesWriter::Begin(std::string& out) {
  if (std::exchange(begun_, true)) return;
  OnBegin(out);
}

void ResponsesWriter::AddDelta(const v1::OutputDelta& delta, std::string& out) {
  usage_.output_tokens += delta.token_ids_size();
  if (request_.options.logprobs) KeepLogprobs(delta);
  if (!delta.reasoning().empty()) {
    Open(OutputItem::Kind::kReasoning, out);
    AddPiece(delta.reasoning(), {}, out);
  }
  if (!delta.text().empty()) {
    Open(OutputItem::Kind::kMessage, out);
    AddPiece(delta.text(), std::exchange(logprobs_, {}), out);
  }
  for (const v1::ToolCallDelta& call : delta.tool_calls()) AddCall(call, out);
}

void ResponsesWriter::KeepLogprobs(const v1::OutputDelta& delta) {
  for (const v1::TokenLogprob& entry : delta.logprobs()) {
    if (entry.part() == v1::TOKEN_PART_OTHER) {
      open_logprobs_.clear();
      continue;
    }
    open_logprobs_.push_back(entry);
    if (entry.part() != v1::TOKEN_PART_OPEN) KeepOpenLogprobs();
  }
}

void ResponsesWriter::KeepOpenLogprobs() {
  std::ranges::move(open_logprobs_, std::back_inserter(logprobs_));
  open_logprobs_.clear();
}

void ResponsesWriter::AddCall(const v1::ToolCallDelta& call, std::string& out) {
  if (call.index() >= num_calls_) {
    num_calls_ = call.index() + 1;
    OpenCall(call, out);
  }
  if (!IsOpen() || !items_.back().IsCall() || call.arguments().empty()) return;
  const bool custom = items_.back().kind == OutputItem::Kind::kCustomCall;
  const std::string piece = custom ? custom_input_.Push(call.arguments()) : call.arguments();
  if (!piece.empty()) AddPiece(piece, {}, out);
}

void ResponsesWriter::Open(OutputItem::Kind kind, std::string& out) {
  if (IsOpen() && items_.back().kind == kind) return;
  Close(/*cut=*/false, out);
  OutputItem item;
  item.kind = kind;
  AddItem(std::move(item), out);
}

void ResponsesWriter::AddItem(OutputItem item, std::string& out) {
  item.id = fmt::format("{}{}_{}", IdPrefixOf(item.kind), request_.request_id, items_.size());
  num_held_bytes_ += kBytesPerItem + item.name.size() + item.name_space.size();
  items_.push_back(std::move(item));
  OnItem(out);
}

void ResponsesWriter::OpenCall(const v1::ToolCallDelta& call, std::string& out) {
  Close(/*cut=*/false, out);
  const auto tool = std::ranges::find(request_.tools, call.name(), &ResponseTool::flat_name);
  OutputItem item;
  item.kind = OutputItem::Kind::kFunctionCall;
  item.call_id = call.id();
  item.name = call.name();
  if (tool != request_.tools.end()) {
    if (tool->custom) item.kind = OutputItem::Kind::kCustomCall;
    item.name = tool->name;
    item.name_space = tool->name_space;
  }
  custom_input_ = CustomInput();
  AddItem(std::move(item), out);
}

void ResponsesWriter::AddPiece(std::string_view piece, std::vector<v1::TokenLogprob> logprobs,
                               std::string& out) {
  OutputItem& item = items_.back();
  item.text += piece;
  item.logprobs.insert(item.logprobs.end(), logprobs.begin(), logprobs.end());
  num_held_bytes_ += piece.size() + NumLogprobBytes(logprobs);
  OnPiece(piece, logprobs, out);
}

void ResponsesWriter::Close(bool cut, std::string& out) {
  if (!IsOpen()) return;
  OutputItem& item = items_.back();
  if (item.kind == OutputItem::Kind::kCustomCall) {
    const std::string rest = custom_input_.Finish();
    if (!rest.empty()) AddPiece(rest, {}, out);
  }
  // Clients run a call once it is done.
  if (item.IsCall()) cut = !IsWholeCall();
  item.state = cut ? OutputItem::State::kCut : OutputItem::State::kWhole;
  if (!cut || !item.IsCall()) OnItemEnd(out);
}

bool ResponsesWriter::IsWholeCall() const {
  const OutputItem& item = items_.back();
  if (item.kind == OutputItem::Kind::kCustomCall) return custom_input_.whole();
  return nlohmann::json::accept(item.text);
}

void ResponsesWriter::AddFinish(const v1::Finish& finish, std::string& out) {
  state_ = StateOf(finish.reason());
  // The last tokens may have no text.
  KeepOpenLogprobs();
  if (IsOpen() && items_.back().kind == OutputItem::Kind::kMessage && !logprobs_.empty()) {
    AddPiece("", std::exchange(logprobs_, {}), out);
  }
  Close(/*cut=*/state_ != ResponseState::kCompleted, out);
  if (!finish.has_usage()) return;
  const v1::Usage& usage = finish.usage();
  usage_ = {.input_tokens = usage.prompt_tokens(),
            .cached_tokens = usage.cached_tokens(),
            .output_tokens = usage.completion_tokens(),
            .reasoning_tokens = usage.reasoning_tokens()};
  seed_ = usage.seed();
}

void ResponsesWriter::Cut() {
  state_ = ResponseState::kFailed;
  if (IsOpen()) items_.back().state = OutputItem::State::kCut;
}

ResponseView ResponsesWriter::View() const {
  ResponseView view = {.id = id_,
                       .facts = facts_,
                       .echo = request_.echo,
                       .items = items_,
                       .state = state_,
                       .seed = seed_};
  if (state_ != ResponseState::kInProgress) view.usage = usage_;
  if (state_ == ResponseState::kFailed) {
    view.error = ResponseError{.code = "server_error", .message = "the request was aborted"};
  }
  return view;
}

}  // namespace lockstep::router
