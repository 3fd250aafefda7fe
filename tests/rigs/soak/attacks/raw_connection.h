#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::bench {

// The TCP connection of an attacker. It sends the bytes that the caller gives, while the other side
// takes them, and reads only when the caller asks. One thread at a time. The caller bounds every
// wait.
class RawConnection {
 public:
  RawConnection() = default;  // closed
  // "127.0.0.1:8000"; closed when nobody listens there.
  explicit RawConnection(const std::string& address);
  RawConnection(RawConnection&& other) noexcept;
  RawConnection& operator=(RawConnection&& other) noexcept;
  ~RawConnection() { Close(); }

  bool open() const { return fd_ >= 0; }
  void Close();
  // How many bytes were taken; the connection is closed when the other side has closed it.
  size_t Send(std::string_view bytes, std::chrono::milliseconds patience);
  // What is there, at most so much; empty when nothing comes, or the connection has ended, which
  // closes it.
  std::string Read(size_t max_bytes, std::chrono::milliseconds patience);

 private:
  bool Await(short events, std::chrono::milliseconds patience) const;

  int fd_ = -1;
};

}  // namespace lockstep::bench
