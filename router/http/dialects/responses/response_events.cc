#include "router/http/dialects/responses/response_events.h"

#include <utility>

#include "router/serving/validation/client_message.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using ItemKind = OutputItem::Kind;

// How the text of a kind of item comes.
struct TextEvents {
  std::string_view delta;
  std::string_view done;
  std::string_view member;  // of the done event: the whole text
  bool has_part;            // the text is in a part of a content
};

TextEvents EventsOf(ItemKind kind) {
  switch (kind) {
    case ItemKind::kReasoning:
      return {"response.reasoning_text.delta", "response.reasoning_text.done", "text", true};
    case ItemKind::kFunctionCall:
      return {"response.function_call_arguments.delta", "response.function_call_arguments.done",
              "arguments", false};
    case ItemKind::kCustomCall:
      return {"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
              kCustomInput, false};
    case ItemKind::kMessage:
      break;
  }
  return {"response.output_text.delta", "response.output_text.done", "text", true};
}

// The codes of OpenAI's API for a response that failed.
std::string_view ErrorCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "invalid_prompt";
    case absl::StatusCode::kResourceExhausted:
      return "rate_limit_exceeded";
    default:
      return "server_error";
  }
}

std::string_view EndEventOf(ResponseState state) {
  switch (state) {
    case ResponseState::kCompleted:
      return "response.completed";
    case ResponseState::kIncomplete:
      return "response.incomplete";
    default:
      return "response.failed";
  }
}

class ResponseStream final : public ResponsesWriter {
 public:
  ResponseStream(AnswerFacts facts, const ResponsesRequest& request)
      : ResponsesWriter(std::move(facts), request) {}

  void Finish(std::string& out) override {
    if (state() == ResponseState::kInProgress) Cut();
    AppendResponse(EndEventOf(state()), View(), out);
  }

  void Fail(const absl::Status& status, std::string& out) override {
    Begin(out);
    Cut();
    ResponseView view = View();
    view.usage.reset();
    view.error = ResponseError{.code = ErrorCodeOf(status), .message = ClientMessage(status)};
    AppendResponse(EndEventOf(state()), view, out);
  }

 private:
  void OnBegin(std::string& out) override {
    AppendResponse("response.created", View(), out);
    AppendResponse("response.in_progress", View(), out);
  }

  void OnItem(std::string& out) override {
    AppendItem("response.output_item.added", out);
    if (EventsOf(item().kind).has_part) AppendPart("response.content_part.added", true, out);
  }

  void OnPiece(std::string_view piece, const std::vector<v1::TokenLogprob>& logprobs,
               std::string& out) override {
    const TextEvents events = EventsOf(item().kind);
    AppendEvent(events.delta, out, [&](JsonWriter& json) {
      WritePlace(events.has_part, json);
      json.Key("delta").String(piece);
      WriteTextLogprobs(logprobs, json);
    });
  }

  void OnItemEnd(std::string& out) override {
    const TextEvents events = EventsOf(item().kind);
    AppendEvent(events.done, out, [&](JsonWriter& json) {
      WritePlace(events.has_part, json);
      if (item().IsCall()) json.Key("name").String(item().name);
      json.Key(events.member).String(item().text);
      WriteTextLogprobs(item().logprobs, json);
    });
    if (events.has_part) AppendPart("response.content_part.done", false, out);
    AppendItem("response.output_item.done", out);
  }

  const OutputItem& item() const { return items().back(); }

  template <typename WriteMembers>
  void AppendEvent(std::string_view type, std::string& out, const WriteMembers& write) {
    out += "event: ";
    out += type;
    out += "\ndata: ";
    JsonWriter json(out);
    json.BeginObject().Key("type").String(type).Key("sequence_number").Int(num_events_++);
    write(json);
    json.EndObject();
    out += "\n\n";
  }
  void AppendResponse(std::string_view type, const ResponseView& view, std::string& out) {
    AppendEvent(type, out, [&](JsonWriter& json) { WriteResponse(view, json.Key("response")); });
  }
  void AppendItem(std::string_view type, std::string& out) {
    AppendEvent(type, out, [&](JsonWriter& json) {
      json.Key("output_index").Int(items().size() - 1);
      WriteOutputItem(facts(), item(), json.Key("item"));
    });
  }
  void AppendPart(std::string_view type, bool empty, std::string& out) {
    AppendEvent(type, out, [&](JsonWriter& json) {
      WritePlace(/*has_part=*/true, json);
      WriteContentPart(facts(), item(), empty, json.Key("part"));
    });
  }
  void WritePlace(bool has_part, JsonWriter& json) const {
    json.Key("item_id").String(item().id).Key("output_index").Int(items().size() - 1);
    if (has_part) json.Key("content_index").Int(0);
  }
  void WriteTextLogprobs(const std::vector<v1::TokenLogprob>& logprobs, JsonWriter& json) const {
    if (item().kind != ItemKind::kMessage) return;
    WriteOutputLogprobs(facts(), logprobs, json.Key("logprobs"));
  }

  uint64_t num_events_ = 0;
};

}  // namespace

std::unique_ptr<ResponsesWriter> MakeResponseStream(AnswerFacts facts,
                                                    const ResponsesRequest& request) {
  return std::make_unique<ResponseStream>(std::move(facts), request);
}

}  // namespace lockstep::router
