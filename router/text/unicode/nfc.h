#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace lockstep::router {

// Unicode Normalization Form C of valid UTF-8, by ICU. Returns `text` itself when it is normalised
// already, otherwise a view of `storage`. INTERNAL if ICU fails.
absl::StatusOr<std::string_view> NormalizeNfc(std::string_view text, std::string& storage);

}  // namespace lockstep::router
