#pragma once

#include <map>
#include <string>
#include <string_view>

#include "router/http/json/json_fields.h"

namespace lockstep::router {

// Arguments of a chat template and their JSON.
using ThinkingArguments = std::map<std::string_view, std::string>;

// Whether a word says how much reasoning there should be: "none", "minimal", "low", "medium",
// "high", "xhigh" or "max".
bool IsEffort(std::string_view word);

// Reads the fields that switch a model's reasoning on or off, or say how much there should be. They
// only become arguments of the template: what they do is up to the template. Errors stay in
// `fields`.
ThinkingArguments ReadThinking(JsonFields& fields);

}  // namespace lockstep::router
