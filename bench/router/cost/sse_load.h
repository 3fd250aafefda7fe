#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/router/cost/load.h"
#include "common/runtime/named_thread.h"

namespace lockstep::bench {

// Clients of the HTTP API that stream completions, a connection each, all served by one thread
// ("sse"). Every event counts as a chunk.
class SseLoad {
 public:
  // `address`: of IPv4, as in "127.0.0.1:8000".
  static absl::StatusOr<std::unique_ptr<SseLoad>> Make(const std::string& address);
  ~SseLoad();

  absl::Status Open(const StreamShape& shape);
  LoadRecord& record() { return record_; }

 private:
  struct Stream;

  SseLoad() = default;
  void Run(const std::stop_token& stop);
  void Read(Stream& stream);

  std::string host_;
  uint16_t port_ = 0;
  int epoll_fd_ = -1;
  LoadRecord record_;
  std::vector<std::unique_ptr<Stream>> streams_;
  NamedThread thread_;
};

}  // namespace lockstep::bench
