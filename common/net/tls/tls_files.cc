#include "common/net/tls/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <memory>
#include <string_view>

#include "common/runtime/mapped_file.h"
#include "common/status.h"

namespace lockstep {
namespace {

constexpr size_t kMaxPemBytes = size_t{1} << 20;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// Refuses encrypted keys, because there is no user to type a password.
int NoPassword(char*, int, int, void*) { return -1; }

Bio BioOf(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free};
}

absl::StatusOr<Certificate> ReadCertificate(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxPemBytes));
  const Bio bio = BioOf(text);
  Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, &NoPassword, nullptr), &X509_free);
  ERR_clear_error();
  if (certificate == nullptr) return InvalidArgument("{}: expected a PEM certificate", path);
  return certificate;
}

// Errors must not contain the file's content.
absl::StatusOr<Key> ReadKey(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxPemBytes));
  const Bio bio = BioOf(text);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassword, nullptr), &EVP_PKEY_free);
  ERR_clear_error();
  if (key == nullptr) return InvalidArgument("{}: expected a PEM private key, not encrypted", path);
  return key;
}

absl::Status CheckPair(const std::string& cert_path, const std::string& key_path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(cert_path));
  LOCKSTEP_ASSIGN_OR_RETURN(const Key key, ReadKey(key_path));
  const bool match = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (match) return absl::OkStatus();
  return InvalidArgument("{}: expected the key of the certificate in {}", key_path, cert_path);
}

}  // namespace

absl::Status TlsFiles::Validate() const {
  if (cert_path.empty() != key_path.empty()) {
    return InvalidArgument("a certificate and its key come together");
  }
  if (!enabled()) {
    if (client_ca_path.empty()) return absl::OkStatus();
    return InvalidArgument("certificates of clients need a certificate and a key of the server");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckPair(cert_path, key_path));
  return client_ca_path.empty() ? absl::OkStatus() : ReadCertificate(client_ca_path).status();
}

absl::Status TlsClientFiles::Validate() const {
  if (cert_path.empty() != key_path.empty()) {
    return InvalidArgument("a certificate and its key come together");
  }
  if (!enabled()) {
    if (cert_path.empty() && server_name.empty()) return absl::OkStatus();
    return InvalidArgument("without authorities to check the server by there is no TLS");
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadCertificate(ca_path).status());
  return cert_path.empty() ? absl::OkStatus() : CheckPair(cert_path, key_path);
}

TlsFileStamps StampsOf(const TlsFiles& files) {
  TlsFileStamps stamps;
  auto stamp = stamps.begin();
  for (const std::string* path : {&files.cert_path, &files.key_path, &files.client_ca_path}) {
    struct stat file = {};
    if (!path->empty() && ::stat(path->c_str(), &file) == 0) {
      *stamp = {
          .inode = file.st_ino,
          .num_bytes = file.st_size,
          .modified_unix_ns = int64_t{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec};
    }
    ++stamp;
  }
  return stamps;
}

}  // namespace lockstep
