#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/router/http/http_fixture.h"

// The gateway's answers, over a socket, with a whole router and worker behind it.
namespace lockstep::testing {

class GatewayTest : public HttpServingTest {
 protected:
  void ExpectError(const HttpResponse& response, int status, const nlohmann::json& param,
                   const std::string& words) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(response.headers.at("content-type"), "application/json");
    const nlohmann::json error = Json(response)["error"];
    EXPECT_EQ(error["param"], param) << response.body;
    EXPECT_THAT(error["message"].get<std::string>(), ::testing::HasSubstr(words));
  }
  // What the model says after these bytes (and the start token).
  static std::string After(const std::string& prompt, uint32_t num_tokens) {
    return Continuation(static_cast<uint32_t>(prompt.size()) + 1, num_tokens);
  }
};

}  // namespace lockstep::testing
