#include "router/public_server.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/runtime/bounded_queue.h"
#include "tests/router/front/http2_client.h"
#include "tests/router/http/http_fixture.h"
#include "tests/support/http2_frames.h"

namespace lockstep::testing {
namespace {

class PublicServerTest : public HttpServingTest {};

TEST_F(PublicServerTest, TheFirstConnectionsOfTwoListenersLiveOnTwoThreads) {
  StartRouter();
  BoundedQueue<std::thread::id> threads(16);
  auto services = std::make_unique<router::GrpcServices>(1024);
  services->Add("/test.Test/Where", [&threads](router::GrpcCallStart start) {
    threads.TryPush(std::this_thread::get_id());
    return std::make_shared<router::RefusedCall>(std::move(start.transport), router::GrpcStatus());
  });
  http_config_.listeners = {"127.0.0.1:0", "127.0.0.1:0"};
  http_config_.num_threads = 2;
  auto started =
      router::PublicServer::Start(http_config_, router_->api(), registry_, std::move(services));
  ASSERT_TRUE(started.ok()) << started.status();
  http_ = *std::move(started);
  const auto thread_of = [&threads](Http2Client& client) {
    client.Send(Preface() + Frame(kHeaders, kEndHeaders | kEndStream, 1,
                                  Hpack(RequestFields("/test.Test/Where",
                                                      {{"content-type", "application/grpc"}}))));
    EXPECT_TRUE(client.Await(kHeaders).has_value());
    return threads.PopFor(absl::Minutes(1));
  };
  Http2Client first(http_->addresses()[0].port);
  const std::optional<std::thread::id> of_first = thread_of(first);
  Http2Client second(http_->addresses()[1].port);
  const std::optional<std::thread::id> of_second = thread_of(second);
  ASSERT_TRUE(of_first.has_value() && of_second.has_value());
  EXPECT_NE(of_first, of_second);
}

}  // namespace
}  // namespace lockstep::testing
