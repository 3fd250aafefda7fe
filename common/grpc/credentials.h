#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "common/net/tls/tls_files.h"

namespace lockstep {

// How often a thread of gRPC looks at the files. Existing connections stay as they are. While only
// one of certificate and key has been replaced, they do not match, and handshakes fail.
inline constexpr unsigned int kTlsReloadIntervalSeconds = 1;

// TLS 1.2 or newer with these files, which must have passed Validate. Plaintext without them.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsFiles& files);

// The same for a client, which also checks the server's name. Adds the arguments that the
// credentials need.
std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const TlsClientFiles& files,
                                                                 grpc::ChannelArguments& arguments);

}  // namespace lockstep
