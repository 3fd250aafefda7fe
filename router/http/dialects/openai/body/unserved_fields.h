#pragma once

#include <span>
#include <string_view>

#include "router/http/json/json_fields.h"

// The fields of OpenAI, vLLM, llama.cpp and SGLang that this router does not serve.
namespace lockstep::router {

std::span<const UnservedField> UnservedOfEveryRequest();
std::span<const UnservedField> UnservedOfCompletions();
std::span<const UnservedField> UnservedOfChats();
std::span<const UnservedField> UnservedOfMessages();

// Fields that do not affect the output: bookkeeping of other services, hints about speed, and
// details of samplers that are off, because the field that turns them on is refused.
std::span<const std::string_view> IgnoredOfEveryRequest();

}  // namespace lockstep::router
