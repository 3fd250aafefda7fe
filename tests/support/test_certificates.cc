#include "tests/support/test_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <functional>

#include "common/check.h"

namespace lockstep::testing {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

constexpr long kValidSeconds = 3600;

Key MakeKey() {
  Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  LOCKSTEP_CHECK(key != nullptr, "OpenSSL makes a key");
  return key;
}

std::string PemOf(const std::function<int(BIO*)>& write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  LOCKSTEP_CHECK(write(bio.get()) == 1, "OpenSSL writes PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string PemOf(X509* certificate) {
  return PemOf([certificate](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::string PemOf(EVP_PKEY* key) {
  return PemOf([key](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

void AddExtension(X509* issuer, X509* subject, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, subject, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  LOCKSTEP_CHECK(extension != nullptr, "{} is an extension", value);
  X509_add_ext(subject, extension, -1);
  X509_EXTENSION_free(extension);
}

// Unsigned so far.
Certificate MakeCertificate(const std::string& name, EVP_PKEY* key) {
  Certificate certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), 2);
  uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial));
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kValidSeconds);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate.get(), key);
  return certificate;
}

}  // namespace

struct TestAuthority::Parts {
  Key key = MakeKey();
  Certificate certificate{nullptr, &X509_free};
};

TestAuthority::TestAuthority(const std::string& name) : parts_(std::make_unique<Parts>()) {
  parts_->certificate = MakeCertificate(name, parts_->key.get());
  X509* const own = parts_->certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(own));
  AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(own, own, NID_key_usage, "critical,keyCertSign,cRLSign");
  LOCKSTEP_CHECK(X509_sign(own, parts_->key.get(), EVP_sha256()) > 0, "OpenSSL signs");
  cert_pem_ = PemOf(own);
}

TestAuthority::~TestAuthority() = default;

TestAuthority::Identity TestAuthority::Issue(const std::string& dns_name, bool at_loopback) const {
  const Key key = MakeKey();
  const Certificate certificate = MakeCertificate(dns_name, key.get());
  X509* const issuer = parts_->certificate.get();
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer));
  AddExtension(issuer, certificate.get(), NID_subject_alt_name,
               "DNS:" + dns_name + (at_loopback ? ",IP:127.0.0.1" : ""));
  LOCKSTEP_CHECK(X509_sign(certificate.get(), parts_->key.get(), EVP_sha256()) > 0,
                 "OpenSSL signs");
  return {.cert_pem = PemOf(certificate.get()), .key_pem = PemOf(key.get())};
}

void TestAuthority::Write(const TempFolder& folder, const std::string& prefix,
                          const Identity& identity) {
  Replace(folder, prefix + ".key", identity.key_pem);
  Replace(folder, prefix + ".pem", identity.cert_pem);
}

std::string TestAuthority::Replace(const TempFolder& folder, const std::string& name,
                                   const std::string& content) {
  const std::string path = folder.path() + "/" + name;
  std::filesystem::rename(folder.Write(name + ".new", content), path);
  return path;
}

}  // namespace lockstep::testing
