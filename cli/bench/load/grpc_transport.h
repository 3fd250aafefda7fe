#pragma once

#include <memory>
#include <string>

#include "cli/bench/load/transport.h"
#include "lockstep/v1/generation.pb.h"

namespace lockstep::cli {

lockstep::v1::GenerateRequest ToGenerateRequest(const BenchRequest& request,
                                                const SamplingNumbers& sampling);

// Streams answers of lockstep.v1.Generation, over `num_threads` connections. `clock` must outlive
// the transport.
std::unique_ptr<Transport> MakeGrpcTransport(const std::string& address,
                                             const TransportOptions& options,
                                             const LoadClock& clock);

}  // namespace lockstep::cli
