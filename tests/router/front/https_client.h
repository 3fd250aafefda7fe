#pragma once

#include <openssl/ssl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tests/support/test_certificates.h"

namespace lockstep::testing {

// Whom a client trusts, and what it shows of itself.
struct ClientFiles {
  std::string ca_pem;
  std::optional<TestAuthority::Identity> identity = {};
  int max_version = 0;  // 0: the latest
};

// A connection to 127.0.0.1 in TLS, by Beast's client. Blocking.
class HttpsClient {
 public:
  HttpsClient(uint16_t port, const ClientFiles& files)
      : context_(boost::asio::ssl::context::tls_client) {
    context_.add_certificate_authority(boost::asio::buffer(files.ca_pem));
    context_.set_verify_mode(boost::asio::ssl::verify_peer);
    context_.set_verify_callback(boost::asio::ssl::host_name_verification("127.0.0.1"));
    if (files.max_version != 0) {
      SSL_CTX_set_min_proto_version(context_.native_handle(), TLS1_VERSION);
      SSL_CTX_set_security_level(context_.native_handle(), 0);
      SSL_CTX_set_max_proto_version(context_.native_handle(), files.max_version);
    }
    if (files.identity.has_value()) {
      context_.use_certificate_chain(boost::asio::buffer(files.identity->cert_pem));
      context_.use_private_key(boost::asio::buffer(files.identity->key_pem),
                               boost::asio::ssl::context::pem);
    }
    stream_ =
        std::make_unique<boost::asio::ssl::stream<boost::asio::ip::tcp::socket>>(io_, context_);
    stream_->next_layer().connect({boost::asio::ip::address_v4::loopback(), port});
    stream_->handshake(boost::asio::ssl::stream_base::client, handshake_error_);
  }

  const boost::system::error_code& handshake_error() const { return handshake_error_; }
  // The body of the answer, or what went wrong.
  std::string Ask(boost::beast::http::verb method, const std::string& path,
                  const std::string& body = "") {
    boost::beast::http::request<boost::beast::http::string_body> request(method, path, 11);
    request.set(boost::beast::http::field::host, "localhost");
    request.body() = body;
    request.prepare_payload();
    boost::system::error_code error = handshake_error_;
    if (!error) boost::beast::http::write(*stream_, request, error);
    boost::beast::http::response<boost::beast::http::string_body> response;
    if (!error) boost::beast::http::read(*stream_, buffer_, response, error);
    return error ? "failed: " + error.message() : response.body();
  }
  // The end of the stream as TLS has it, not just of the connection.
  bool WaitUntilClosed() {
    char byte = 0;
    boost::system::error_code error;
    stream_->read_some(boost::asio::buffer(&byte, 1), error);
    return error == boost::asio::error::eof;
  }
  // Of the certificate that the server showed.
  std::string ServerName() const {
    const std::unique_ptr<X509, decltype(&X509_free)> shown(
        SSL_get1_peer_certificate(stream_->native_handle()), &X509_free);
    char name[256] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName, name,
                              sizeof(name));
    return name;
  }

 private:
  boost::asio::io_context io_;
  boost::asio::ssl::context context_;
  std::unique_ptr<boost::asio::ssl::stream<boost::asio::ip::tcp::socket>> stream_;
  boost::beast::flat_buffer buffer_;
  boost::system::error_code handshake_error_;
};

}  // namespace lockstep::testing
