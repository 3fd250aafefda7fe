#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::router {

struct ChatMessage {
  std::string role;
  std::string content;
  std::string name;  // may be empty
};

// A model's Jinja chat template, parsed once; Render is safe from any thread.
class ChatTemplate {
 public:
  // INVALID_ARGUMENT for a template that does not parse or nests too deeply.
  static absl::StatusOr<std::unique_ptr<const ChatTemplate>> Parse(std::string_view source,
                                                                   std::string bos_token,
                                                                   std::string eos_token);
  virtual ~ChatTemplate() = default;

  struct RenderOptions {
    bool add_generation_prompt = true;
    std::string extra_arguments_json;  // one JSON object or empty
  };
  // The prompt text, special tokens spelled out. INVALID_ARGUMENT with the template's own message
  // when it raises (unknown role, wrong alternation).
  virtual absl::StatusOr<std::string> Render(std::span<const ChatMessage> messages,
                                             const RenderOptions& options) const = 0;
};

}  // namespace lockstep::router
