#include "common/net/listen_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "common/net/unix_socket.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using boost::asio::ip::tcp;
using ::testing::HasSubstr;

TEST(ListenCheckTest, ATakenPortIsNamedUntilItIsFree) {
  boost::asio::io_context io;
  auto acceptor = std::make_unique<tcp::acceptor>(
      io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  const std::string address = "127.0.0.1:" + std::to_string(acceptor->local_endpoint().port());
  EXPECT_THAT(CheckCanListen(address),
              HasError(absl::StatusCode::kUnavailable, HasSubstr(address)));
  acceptor.reset();
  EXPECT_THAT(CheckCanListen(address), IsOk());
  EXPECT_THAT(CheckCanListen(address), IsOk()) << "the check itself keeps nothing";
}

TEST(ListenCheckTest, ALivingUnixSocketIsTaken) {
  const TempFolder folder;
  const std::string path = folder.path() + "/socket";
  {
    const auto living = UnixListener::Listen(path);
    ASSERT_THAT(living, IsOk());
    EXPECT_THAT(CheckCanListen("unix:" + path),
                HasError(absl::StatusCode::kUnavailable, HasSubstr(path)));
  }
  EXPECT_THAT(CheckCanListen("unix:" + path), IsOk());
}

TEST(ListenCheckTest, BadAddressesAreNamed) {
  EXPECT_THAT(CheckCanListen("nowhere"),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("nowhere")));
  EXPECT_THAT(CheckCanListen("unix:"), HasError(absl::StatusCode::kInvalidArgument, HasSubstr("")));
}

}  // namespace
}  // namespace lockstep
