#pragma once

#include <absl/status/status.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/shown_text.h"

// Checks of single fields of a client's message. Errors are INVALID_ARGUMENT "path: expected ...,
// got ...".
namespace lockstep::router {

// Allows at most `max_bytes` characters of [A-Za-z0-9._:-].
absl::Status CheckId(std::string_view path, std::string_view id, size_t max_bytes);
absl::Status CheckSize(std::string_view path, size_t size, size_t max, std::string_view unit);
absl::Status CheckCount(std::string_view path, uint32_t value, uint32_t low, uint32_t high);
absl::Status CheckRange(std::string_view path, float value, float low, float high);  // [low, high]

// Checks the tokens of a text. A tokenizer may know more tokens than the model has embeddings.
absl::Status CheckModelTokens(std::string_view path, std::span<const TokenId> tokens,
                              uint32_t vocab_size);

// The error for `parse_special` in a request without a text prompt.
absl::Status ParseSpecialWithoutText();

// UNIMPLEMENTED for a field that this router does not know, because it could change the output.
absl::Status CheckKnownFields(std::string_view path, const google::protobuf::Message& message);

}  // namespace lockstep::router
