#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace lockstep::cli {

// "org/name", as Hugging Face names a model. Pure.
bool IsHubName(std::string_view text);

// OK for a GGUF file and for a folder with config.json. NOT_FOUND or INVALID_ARGUMENT quoting
// `path` for anything else.
absl::Status CheckModelPath(const std::string& path);

bool Exists(const std::string& path);

}  // namespace lockstep::cli
