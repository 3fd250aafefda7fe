#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <span>
#include <string>

#include "router/text/tokenizer/template_source.h"

namespace lockstep::router {

inline constexpr size_t kMaxRenderedBytes = size_t{16} << 20;  // of a prompt's text
inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;   // of all Jinja sources of a model

struct ChatMessage {
  std::string role;
  std::string content;
  std::string name;  // may be empty
  // The calls of tools that an assistant made: a JSON array in the form of OpenAI's `tool_calls`,
  // but `function.arguments` is an object. Empty: none. With calls, an empty content is undefined
  // for templates.
  std::string tool_calls_json = {};
  std::string tool_call_id = {};  // the call whose result this is; may be empty
  std::string reasoning = {};     // templates see it under each of the usual names
};

// A chat template that is ready to render.
// Safe to use from any thread.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  struct RenderOptions {
    bool add_generation_prompt = true;
    std::string extra_arguments_json;  // one JSON object or empty
    std::string tools_json = {};       // a JSON array of objects, or empty: no tools
    // Messages, arguments and tools hold marks (text_marks.h) that stand for these characters.
    // Empty: no marks.
    std::string marked_characters;
  };
  // The prompt's text, with special tokens spelled out. INVALID_ARGUMENT with the template's own
  // message if it raises an error (unknown role, wrong order of roles), and if the rendering needs
  // too much time or memory. UNAVAILABLE if no renderer is available.
  virtual absl::StatusOr<std::string> Render(std::span<const ChatMessage> messages,
                                             const RenderOptions& options) const = 0;
};

}  // namespace lockstep::router
