#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "router/public_server.h"
#include "tests/router/front/http_client.h"
#include "tests/router/serving/serving_fixture.h"

namespace lockstep::testing {

// The gateway in front of a whole router and worker.
class HttpServingTest : public ServingTest {
 protected:
  HttpServingTest() {
    http_config_.listeners = {"127.0.0.1:0"};
    // Greedy unless a request says otherwise, so that the model's words are sure.
    model_.config.generation_defaults.temperature = 0;
  }
  // Requests may still be held: their connections go first.
  ~HttpServingTest() override { http_.reset(); }

  // Router and gateway; a worker too, unless there is to be none.
  void StartAll() {
    StartBoth();
    StartHttp();
  }
  void StartHttp() {
    auto started = router::PublicServer::Start(http_config_, router_->api(), registry_);
    ASSERT_TRUE(started.ok()) << started.status();
    http_ = *std::move(started);
  }

  uint16_t port() const { return http_->addresses().front().port; }
  // On a connection of its own.
  HttpResponse Post(const std::string& path, const std::string& body) {
    return HttpClient(port()).Post(path, body);
  }
  HttpResponse Get(const std::string& path) { return HttpClient(port()).Get(path); }
  static nlohmann::json Json(const HttpResponse& response) {
    return nlohmann::json::parse(response.body);
  }
  // The "text" of the first choice; the deltas' "content" in a stream of a chat.
  static std::string Text(const HttpResponse& response);

  router::PublicServerConfig http_config_;
  std::unique_ptr<router::PublicServer> http_;
};

}  // namespace lockstep::testing
