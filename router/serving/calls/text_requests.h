#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/v1/generation.pb.h"
#include "router/serving/calls/api_context.h"

// What is asked of the router besides generating, whatever it came over. Errors name the field.
namespace lockstep::router {

// A place among the open calls of Tokenize and Detokenize. Drop it once the answer is made, before
// it is given: its bytes are counted then, and the tenant may call again at once.
class TextTicket {
 public:
  // RESOURCE_EXHAUSTED when none is left, for all or for the tenant (null: nobody in particular).
  // `context` must outlive the ticket.
  static absl::StatusOr<std::shared_ptr<TextTicket>> Take(ApiContext& context,
                                                          const Tenant* tenant);
  TextTicket(const TextTicket&) = delete;
  TextTicket& operator=(const TextTicket&) = delete;
  ~TextTicket();

 private:
  TextTicket(ApiContext& context, std::unique_ptr<Gatekeeper::Pass> pass, std::string_view tenant)
      : context_(context), pass_(std::move(pass)), tenant_(tenant) {}

  ApiContext& context_;
  const std::unique_ptr<Gatekeeper::Pass> pass_;
  const std::string tenant_;
};

// These two take time that grows with the text: run them on the encode pool.
absl::Status Tokenize(const ApiContext& context, const lockstep::v1::TokenizeRequest& request,
                      lockstep::v1::TokenizeResponse& response);
absl::Status Detokenize(const ApiContext& context, const lockstep::v1::DetokenizeRequest& request,
                        lockstep::v1::DetokenizeResponse& response);

// How much work these are for a fair queue: bytes to tokenize, renderings included.
size_t NumWorkBytes(const lockstep::v1::TokenizeRequest& request);
size_t NumWorkBytes(const lockstep::v1::DetokenizeRequest& request);

absl::Status CheckModelRequest(const ApiContext& context,
                               const lockstep::v1::GetModelRequest& request);
lockstep::v1::Model DescribeModel(const ApiContext& context);

}  // namespace lockstep::router
