#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "router/serving/calls/api_context.h"

// Requests other than Generate, over any transport. Errors name the field.
namespace lockstep::router {

// A place among the open calls of Tokenize and Detokenize. Drop it when the answer is made and
// before it is sent. From then on the answer's bytes are counted, and the tenant may call again at
// once.
class TextTicket {
 public:
  // RESOURCE_EXHAUSTED if no place is left, in total or for the tenant (null: no tenant). `context`
  // must outlive the ticket.
  static absl::StatusOr<std::shared_ptr<TextTicket>> Take(ApiContext& context,
                                                          const Tenant* tenant);
  TextTicket(const TextTicket&) = delete;
  TextTicket& operator=(const TextTicket&) = delete;
  ~TextTicket();

 private:
  TextTicket(ApiContext& context, std::unique_ptr<Gatekeeper::Permit> permit,
             std::string_view tenant)
      : context_(context), permit_(std::move(permit)), tenant_(tenant) {}

  ApiContext& context_;
  const std::unique_ptr<Gatekeeper::Permit> permit_;
  const std::string tenant_;
};

// The time of these two grows with the text, so run them on the encode pool. CANCELLED soon after
// `cancellation`.
absl::Status Tokenize(const ApiContext& context, const lockstep::v1::TokenizeRequest& request,
                      const CancelFlag& cancellation, lockstep::v1::TokenizeResponse& response);
absl::Status Detokenize(const ApiContext& context, const lockstep::v1::DetokenizeRequest& request,
                        lockstep::v1::DetokenizeResponse& response);

// The amount of work for a fair queue: bytes to tokenize, including renderings.
size_t NumWorkBytes(const lockstep::v1::TokenizeRequest& request);
size_t NumWorkBytes(const lockstep::v1::DetokenizeRequest& request);

absl::Status CheckModelRequest(const ApiContext& context,
                               const lockstep::v1::GetModelRequest& request);
lockstep::v1::Model DescribeModel(const ApiContext& context);
// The model, and the same again for each of its aliases.
std::vector<lockstep::v1::Model> DescribeModels(const ApiContext& context);

}  // namespace lockstep::router
