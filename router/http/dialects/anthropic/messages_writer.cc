#include "router/http/dialects/anthropic/messages_writer.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "router/http/dialects/anthropic/anthropic_error.h"
#include "router/http/dialects/anthropic/message_events.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

constexpr size_t kBlockBytes = 64;  // of a block's JSON without its text

// Finds the blocks in an output. Its methods are called in the order of the message.
class MessageWriter : public AnswerWriter {
 public:
  void Add(uint32_t, std::span<const v1::GenerateResponse> messages, std::string& out) override {
    for (const v1::GenerateResponse& message : messages) {
      if (message.has_prompt_info()) {
        usage_.prompt_tokens = message.prompt_info().prompt_tokens();
        usage_.cached_tokens =
            std::min(message.prompt_info().cached_tokens(), message.prompt_info().prompt_tokens());
        OnStart(out);
      }
      if (message.has_delta()) AddDelta(message.delta(), out);
      if (message.has_finish()) AddFinish(message.finish(), out);
    }
  }

 protected:
  explicit MessageWriter(MessageFrame frame) : frame_(std::move(frame)) {}

  virtual void OnStart(std::string& out) = 0;
  virtual void OnBlock(MessageBlock head, std::string& out) = 0;
  // `piece` belongs to the last block. Not empty.
  virtual void OnPiece(MessageBlockKind kind, std::string_view piece, std::string& out) = 0;
  virtual void OnBlockEnd(MessageBlockKind kind, std::string& out) = 0;
  virtual void OnStop(MessageStop stop, std::string& out) = 0;

  const MessageFrame frame_;
  MessageUsage usage_;

 private:
  void AddDelta(const v1::OutputDelta& delta, std::string& out) {
    usage_.output_tokens += static_cast<uint64_t>(delta.token_ids_size());
    AddText(MessageBlockKind::kThinking, delta.reasoning(), out);
    AddText(MessageBlockKind::kText, delta.text(), out);
    for (const v1::ToolCallDelta& call : delta.tool_calls()) {
      if (open_ != MessageBlockKind::kToolUse || call.index() != call_index_) {
        call_index_ = call.index();
        ++num_calls_;
        Open({.kind = MessageBlockKind::kToolUse, .id = call.id(), .name = call.name()}, out);
      }
      if (!call.arguments().empty()) OnPiece(MessageBlockKind::kToolUse, call.arguments(), out);
    }
  }
  void AddText(MessageBlockKind kind, std::string_view text, std::string& out) {
    if (text.empty()) return;
    if (open_ != kind) Open({.kind = kind}, out);
    OnPiece(kind, text, out);
  }
  void AddFinish(const v1::Finish& finish, std::string& out) {
    Close(out);
    if (finish.has_usage()) {
      usage_.output_tokens = finish.usage().completion_tokens();
      usage_.thinking_tokens = finish.usage().reasoning_tokens();
    }
    OnStop(MessageStopOf(finish, frame_, usage_.output_tokens, num_calls_), out);
  }
  void Open(MessageBlock head, std::string& out) {
    Close(out);
    open_ = head.kind;
    OnBlock(std::move(head), out);
  }
  void Close(std::string& out) {
    if (open_.has_value()) OnBlockEnd(*open_, out);
    open_.reset();
  }

  std::optional<MessageBlockKind> open_;
  uint32_t call_index_ = 0;  // of the open call
  size_t num_calls_ = 0;
};

// Server-sent events.
class MessageStream final : public MessageWriter {
 public:
  explicit MessageStream(MessageFrame frame) : MessageWriter(std::move(frame)) {}

  void Finish(std::string& out) override {
    AppendEvent("message_stop", out, [](JsonWriter&) {});
  }
  void Fail(const absl::Status& status, std::string& out) override {
    const OpenAiError error = MessagesErrorOf(status);
    out += "event: error\ndata: ";
    AppendAnthropicError(error.http_status, error.message, frame_.request_id, out);
    out += "\n\n";
  }
  size_t num_held_bytes() const override { return 0; }

 private:
  // `write` adds members to the event's object.
  template <typename Write>
  static void AppendEvent(std::string_view type, std::string& out, const Write& write) {
    out += "event: ";
    out += type;
    out += "\ndata: ";
    JsonWriter json(out);
    json.BeginObject().Key("type").String(type);
    write(json);
    json.EndObject();
    out += "\n\n";
  }

  void OnStart(std::string& out) override {
    AppendEvent("message_start", out, [this](JsonWriter& json) {
      json.Key("message");
      BeginMessage(frame_, json);
      json.BeginArray().EndArray();
      WriteStop(nullptr, json);
      json.Key("usage");
      WriteMessageUsage(usage_, json);
      json.EndObject();
    });
    AppendEvent("ping", out, [](JsonWriter&) {});
  }
  void OnBlock(MessageBlock head, std::string& out) override {
    AppendEvent("content_block_start", out, [&](JsonWriter& json) {
      json.Key("index").Int(index_).Key("content_block");
      WriteBlock(head, json);
    });
    // As Anthropic does. If no arguments follow, the input stays {}.
    if (head.kind == MessageBlockKind::kToolUse) OnPiece(head.kind, "", out);
  }
  void OnPiece(MessageBlockKind kind, std::string_view piece, std::string& out) override {
    AppendDelta(out, [&](JsonWriter& json) { WriteBlockDelta(kind, piece, json); });
  }
  void OnBlockEnd(MessageBlockKind kind, std::string& out) override {
    if (kind == MessageBlockKind::kThinking) {
      AppendDelta(out, [](JsonWriter& json) {
        json.BeginObject().Key("type").String("signature_delta").Key("signature").String("");
        json.EndObject();
      });
    }
    AppendEvent("content_block_stop", out,
                [this](JsonWriter& json) { json.Key("index").Int(index_); });
    ++index_;
  }
  void OnStop(MessageStop stop, std::string& out) override {
    AppendEvent("message_delta", out, [&](JsonWriter& json) {
      json.Key("delta").BeginObject();
      WriteStop(&stop, json);
      json.EndObject().Key("usage");
      WriteMessageUsage(usage_, json);
    });
  }
  template <typename Write>
  void AppendDelta(std::string& out, const Write& write) const {
    AppendEvent("content_block_delta", out, [&](JsonWriter& json) {
      json.Key("index").Int(index_).Key("delta");
      write(json);
    });
  }

  uint32_t index_ = 0;  // of the open block
};

// One JSON object at the end.
class WholeMessage final : public MessageWriter {
 public:
  explicit WholeMessage(MessageFrame frame) : MessageWriter(std::move(frame)) {}

  void Finish(std::string& out) override {
    JsonWriter json(out);
    BeginMessage(frame_, json);
    json.BeginArray();
    // Clients run the calls of an answer that the model ended, so a broken call is left out of it.
    const bool is_cut =
        stop_.reason == "max_tokens" || stop_.reason == "model_context_window_exceeded";
    for (const MessageBlock& block : blocks_) {
      if (is_cut || !IsBrokenCall(block)) WriteBlock(block, json);
    }
    json.EndArray();
    WriteStop(&stop_, json);
    json.Key("usage");
    WriteMessageUsage(usage_, json);
    json.EndObject();
  }
  void Fail(const absl::Status&, std::string&) override {}
  size_t num_held_bytes() const override { return num_held_bytes_; }

 private:
  void OnStart(std::string&) override {}
  void OnBlock(MessageBlock head, std::string&) override {
    num_held_bytes_ += kBlockBytes + head.id.size() + head.name.size();
    blocks_.push_back(std::move(head));
  }
  void OnPiece(MessageBlockKind, std::string_view piece, std::string&) override {
    num_held_bytes_ += piece.size();
    blocks_.back().text += piece;
  }
  void OnBlockEnd(MessageBlockKind, std::string&) override {}
  void OnStop(MessageStop stop, std::string&) override { stop_ = std::move(stop); }

  std::vector<MessageBlock> blocks_;
  MessageStop stop_;
  size_t num_held_bytes_ = 0;
};

}  // namespace

MessageStop MessageStopOf(const v1::Finish& finish, const MessageFrame& frame,
                          uint64_t output_tokens, size_t num_calls) {
  switch (finish.reason()) {
    case v1::FINISH_REASON_STOP:
      if (finish.matched_case() == v1::Finish::kStopString) {
        return {.reason = "stop_sequence", .sequence = finish.stop_string()};
      }
      // OpenAI's API does not call it a tool's call if the request named the tool. This one does.
      return {.reason = frame.names_tool && num_calls > 0 ? "tool_use" : "end_turn"};
    case v1::FINISH_REASON_LENGTH:
      // The router lowers max_tokens where the context has no room for them.
      return {.reason = output_tokens < frame.max_tokens ? "model_context_window_exceeded"
                                                         : "max_tokens"};
    case v1::FINISH_REASON_TOOL_CALLS:
      return {.reason = "tool_use"};
    default:
      return {.reason = "abort"};
  }
}

std::unique_ptr<AnswerWriter> MakeMessageWriter(MessageFrame frame, bool stream) {
  if (stream) return std::make_unique<MessageStream>(std::move(frame));
  return std::make_unique<WholeMessage>(std::move(frame));
}

}  // namespace lockstep::router
