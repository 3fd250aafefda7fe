#include "common/net/tcp_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <vector>

#include "common/runtime/bounded_queue.h"
#include "common/runtime/named_thread.h"

namespace lockstep {
namespace {

using boost::asio::ip::tcp;

int NewSocket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

bool Connect(int fd, uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// Waits for the server to say something, or to close.
bool ReadsA(int fd, char wanted) {
  char byte = 0;
  return ::recv(fd, &byte, 1, 0) == 1 && byte == wanted;
}

// Every descriptor that the process may have, until it goes. The limit is lowered, so that these
// are not many.
class AllDescriptors {
 public:
  AllDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = std::min<rlim_t>(before_.rlim_cur, 256);
    setrlimit(RLIMIT_NOFILE, &low);
    for (int fd; (fd = ::dup(STDERR_FILENO)) >= 0;) taken_.push_back(fd);
  }
  ~AllDescriptors() {
    for (const int fd : taken_) ::close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  rlimit before_ = {};
  std::vector<int> taken_;
};

TEST(TcpListenerTest, OutOfDescriptorsItTurnsAwayAndRecovers) {
  boost::asio::io_context io(1);
  BoundedQueue<bool> states(16);
  TcpListener listener(
      io,
      [](tcp::socket socket) {
        boost::system::error_code ignored;
        boost::asio::write(socket, boost::asio::buffer("x", 1), ignored);
      },
      [&states](bool accepting) { states.TryPush(accepting); });
  const auto port = listener.Listen({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(port.ok()) << port.status();
  listener.Accept();
  NamedThread thread("listener", [&io] { io.run(); });
  std::array<int, 10> sockets;
  for (int& fd : sockets) fd = NewSocket();
  ASSERT_TRUE(Connect(sockets[0], *port));
  EXPECT_TRUE(ReadsA(sockets[0], 'x'));
  // Its end: the server's descriptor is free from then on, not in the middle of what follows.
  EXPECT_FALSE(ReadsA(sockets[0], 'x'));
  {
    const AllDescriptors all;
    // Those who come are not left to wait.
    for (size_t i = 1; i < 8; ++i) {
      ASSERT_TRUE(Connect(sockets[i], *port));
      EXPECT_FALSE(ReadsA(sockets[i], 'x')) << i;
    }
    EXPECT_EQ(states.PopFor(absl::Minutes(1)), false);
  }
  EXPECT_EQ(states.PopFor(absl::Minutes(1)), true);
  ASSERT_TRUE(Connect(sockets[8], *port));
  EXPECT_TRUE(ReadsA(sockets[8], 'x'));
  for (const int fd : sockets) ::close(fd);
  io.stop();
}

}  // namespace
}  // namespace lockstep
