#include "common/rpc/rpc_tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <string_view>
#include <utility>

#include "common/status.h"

namespace lockstep {
namespace {

constexpr unsigned char kHttp2[] = "\x02h2";

int SelectHttp2(SSL*, const unsigned char** selected, unsigned char* num_selected,
                const unsigned char* offered, unsigned int num_offered, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, num_selected, kHttp2, sizeof(kHttp2) - 1, offered,
                            num_offered) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *selected = found;
  return SSL_TLSEXT_ERR_OK;
}

absl::Status UnusableFile(const std::string& path) {
  return InvalidArgument("{}: cannot be used for TLS: {}", path, TakeSslError());
}

absl::Status UseCertificate(SSL_CTX* context, const std::string& cert, const std::string& key) {
  if (SSL_CTX_use_certificate_chain_file(context, cert.c_str()) != 1) return UnusableFile(cert);
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return UnusableFile(key);
  }
  return absl::OkStatus();
}

absl::StatusOr<SslContextPtr> MakeContext(const SSL_METHOD* method) {
  ERR_clear_error();
  SslContextPtr context(SSL_CTX_new(method), SslDeleter());
  if (context == nullptr) return Unavailable("no TLS: {}", TakeSslError());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // No session resumption: each connection is checked against the current files.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  return context;
}

absl::StatusOr<SslContextPtr> MakeServerContext(const TlsFiles& files) {
  LOCKSTEP_RETURN_IF_ERROR(files.Validate());
  LOCKSTEP_ASSIGN_OR_RETURN(SslContextPtr context, MakeContext(TLS_server_method()));
  LOCKSTEP_RETURN_IF_ERROR(UseCertificate(context.get(), files.cert_path, files.key_path));
  SSL_CTX_set_alpn_select_cb(context.get(), &SelectHttp2, nullptr);
  if (files.client_ca_path.empty()) return context;
  if (SSL_CTX_load_verify_file(context.get(), files.client_ca_path.c_str()) != 1) {
    return UnusableFile(files.client_ca_path);
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

bool IsNumeric(const std::string& host) {
  in6_addr address = {};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

absl::Status ExpectName(SSL* ssl, const std::string& name) {
  X509_VERIFY_PARAM* const rules = SSL_get0_param(ssl);
  bool done = false;
  if (IsNumeric(name)) {
    done = X509_VERIFY_PARAM_set1_ip_asc(rules, name.c_str()) == 1;
  } else {
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    done = X509_VERIFY_PARAM_set1_host(rules, name.c_str(), name.size()) == 1 &&
           SSL_set_tlsext_host_name(ssl, name.c_str()) == 1;
  }
  return done ? absl::OkStatus() : InvalidArgument("no name for TLS: {}", TakeSslError());
}

}  // namespace

std::string TakeSslError() {
  const auto code = ERR_get_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "the other side ended the connection" : reason;
}

absl::StatusOr<SslPtr> MakeClientTls(const TlsClientFiles& files, const std::string& host) {
  LOCKSTEP_RETURN_IF_ERROR(files.Validate());
  LOCKSTEP_ASSIGN_OR_RETURN(const SslContextPtr context, MakeContext(TLS_client_method()));
  if (SSL_CTX_load_verify_file(context.get(), files.ca_path.c_str()) != 1) {
    return UnusableFile(files.ca_path);
  }
  if (!files.cert_path.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(UseCertificate(context.get(), files.cert_path, files.key_path));
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SslPtr ssl(SSL_new(context.get()));
  if (ssl == nullptr || SSL_set_alpn_protos(ssl.get(), kHttp2, sizeof(kHttp2) - 1) != 0) {
    return Unavailable("no TLS: {}", TakeSslError());
  }
  LOCKSTEP_RETURN_IF_ERROR(
      ExpectName(ssl.get(), files.server_name.empty() ? host : files.server_name));
  SSL_set_connect_state(ssl.get());
  return ssl;
}

RpcServerTls::RpcServerTls(TlsFiles files)
    : context_("TLS", std::move(files), &MakeServerContext) {}

absl::StatusOr<std::unique_ptr<RpcServerTls>> RpcServerTls::Load(TlsFiles files) {
  auto tls = std::unique_ptr<RpcServerTls>(new RpcServerTls(std::move(files)));
  LOCKSTEP_RETURN_IF_ERROR(tls->context_.Load());
  return tls;
}

SslPtr RpcServerTls::Make() {
  const SslContextPtr context = context_.Current();
  SslPtr ssl(SSL_new(context.get()));
  if (ssl != nullptr) SSL_set_accept_state(ssl.get());
  return ssl;
}

}  // namespace lockstep
