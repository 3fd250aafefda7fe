#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::router {

// Judges values by a JSON schema, independently of the constraint engine. Knows the keywords that
// the tests of this folder use, and ends the test's process at any other one. Empty: the value
// fits. Otherwise why it does not.
std::string WhyUnfit(const nlohmann::json& value, const nlohmann::json& schema,
                     const nlohmann::json& root);

}  // namespace lockstep::router
