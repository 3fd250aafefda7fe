#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "router/serving/prompts/foreign_text.h"
#include "router/serving/prompts/served_model.h"
#include "router/serving/prompts/special_spellings.h"

namespace lockstep::router {

// From a request's prompt to token ids. Immutable; safe to use from any thread.
//
// In a text prompt, "<|im_end|>" is the special token if the request, or else the router's default,
// says so. In a chat, special tokens come from the model's template alone: what a client writes in
// a message is encoded as the characters that it is. Limits of that promise: a template that
// deletes or replaces characters inside a message could join two harmless parts into a spelling;
// and text next to a hidden spelling is cut there into pieces that are encoded one by one. Messages
// without any spelling are encoded exactly as the whole rendering is.
class PromptEncoder {
 public:
  // `model` must outlive the object. `parse_special`: of text prompts that do not say it.
  explicit PromptEncoder(const ServedModel& model, bool parse_special = true);

  // What a message costs in the rendering, as if it were bytes of text.
  static constexpr size_t kMessageWorkBytes = 512;
  // How much work EncodeChat has, in bytes of text to tokenize. A chat with arguments is rendered
  // twice.
  static size_t NumWorkBytes(const lockstep::v1::ChatPrompt& chat);

  // INVALID_ARGUMENT with the field's path; the request must have passed CheckRequest.
  absl::StatusOr<std::vector<TokenId>> Encode(const lockstep::v1::GenerateRequest& request) const;
  absl::StatusOr<std::vector<TokenId>> EncodeText(std::string_view text,
                                                  const Tokenizer::EncodeOptions& options) const;
  // Of a request for a text: its own `parse_special`, or the default.
  template <typename Message>
  bool ParsesSpecial(const Message& request) const {
    return request.has_parse_special() ? request.parse_special() : parse_special_;
  }
  absl::StatusOr<std::vector<TokenId>> EncodeChat(const lockstep::v1::ChatPrompt& chat) const;

 private:
  absl::StatusOr<std::vector<ForeignText::Piece>> Render(const lockstep::v1::ChatPrompt& chat,
                                                         bool mask_borders) const;
  // The special tokens that the template's own pieces spell, in order.
  std::vector<std::string> SpecialsOf(const std::vector<ForeignText::Piece>& pieces) const;

  const ServedModel& model_;
  const bool parse_special_;
  const SpecialSpellings spellings_;
};

}  // namespace lockstep::router
