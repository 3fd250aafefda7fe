#include "router/templates/renderer_frames.h"

#include <array>
#include <optional>

#include "common/caged/frame_io.h"
#include "common/status.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

enum class JobKind : char { kLoad = 'L', kRender = 'R' };
FrameWriter StartJob(JobKind kind, size_t num_bytes) {
  FrameWriter writer(num_bytes);
  writer.Byte(static_cast<char>(kind));
  return writer;
}

// In the order of the frame.
constexpr auto kTextsOfMessage = std::to_array<std::string ChatMessage::*>(
    {&ChatMessage::role, &ChatMessage::content, &ChatMessage::name, &ChatMessage::tool_calls_json,
     &ChatMessage::tool_call_id, &ChatMessage::reasoning});

}  // namespace

std::string LoadFrame(const TemplateSource& source) {
  FrameWriter writer = StartJob(JobKind::kLoad, 0);
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
  FrameWriter writer = StartJob(JobKind::kRender, bytes);
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

absl::StatusOr<std::string> ParseAnswer(std::string_view payload) {
  const std::optional<CagedAnswer> answer = ParseCagedAnswer(payload);
  if (!answer || answer->text.size() > kMaxRenderedBytes) {
    return absl::InternalError("not an answer of a renderer");
  }
  std::string text(answer->text);
  if (!answer->failed) return text;
  if (text.size() > kMaxCagedErrorBytes || FindInvalidUtf8(text)) {
    text = "the chat template raised an error that is no text";
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace lockstep::router
