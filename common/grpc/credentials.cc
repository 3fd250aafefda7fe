#include "common/grpc/credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace lockstep {

using grpc::experimental::FileWatcherCertificateProvider;

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsFiles& files) {
  if (!files.enabled()) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(
          files.key_path, files.cert_path, files.client_ca_path, kTlsReloadIntervalSeconds));
  options.watch_identity_key_cert_pairs();
  if (files.client_ca_path.empty()) {
    options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(
    const TlsClientFiles& files, grpc::ChannelArguments& arguments) {
  if (!files.enabled()) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(
      files.key_path, files.cert_path, files.ca_path, kTlsReloadIntervalSeconds));
  options.watch_root_certs();
  if (!files.cert_path.empty()) options.watch_identity_key_cert_pairs();
  if (!files.server_name.empty()) arguments.SetSslTargetNameOverride(files.server_name);
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace lockstep
