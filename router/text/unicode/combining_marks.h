#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace lockstep::router {

// Puts long runs of combining marks into canonical order (Unicode 15, section 3.11). A normaliser
// that sorts by insertion then takes linear time. Marks in these runs are decomposed if they
// decompose. `text` must be valid UTF-8. The result is canonically equivalent: all its normal forms
// are equal to those of `text`. Returns `text` itself if it has no such run, otherwise a view of
// `storage`.
absl::StatusOr<std::string_view> OrderLongMarkRuns(std::string_view text, std::string& storage);

}  // namespace lockstep::router
