#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "common/net/tls_files.h"

namespace lockstep {

// Files are looked at so often, by a thread of gRPC's; connections that exist stay as they are. A
// certificate and a key that do not match, because only one was replaced yet, fail handshakes until
// they do.
inline constexpr unsigned int kTlsReloadIntervalSeconds = 1;

// TLS 1.2 or newer by these files, which have passed Validate; plaintext without them.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsFiles& files);

// Likewise; the server's name is checked. `arguments` get what belongs to the credentials.
std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const TlsClientFiles& files,
                                                                 grpc::ChannelArguments& arguments);

}  // namespace lockstep
