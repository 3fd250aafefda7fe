#include "router/http/json/json_body.h"

#include "common/status.h"

namespace lockstep::router {
namespace {

constexpr JsonLimits kBodyLimits = {.max_depth = 32, .max_values = 4'000'000};

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
