#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/runtime/cancel_flag.h"

namespace lockstep::router {

// Canonical composition (Unicode normalisation form C) of valid UTF-8 by ICU. Takes linear time for
// every text. Returns `text` itself if it is normal already, otherwise a view of `storage`.
// CANCELLED soon after `cancellation`, which may be null.
absl::StatusOr<std::string_view> NormalizeNfc(std::string_view text, std::string& storage,
                                              const CancelFlag* cancellation = nullptr);

}  // namespace lockstep::router
