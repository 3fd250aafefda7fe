#include "router/templates/renderer_frames.h"

#include <array>
#include <utility>

#include "common/status.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

enum class JobKind : uint8_t { kLoad = 'L', kRender = 'R' };
constexpr char kOk = 'K';
constexpr char kError = 'E';

// In the order of the frame.
constexpr auto kTextsOfMessage = std::to_array<std::string ChatMessage::*>(
    {&ChatMessage::role, &ChatMessage::content, &ChatMessage::name, &ChatMessage::tool_calls_json,
     &ChatMessage::tool_call_id, &ChatMessage::reasoning});

// Starts with room for the header; Finish fills it in.
class Writer {
 public:
  Writer(JobKind kind, size_t num_bytes) {
    frame_.reserve(kFrameHeaderBytes + num_bytes);
    frame_.assign(kFrameHeaderBytes, '\0');
    frame_ += static_cast<char>(kind);
  }

  void Flag(bool value) { frame_ += value ? '1' : '0'; }
  void Length(size_t length) {
    for (size_t i = 0; i < kFrameHeaderBytes; ++i) frame_ += static_cast<char>(length >> (8 * i));
  }
  void String(std::string_view text) {
    Length(text.size());
    frame_ += text;
  }
  std::string Finish() {
    const size_t length = frame_.size() - kFrameHeaderBytes;
    for (size_t i = 0; i < kFrameHeaderBytes; ++i) frame_[i] = static_cast<char>(length >> (8 * i));
    return std::move(frame_);
  }

 private:
  std::string frame_;
};

}  // namespace

std::string LoadFrame(const TemplateSource& source) {
  Writer writer(JobKind::kLoad, 0);
  writer.Length(source.templates.size());
  for (const auto& [name, text] : source.templates) {
    writer.String(name);
    writer.String(text);
  }
  writer.String(source.special_tokens_json);
  return writer.Finish();
}

absl::StatusOr<std::string> RenderFrame(std::span<const ChatMessage> messages,
                                        const ChatTemplate::RenderOptions& options) {
  size_t bytes = 64 + options.extra_arguments_json.size() + options.tools_json.size() +
                 options.marked_characters.size();
  for (const ChatMessage& message : messages) {
    for (std::string ChatMessage::* const text : kTextsOfMessage) {
      bytes += kFrameHeaderBytes + (message.*text).size();
    }
  }
  if (bytes > kMaxJobBytes) {
    return InvalidArgument("a chat of {} bytes, expected at most {}", bytes, kMaxJobBytes);
  }
  Writer writer(JobKind::kRender, bytes);
  writer.Flag(options.add_generation_prompt);
  writer.String(options.marked_characters);
  writer.String(options.extra_arguments_json);
  writer.String(options.tools_json);
  writer.Length(messages.size());
  for (const ChatMessage& message : messages) {
    for (std::string ChatMessage::* const text : kTextsOfMessage) writer.String(message.*text);
  }
  return writer.Finish();
}

size_t PayloadBytes(std::string_view header) {
  size_t length = 0;
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length |= size_t{static_cast<uint8_t>(header[i])} << (8 * i);
  }
  return length;
}

absl::StatusOr<std::string> ParseAnswer(std::string_view payload) {
  constexpr size_t kTextBegin = 1 + kFrameHeaderBytes;
  if (payload.size() < kTextBegin) return absl::InternalError("not an answer of a renderer");
  const char kind = payload[0];
  std::string text(payload.substr(kTextBegin));
  if (PayloadBytes(payload.substr(1)) != text.size() || (kind != kOk && kind != kError) ||
      text.size() > kMaxRenderedBytes) {
    return absl::InternalError("not an answer of a renderer");
  }
  if (kind == kOk) return text;
  if (text.size() > kMaxErrorBytes || FindInvalidUtf8(text)) {
    text = "the chat template raised an error that is no text";
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace lockstep::router
