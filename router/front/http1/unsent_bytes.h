#pragma once

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "common/runtime/release_memory.h"
#include "router/front/connection/connection_stream.h"

namespace lockstep::router {

// The bytes that an HTTP/1.1 connection sends now: head and frames first, then the body of an
// answer. One thread at a time.
class UnsentBytes {
 public:
  // Replaces what was sent. Both strings may still change until Begin.
  void Set(std::string_view head, std::string body) {
    head_ = head;
    body_ = std::move(body);
  }
  std::string& head() { return head_; }
  std::string& body() { return body_; }

  // Nothing is sent yet.
  void Begin() {
    // Up to this size, copying is cheaper than a second buffer. In TLS each buffer is its own
    // record.
    constexpr size_t kMaxJoinedBytes = 16 << 10;
    num_sent_bytes_ = 0;
    if (body_.size() > kMaxJoinedBytes) return;
    head_ += body_;
    body_.clear();
  }
  // This many bytes more were sent. True: all were.
  bool Advance(size_t num_bytes) {
    num_sent_bytes_ += num_bytes;
    return num_sent_bytes_ == head_.size() + body_.size();
  }
  ConnectionStream::Buffers Rest() const {
    const size_t of_head = std::min(num_sent_bytes_, head_.size());
    ConnectionStream::Buffers rest = {boost::asio::buffer(head_) + of_head,
                                      boost::asio::buffer(body_) + (num_sent_bytes_ - of_head)};
    if (rest[0].size() == 0) std::swap(rest[0], rest[1]);
    return rest;
  }
  void Release() {
    ReleaseMemory(head_);
    ReleaseMemory(body_);
  }

 private:
  std::string head_;
  std::string body_;
  size_t num_sent_bytes_ = 0;
};

}  // namespace lockstep::router
