#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "common/json/json.h"

// What a file is that is not what its name says. Downloads that went wrong leave pointers of
// git-lfs, web pages and empty files in model folders. An error must say so, instead of what a
// parser makes of them.
namespace lockstep {

// In words for an error, such as "is a git-lfs pointer, ...". Empty if nothing is recognised.
std::string DescribeFileKind(std::string_view bytes);

// INVALID_ARGUMENT "NAME: the file is a git-lfs pointer, ...; expected EXPECTED" if the file is of
// another kind that is recognised. The overload for bytes also refuses a file of plain text. Call
// it for a file that cannot be read: a good file may begin as another kind does.
absl::Status RefuseOtherKinds(std::string_view text, const std::string& name,
                              std::string_view expected);
absl::Status RefuseOtherKinds(std::span<const std::byte> bytes, const std::string& name,
                              std::string_view expected);

// What is at the path of a model where neither a GGUF file nor a folder with config.json is: the
// end of an error, such as "; it has x.gguf, ...". Empty if nothing is recognised.
std::string DescribeModelPath(const std::string& path);

// ParseJson of the text of a model's file.
absl::StatusOr<nlohmann::json> ParseModelJson(std::string_view text, const std::string& name,
                                              JsonLimits limits = {});

}  // namespace lockstep
