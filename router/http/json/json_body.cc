#include "router/http/json/json_body.h"

#include "common/status.h"
#include "router/constraints/constraint_limits.h"

namespace lockstep::router {
namespace {

// Parts of a body have limits of their own, of at most kMaxSchemaDepth levels: schemas, tools, the
// input of a call. A body may hold such a part this deep. ParseJson needs no stack for nesting, and
// the walks over a body that do are as shallow as this.
constexpr size_t kMaxDepthOfParts = 8;
constexpr JsonLimits kBodyLimits = {.max_depth = kMaxDepthOfParts + kMaxSchemaDepth,
                                    .max_values = 4'000'000};

}  // namespace

absl::StatusOr<nlohmann::json> ParseBody(std::string_view body, const BodyMeter& meter,
                                         JsonMemberText* member) {
  absl::StatusOr<nlohmann::json> parsed = ParseJson(body, "body", kBodyLimits, meter, member);
  if (parsed.ok() && !parsed->is_object()) {
    return InvalidArgument("body: expected a JSON object, got {}", DescribeJson(*parsed));
  }
  return parsed;
}

}  // namespace lockstep::router
