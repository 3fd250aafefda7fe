#include "cli/serve/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/common/status_matchers.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

// A socket that listens at a port of loopback, with SO_REUSEADDR as the router's.
class Listener {
 public:
  explicit Listener(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listens_ = bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
               listen(socket_, 1) == 0;
  }
  ~Listener() { close(socket_); }
  bool listens() const { return listens_; }

 private:
  const int socket_;
  bool listens_ = false;
};

const Address kAnyPort = {.host = "127.0.0.1", .port = 0};

TEST(ReservedPortTest, AnotherSocketMayListenAtAReservedPort) {
  const auto reserved = ReservedPort::Reserve(kAnyPort);
  ASSERT_THAT(reserved, IsOk());
  EXPECT_NE(reserved->port(), 0);
  EXPECT_TRUE(Listener(reserved->port()).listens());
}

TEST(ReservedPortTest, APortWhereSomebodyListensIsTaken) {
  const auto reserved = ReservedPort::Reserve(kAnyPort);
  ASSERT_THAT(reserved, IsOk());
  const Listener listener(reserved->port());
  ASSERT_TRUE(listener.listens());
  const Address address = {.host = "127.0.0.1", .port = reserved->port()};
  EXPECT_THAT(ReservedPort::Reserve(address),
              HasError(absl::StatusCode::kAlreadyExists, HasSubstr("is taken")));
  const uint16_t next = NextFreePort(address);
  EXPECT_GT(next, reserved->port());
  EXPECT_THAT(ReservedPort::Reserve({.host = "127.0.0.1", .port = next}), IsOk());
}

TEST(ReservedPortTest, NamesAnAddressThatIsNotOfThisMachine) {
  EXPECT_THAT(ReservedPort::Reserve({.host = "192.0.2.1", .port = 0}),
              HasError(kInvalid, HasSubstr("192.0.2.1")));
}

}  // namespace
}  // namespace lockstep::cli
