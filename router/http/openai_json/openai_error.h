#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "router/front/connection/exchange.h"
#include "router/http/openai_json/openai_request.h"

namespace lockstep::router {

// A status as clients of OpenAI's API expect to see it.
struct OpenAiError {
  int http_status = 500;
  std::string_view type = {};
  std::string_view code = {};  // empty: null
  std::string param = {};      // the field, as the client calls it; empty: null
  std::string message = {};
  bool retry = false;  // worth another try, later

  // `status` is not OK.
  static OpenAiError Of(const absl::Status& status, ApiKind kind);

  // {"error":{"message":...,"type":...,"param":...,"code":...}}
  void AppendJson(std::string& out) const;
};

// Of the answer that says `status`, with a hint when to come back where that is worth it.
HttpHead ErrorHead(const absl::Status& status, ApiKind kind, absl::Duration retry_after);

// "sampling.top_p: expected ..." names a field of the gRPC API: the same with the name that it has
// in a JSON body.
std::string WithJsonFieldName(std::string_view message, ApiKind kind);

// An error of the prompt at `index` of a list. "text: expected ..." becomes "prompt[2]: expected
// ...". Errors of fields that all prompts of the list share stay as they are.
absl::Status OfListedPrompt(const absl::Status& status, size_t index);

}  // namespace lockstep::router
