#pragma once

#include <map>
#include <string>

namespace lockstep::router {

// The chat templates of a model as its files have them, and the special tokens that they may print.
struct TemplateSource {
  // Jinja by name. "default" renders chats, and "tool_use" those with tools. Empty: no templates.
  std::map<std::string, std::string> templates;
  // One JSON object: {"bos_token": "<s>", ...}. A template sees each member as a variable.
  std::string special_tokens_json = "{}";
};

}  // namespace lockstep::router
