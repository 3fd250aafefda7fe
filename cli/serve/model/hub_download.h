#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

// Models of Hugging Face, fetched by its own command `hf` (the Python package huggingface_hub).
namespace lockstep::cli {

// `hf download` of the files that Lockstep reads: JSON, safetensors, templates, tokenizers. Pure.
std::vector<std::string> DownloadCommand(const std::string& hf, const std::string& name);

// The folder that `hf download` prints on its last line: alone, or after "path=" or "path: ". Empty
// if there is no line. Pure.
std::string PathOfDownload(std::string_view output);

// Downloads `name` if it is not there yet, with hf's progress on stderr. Returns the folder, or an
// error that says what to do.
absl::StatusOr<std::string> DownloadModel(const std::string& name);

}  // namespace lockstep::cli
