#pragma once

#include <absl/status/status.h>

#include <string>

namespace lockstep {

// What a listener proves itself with, and whom it lets in: PEM files that may be replaced while the
// process runs. All empty: no TLS.
struct TlsFiles {
  std::string cert_path;  // the certificate, and after it those up to its authority
  std::string key_path;
  std::string client_ca_path;  // clients need a certificate of these authorities; empty: none do

  bool enabled() const { return !cert_path.empty(); }
  // OK without TLS; otherwise every file can be read and the key is that of the certificate.
  // INVALID_ARGUMENT naming the file.
  absl::Status Validate() const;
};

// How a client knows the server, and what it shows of itself. All empty: no TLS.
struct TlsClientFiles {
  std::string ca_path;    // the server's certificate must be of these authorities
  std::string cert_path;  // with key_path: shown to servers that ask for it
  std::string key_path;
  std::string server_name;  // in the server's certificate; empty: the host of its address

  bool enabled() const { return !ca_path.empty(); }
  absl::Status Validate() const;  // as that of TlsFiles
};

}  // namespace lockstep
