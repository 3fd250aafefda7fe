#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/json/json.h"
#include "router/serving/validation/request_validator.h"

namespace lockstep::router {

// Learns how much memory reading takes, and may refuse it (JsonMeter of common/json/json.h).
using BodyMeter = std::function<bool(size_t num_bytes)>;

// How the JSON body of a request is read.
struct BodyReading {
  BodyMeter meter = nullptr;
  bool strict_fields = false;  // unknown fields are refused
  // Errors show the true range of a number that does not fit the message's field.
  RequestLimits limits = {};
  uint32_t max_context_tokens = UINT32_MAX;
  std::string_view session_id = {};  // HttpRequest::session_id
};

// Parses a body, which must be one object.
absl::StatusOr<nlohmann::json> ParseBody(std::string_view body, const BodyMeter& meter);

}  // namespace lockstep::router
