#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/http2_frames.h"

namespace lockstep::testing {

// A connection whose frames the test makes.
class Http2Client {
 public:
  // The kernel's buffer for what comes is of its own choice when `receive_bytes` is 0.
  explicit Http2Client(uint16_t port, int receive_bytes = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;
  ~Http2Client() { ::close(fd_); }

  // False once the other side has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Nothing when the connection ends before.
  std::optional<SeenFrame> Next() {
    while (frames_.empty()) {
      if (!Read()) return std::nullopt;
    }
    SeenFrame frame = std::move(frames_.front());
    frames_.erase(frames_.begin());
    return frame;
  }
  // The next one of this type; likewise.
  std::optional<SeenFrame> Await(uint8_t type) {
    for (;;) {
      std::optional<SeenFrame> frame = Next();
      if (!frame.has_value() || frame->type == type) return frame;
    }
  }
  // True when the other side closed; frames before that are of no interest.
  bool AwaitEnd() {
    while (Read()) {
    }
    return ended_;
  }

 private:
  bool Read() {
    char buffer[4096];
    const ssize_t count = ::recv(fd_, buffer, sizeof(buffer), 0);
    ended_ = count == 0 || (count < 0 && errno == ECONNRESET);
    if (count <= 0) return false;
    received_.append(buffer, static_cast<size_t>(count));
    for (SeenFrame& frame : TakeFrames(received_)) frames_.push_back(std::move(frame));
    return true;
  }

  const int fd_;
  std::string received_;
  std::vector<SeenFrame> frames_;
  bool ended_ = false;
};

}  // namespace lockstep::testing
