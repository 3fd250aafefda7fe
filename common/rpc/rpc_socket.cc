#include "common/rpc/rpc_socket.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/check.h"

namespace lockstep {
namespace {

constexpr size_t kMaxWriteOfTls = 64 << 10;

bool BlocksNow(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

int DescriptorOf(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

// OpenSSL's own socket BIO raises SIGPIPE if the peer is gone.
int WriteToSocket(BIO* bio, const char* bytes, int num_bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(DescriptorOf(bio), bytes, static_cast<size_t>(num_bytes), MSG_NOSIGNAL);
  if (sent < 0 && BlocksNow(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int ReadFromSocket(BIO* bio, char* room, int max_bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = recv(DescriptorOf(bio), room, static_cast<size_t>(max_bytes), 0);
  if (received < 0 && BlocksNow(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(received);
}

// NOLINTNEXTLINE(google-runtime-int): OpenSSL's type
long ControlSocket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

int CreateSocket(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    LOCKSTEP_CHECK(made != nullptr, "no memory");
    BIO_meth_set_write(made, &WriteToSocket);
    BIO_meth_set_read(made, &ReadFromSocket);
    BIO_meth_set_ctrl(made, &ControlSocket);
    BIO_meth_set_create(made, &CreateSocket);
    return made;
  }();
  return method;
}

}  // namespace

RpcSocket::RpcSocket(int descriptor, SslPtr ssl) : descriptor_(descriptor), ssl_(std::move(ssl)) {
  if (ssl_ == nullptr) return;
  BIO* const bio = BIO_new(SocketMethod());
  LOCKSTEP_CHECK(bio != nullptr, "no memory");
  // NOLINTNEXTLINE(performance-no-int-to-ptr): DescriptorOf takes it out again
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)));
  SSL_set_bio(ssl_.get(), bio, bio);
}

RpcSocket::~RpcSocket() {
  if (ssl_ != nullptr && SSL_is_init_finished(ssl_.get()) != 0) SSL_shutdown(ssl_.get());
  ERR_clear_error();
  close(descriptor_);
}

RpcSocket::Result RpcSocket::Handshake() {
  if (!connected_) {
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) {
      error_ = std::strerror(error);
      return Result::kClosed;
    }
    connected_ = true;
  }
  if (ssl_ == nullptr) return Result::kDone;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result != 1) return Fail(result);
  const unsigned char* name = nullptr;
  unsigned int num_bytes = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &num_bytes);
  if (std::string_view(reinterpret_cast<const char*>(name), num_bytes) == "h2") {
    return Result::kDone;
  }
  error_ = "the other side does not agree on HTTP/2";
  return Result::kClosed;
}

RpcSocket::Result RpcSocket::Fail(int ssl_result) {
  const int kind = SSL_get_error(ssl_.get(), ssl_result);
  waits_for_room_ = kind == SSL_ERROR_WANT_WRITE;
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return Result::kWouldBlock;
  const auto verified = SSL_get_verify_result(ssl_.get());
  error_ = verified == X509_V_OK ? TakeSslError() : X509_verify_cert_error_string(verified);
  ERR_clear_error();
  return Result::kClosed;
}

RpcSocket::Result RpcSocket::Read(char* room, size_t max_bytes, size_t& num_bytes) {
  waits_for_room_ = false;
  if (ssl_ != nullptr) {
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_.get(), room, max_bytes, &num_bytes);
    return result == 1 ? Result::kDone : Fail(result);
  }
  const ssize_t received = recv(descriptor_, room, max_bytes, 0);
  if (received > 0) {
    num_bytes = static_cast<size_t>(received);
    return Result::kDone;
  }
  if (received < 0 && BlocksNow(errno)) return Result::kWouldBlock;
  error_ = received == 0 ? "the other side ended the connection" : std::strerror(errno);
  return Result::kClosed;
}

RpcSocket::Result RpcSocket::Write(std::string_view bytes, size_t& num_bytes) {
  waits_for_room_ = false;
  if (ssl_ != nullptr) {
    ERR_clear_error();
    const size_t size = std::min(bytes.size(), kMaxWriteOfTls);
    const int result = SSL_write_ex(ssl_.get(), bytes.data(), size, &num_bytes);
    return result == 1 ? Result::kDone : Fail(result);
  }
  const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) {
    num_bytes = static_cast<size_t>(sent);
    return Result::kDone;
  }
  waits_for_room_ = true;
  if (BlocksNow(errno)) return Result::kWouldBlock;
  error_ = std::strerror(errno);
  return Result::kClosed;
}

void RpcSocket::ShutDown() { shutdown(descriptor_, SHUT_RDWR); }

}  // namespace lockstep
