#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/rpc/rpc_tls.h"

namespace lockstep {

// A connected socket that does not block, in TLS or not. Owns the descriptor. Not safe to use from
// several threads, except ShutDown.
class RpcSocket {
 public:
  enum class Result { kDone, kWouldBlock, kClosed };

  // `ssl` null: plaintext. A connection that is still being made is fine.
  RpcSocket(int descriptor, SslPtr ssl);
  RpcSocket(const RpcSocket&) = delete;
  RpcSocket& operator=(const RpcSocket&) = delete;
  ~RpcSocket();

  int descriptor() const { return descriptor_; }
  // kDone, without TLS at once: bytes can be read and written. kClosed: error() says why.
  Result Handshake();
  // At least one byte if kDone.
  Result Read(char* room, size_t max_bytes, size_t& num_bytes);
  Result Write(std::string_view bytes, size_t& num_bytes);
  // What would block waits for room, not for bytes.
  bool waits_for_room() const { return waits_for_room_; }
  bool encrypted() const { return ssl_ != nullptr; }
  // Bytes that came and were not read, though the kernel has none.
  bool has_unread() const { return ssl_ != nullptr && SSL_pending(ssl_.get()) > 0; }
  // The other side hears that the connection ends, and so does a poll of this one. Any thread.
  void ShutDown();
  // Why the latest result was kClosed.
  const std::string& error() const { return error_; }

 private:
  Result Fail(int ssl_result);

  const int descriptor_;
  const SslPtr ssl_;
  bool connected_ = false;
  bool waits_for_room_ = false;
  std::string error_;
};

}  // namespace lockstep
