#pragma once

#include <memory>

#include "cli/bench/load/transport.h"
#include "common/net/address.h"

namespace lockstep::cli {

// Streams answers of OpenAI's API, from any server that has it. Reuses connections. `clock` must
// outlive the transport.
std::unique_ptr<Transport> MakeHttpTransport(const Address& address,
                                             const TransportOptions& options,
                                             const LoadClock& clock);

// The body of a request. Exposed for tests.
std::string BenchRequestJson(const BenchRequest& request, const TransportOptions& options);

}  // namespace lockstep::cli
