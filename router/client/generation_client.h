#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "common/net/tls/tls_files.h"
#include "lockstep/v1/generation.pb.h"
#include "router/client/answer.h"

namespace lockstep::router {

// A blocking client of lockstep.v1.Generation. Errors carry the call's status; UNAVAILABLE names
// the address.
class GenerationClient {
 public:
  struct Options {
    TlsClientFiles tls = {};   // none: plaintext
    std::string api_key = {};  // empty: none is shown
  };
  explicit GenerationClient(std::string address) : GenerationClient(std::move(address), {}) {}
  GenerationClient(std::string address, const Options& options);
  ~GenerationClient();

  absl::StatusOr<lockstep::v1::Model> GetModel(absl::Duration timeout);
  // Waits until the router has a worker; UNAVAILABLE saying what was missing when the time runs
  // out.
  absl::StatusOr<lockstep::v1::Model> WaitUntilReady(absl::Duration timeout);
  // Calls `on_response` for every message of the stream. INVALID_ARGUMENT, before anything is sent,
  // for text that is not UTF-8. INTERNAL when the stream ends without an error but before every
  // output finished. `stop` may be requested on any thread: the call then ends with CANCELLED.
  absl::StatusOr<Answer> Generate(
      const lockstep::v1::GenerateRequest& request, absl::Duration timeout,
      const std::function<void(const lockstep::v1::GenerateResponse&)>& on_response,
      std::stop_token stop = {});

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
