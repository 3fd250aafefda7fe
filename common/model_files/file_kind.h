#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "common/json/json.h"

// Recognises files that are not what their names say. Failed downloads leave pointers of git-lfs,
// web pages and empty files in model folders. Errors must say so, instead of a parser's complaint.
namespace lockstep {

// Describes the file for an error, such as "is a git-lfs pointer, ...". Empty if nothing is
// recognised.
std::string DescribeFileKind(std::string_view bytes);

// INVALID_ARGUMENT "NAME: the file is a git-lfs pointer, ...; expected EXPECTED" if the file is
// recognised as another kind. The overload for bytes also refuses a file of plain text. Call this
// for a file that cannot be parsed: a good file may begin like another kind.
absl::Status RefuseOtherKinds(std::string_view text, const std::string& name,
                              std::string_view expected);
absl::Status RefuseOtherKinds(std::span<const std::byte> bytes, const std::string& name,
                              std::string_view expected);

// Describes a model's path that is neither a GGUF file nor a folder with config.json, for the end
// of an error: "; it has x.gguf, ...". Empty if nothing is recognised.
std::string DescribeModelPath(const std::string& path);

// ParseJson for the text of a model's file.
absl::StatusOr<nlohmann::json> ParseModelJson(std::string_view text, const std::string& name,
                                              JsonLimits limits = {});

}  // namespace lockstep
