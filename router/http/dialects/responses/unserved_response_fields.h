#pragma once

#include <span>
#include <string_view>

#include "router/http/json/json_fields.h"

// The fields of the Responses API, and of other APIs, that this path does not serve.
namespace lockstep::router {

std::span<const UnservedField> UnservedOfResponses();
// Members of `text`.
std::span<const UnservedField> UnservedOfText();
// Fields that do not affect the output.
std::span<const std::string_view> IgnoredOfResponses();

}  // namespace lockstep::router
