#include "router/http/json/json_body.h"

#include "common/status.h"

namespace lockstep::router {
namespace {

// Schemas, also those of tools, and the arguments of calls have limits of their own, of 64 levels.
// A body holds such a part at most 8 levels deep. ParseJson needs no stack for nesting, and what
// walks through a body goes no deeper than this.
constexpr JsonLimits kBodyLimits = {.max_depth = 8 + 64, .max_values = 4'000'000};

}  // namespace

absl::StatusOr<nlohmann::json> ParseBody(std::string_view body, const BodyMeter& meter) {
  absl::StatusOr<nlohmann::json> parsed = ParseJson(body, "body", kBodyLimits, meter);
  if (parsed.ok() && !parsed->is_object()) {
    return InvalidArgument("body: expected a JSON object, got {}", DescribeJson(*parsed));
  }
  return parsed;
}

}  // namespace lockstep::router
