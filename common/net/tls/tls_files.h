#pragma once

#include <absl/status/status.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>

namespace lockstep {

// How a listener proves its identity, and which clients it accepts. The PEM files may be replaced
// while the process runs. All empty: no TLS.
struct TlsFiles {
  std::string cert_path;  // the certificate, then its chain up to the authority
  std::string key_path;
  std::string client_ca_path;  // clients need a certificate of these authorities; empty: none
                               // needed

  bool enabled() const { return !cert_path.empty(); }
  // OK without TLS, or if every file can be read and the key belongs to the certificate. Otherwise
  // INVALID_ARGUMENT, or an error of ReadTextFile. Errors about a file name it.
  absl::Status Validate() const;
};

// The state of one file. Two stamps differ if the file was replaced or written between them.
struct FileStamp {
  ino_t inode = 0;
  off_t num_bytes = 0;
  int64_t modified_unix_ns = 0;

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
// Of the certificate, the key and the authorities. All zero: there is no such file.
using TlsFileStamps = std::array<FileStamp, 3>;
TlsFileStamps StampsOf(const TlsFiles& files);

// How a client checks the server, and which certificate it shows. All empty: no TLS.
struct TlsClientFiles {
  std::string ca_path;    // the server's certificate must be of these authorities
  std::string cert_path;  // with key_path: shown to servers that ask for it
  std::string key_path;
  std::string server_name;  // in the server's certificate; empty: the host of its address

  bool enabled() const { return !ca_path.empty(); }
  absl::Status Validate() const;  // like TlsFiles::Validate
};

}  // namespace lockstep
