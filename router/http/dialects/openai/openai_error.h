#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "router/http/messages/http_head.h"

namespace lockstep::router {

// A field of the gRPC API that has another name in a JSON body.
struct FieldName {
  std::string_view path;  // whole, or ending in "." for everything below it
  std::string_view json_name;
};
// The first name that fits counts.
using FieldNames = std::span<const FieldName>;
FieldNames CompletionFieldNames();
FieldNames ChatFieldNames();

// A status in the error format of OpenAI's API.
struct OpenAiError {
  int http_status = 500;
  std::string_view type = {};
  std::string_view code = {};  // empty: null
  std::string param = {};      // the field by its JSON name; empty: null
  std::string message = {};
  bool retry = false;  // a later retry may succeed

  // `status` must not be OK.
  static OpenAiError Of(const absl::Status& status, FieldNames names = CompletionFieldNames());

  // {"error":{"message":...,"type":...,"param":...,"code":...}}
  void AppendJson(std::string& out) const;
};

// The head of the answer to `status`. It has a hint when to try again if that is worth it.
HttpHead ErrorHead(const absl::Status& status, absl::Duration retry_after);

// Replaces the gRPC name of the field at the beginning of a message ("sampling.top_p: expected
// ...") by its name in a JSON body.
std::string WithJsonFieldName(std::string_view message, FieldNames names);

// The error of the prompt at `index` of a completion's list: "text: expected ..." becomes
// "prompt[2]: expected ...". Errors of fields that all prompts share stay as they are.
absl::Status OfListedPrompt(const absl::Status& status, size_t index);

}  // namespace lockstep::router
