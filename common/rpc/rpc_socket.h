#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/rpc/rpc_tls.h"

namespace lockstep {

// A connected, non-blocking socket, with or without TLS. Owns the descriptor. Not safe to use from
// several threads, except ShutDown.
class RpcSocket {
 public:
  enum class Result { kDone, kWouldBlock, kClosed };

  // `ssl` null: plaintext. The socket may still be connecting.
  RpcSocket(int descriptor, SslPtr ssl);
  RpcSocket(const RpcSocket&) = delete;
  RpcSocket& operator=(const RpcSocket&) = delete;
  ~RpcSocket();

  int descriptor() const { return descriptor_; }
  // kDone: bytes can be read and written. kClosed: error() says why. Without TLS, waits only for
  // the connection.
  Result Handshake();
  // kDone: at least one byte was read.
  Result Read(char* room, size_t max_bytes, size_t& num_bytes);
  Result Write(std::string_view bytes, size_t& num_bytes);
  // After kWouldBlock: true if it waits to write, false if it waits to read.
  bool waits_for_room() const { return waits_for_room_; }
  bool encrypted() const { return ssl_ != nullptr; }
  // True if TLS has decrypted bytes that were not read. The kernel may have none then.
  bool has_unread() const { return ssl_ != nullptr && SSL_pending(ssl_.get()) > 0; }
  // Ends the connection: the peer notices, and so does a poll of this socket. Safe from any thread.
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
