#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/runtime/cancel_flag.h"
#include "lockstep/v1/generation.pb.h"
#include "router/serving/prompts/chat_pieces.h"
#include "router/serving/prompts/served_model.h"
#include "router/serving/prompts/special_spellings.h"
#include "router/serving/prompts/text_marks.h"

namespace lockstep::router {

// Turns a request's prompt into token ids. Immutable. Safe to use from any thread.
//
// In a text prompt, "<|im_end|>" is the special token if the request says so, or else if the
// router's default says so. In a chat, special tokens come from the model's template alone. What a
// client writes in a message, in a tool or in an argument of the template is encoded as plain
// characters.
//
// The text of a prompt is the rendering, byte for byte. If client text spells a special token, or
// could together with the text next to it, the chat is rendered again with marks (text_marks.h).
// The marks show which special tokens are the template's. A spelling in client text is encoded
// alone, as plain text.
//
// This promise has a limit. If a template deletes or replaces characters inside a message, or
// changes their case, it could create a spelling that the client did not write.
class PromptEncoder {
 public:
  // `model` must outlive the object. `parse_special`: the default for text prompts.
  explicit PromptEncoder(const ServedModel& model, bool parse_special = true);

  // Counted for each message, for its part of the rendering. In bytes of text.
  static constexpr size_t kMessageWorkBytes = 512;
  // The amount of work of EncodeChat, in bytes of text to tokenize. Arguments, tools and calls are
  // parsed here and in the renderer, and count twice.
  static size_t NumWorkBytes(const lockstep::v1::ChatPrompt& chat);

  // INVALID_ARGUMENT gives the field's path. The request must have passed CheckRequest. CANCELLED
  // soon after `cancellation`, which may be null.
  absl::StatusOr<std::vector<TokenId>> Encode(const lockstep::v1::GenerateRequest& request,
                                              const CancelFlag* cancellation = nullptr) const;
  absl::StatusOr<std::vector<TokenId>> EncodeText(std::string_view text,
                                                  const Tokenizer::EncodeOptions& options) const;
  // For a request with a text: its own `parse_special`, or the default.
  template <typename Message>
  bool ParsesSpecial(const Message& request) const {
    return request.has_parse_special() ? request.parse_special() : parse_special_;
  }
  absl::StatusOr<std::vector<TokenId>> EncodeChat(const lockstep::v1::ChatPrompt& chat,
                                                  const CancelFlag* cancellation = nullptr) const;

 private:
  struct TemplateInput {
    std::vector<ChatMessage> messages;
    ChatTemplate::RenderOptions options;
  };
  std::string MarkJson(std::string_view json, TextMarks& marks) const;
  ChatMessage MarkMessage(const ChatMessage& message, TextMarks& marks) const;
  absl::StatusOr<std::vector<ChatPiece>> Render(const lockstep::v1::ChatPrompt& chat) const;
  absl::StatusOr<std::string> RenderOnce(const lockstep::v1::ChatPrompt& chat,
                                         TemplateInput input) const;

  const ServedModel& model_;
  const bool parse_special_;
  const SpecialSpellings spellings_;
};

}  // namespace lockstep::router
