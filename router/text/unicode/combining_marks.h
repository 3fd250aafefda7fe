#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace lockstep::router {

// Puts long runs of combining marks into canonical order (Unicode 15, section 3.11), so that a
// normaliser that sorts by insertion takes linear time. Marks that decompose are decomposed there.
// The result is canonically equivalent to `text`, which is valid UTF-8: all normal forms of both
// are equal. Returns `text` itself if it has no such run, otherwise a view of `storage`.
absl::StatusOr<std::string_view> OrderLongMarkRuns(std::string_view text, std::string& storage);

}  // namespace lockstep::router
