#include "router/front/connection/tls_context.h"

#include <openssl/ssl.h>

#include <utility>

#include "common/status.h"

namespace lockstep::router {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

absl::Status FileError(const std::string& path, const error_code& error) {
  return InvalidArgument("{}: cannot be used for TLS: {}", path, error.message());
}

// Prefers HTTP/2 to HTTP/1.1. Clients that offer neither get HTTP/1.1.
int SelectProtocol(SSL*, const unsigned char** selected, unsigned char* num_selected,
                   const unsigned char* offered, unsigned int num_offered, void*) {
  // Static: OpenSSL reads the selected part after this function has returned.
  static constexpr unsigned char kServed[] = "\x02h2\x08http/1.1";
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, num_selected, kServed, sizeof(kServed) - 1, offered,
                            num_offered) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *selected = found;
  return SSL_TLSEXT_ERR_OK;
}

absl::StatusOr<std::shared_ptr<ssl::context>> MakeContext(const TlsFiles& files) {
  LOCKSTEP_RETURN_IF_ERROR(files.Validate());
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(
      native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // No session resumption: each client certificate is checked against the current files.
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(native, 0);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(native, &SelectProtocol, nullptr);
  error_code error;
  context->use_certificate_chain_file(files.cert_path, error);
  if (error) return FileError(files.cert_path, error);
  context->use_private_key_file(files.key_path, ssl::context::pem, error);
  if (error) return FileError(files.key_path, error);
  if (files.client_ca_path.empty()) return context;
  context->load_verify_file(files.client_ca_path, error);
  if (error) return FileError(files.client_ca_path, error);
  SSL_CTX_set_client_CA_list(native, SSL_load_client_CA_file(files.client_ca_path.c_str()));
  context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
  return context;
}

}  // namespace

ServerTls::ServerTls(TlsFiles files)
    : context_("TLS of the HTTP API", std::move(files), &MakeContext) {}

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Load(TlsFiles files) {
  auto tls = std::unique_ptr<ServerTls>(new ServerTls(std::move(files)));
  LOCKSTEP_RETURN_IF_ERROR(tls->context_.Load());
  return tls;
}

}  // namespace lockstep::router
