#pragma once

#include <map>
#include <string>

namespace lockstep::router {

// A model's chat templates, as in its files, and the special tokens that they may print.
struct TemplateSource {
  // Jinja sources by name. "default" renders chats, "tool_use" renders chats with tools. Empty: no
  // templates.
  std::map<std::string, std::string> templates;
  // One JSON object: {"bos_token": "<s>", ...}. A template sees each member as a variable.
  std::string special_tokens_json = "{}";
};

}  // namespace lockstep::router
