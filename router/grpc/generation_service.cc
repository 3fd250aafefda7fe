#include "router/grpc/generation_service.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "common/status.h"
#include "router/grpc/grpc_generate_call.h"
#include "router/grpc/unary_call.h"
#include "router/serving/calls/text_requests.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

// For methods with short requests: at most a name.
constexpr size_t kMaxShortMessageBytes = 64 << 10;
// Room for the maximum number of ids, each with a tag and a length.
constexpr size_t kMaxAbortBytes = kMaxAbortIds * (kMaxIdBytes + 4);
// For methods that carry a prompt: only the limit of all messages applies.
constexpr size_t kAnyMessageBytes = std::numeric_limits<size_t>::max();

absl::Status Abort(ApiContext& context, const UnaryCaller& caller, const v1::AbortRequest& request,
                   v1::AbortResponse& response) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("request", request));
  uint32_t num_aborted = 0;
  for (const std::string& id : request.request_ids()) {
    if (const auto call = context.registry.Find(ScopedRequestId(caller.tenant, id))) {
      call->Abort();
      ++num_aborted;
    }
  }
  response.set_aborted(num_aborted);
  return absl::OkStatus();
}

absl::Status GetModel(ApiContext& context, const UnaryCaller& /*caller*/,
                      const v1::GetModelRequest& request, v1::Model& response) {
  LOCKSTEP_RETURN_IF_ERROR(CheckModelRequest(context, request));
  response = DescribeModel(context);
  if (!request.model().empty()) response.set_id(request.model());
  return absl::OkStatus();
}

absl::Status ListModels(ApiContext& context, const UnaryCaller& /*caller*/,
                        const v1::ListModelsRequest& request, v1::ListModelsResponse& response) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("request", request));
  for (v1::Model& model : DescribeModels(context)) *response.add_models() = std::move(model);
  return absl::OkStatus();
}

template <typename Request, typename Response>
void AddUnary(GrpcServices& services, ApiContext& context, std::string_view name,
              const UnaryMethod<Request, Response>& method) {
  services.Add(fmt::format("/{}/{}", GenerationService::kName, name),
               [&context, method](GrpcCallStart start) {
                 return UnaryCall<Request, Response>::Open(context, method, std::move(start));
               });
}

}  // namespace

size_t MaxRequestBytes(const RequestLimits& limits) {
  constexpr size_t kBytesBesidesPrompt = 1 << 20;
  return std::min<size_t>(size_t{4} * limits.max_prompt_bytes + kBytesBesidesPrompt,
                          std::numeric_limits<int32_t>::max());
}

void GenerationService::AddTo(GrpcServices& services) {
  services.Add(fmt::format("/{}/Generate", kName), [this](GrpcCallStart start) {
    return GenerateStream::Open(context_, std::move(start));
  });
  AddUnary(services, context_, "Abort",
           UnaryMethod<v1::AbortRequest, v1::AbortResponse>{
               .answer = &Abort, .num_work_bytes = nullptr, .max_message_bytes = kMaxAbortBytes});
  AddUnary(services, context_, "GetModel",
           UnaryMethod<v1::GetModelRequest, v1::Model>{.answer = &GetModel,
                                                       .num_work_bytes = nullptr,
                                                       .max_message_bytes = kMaxShortMessageBytes});
  AddUnary(services, context_, "ListModels",
           UnaryMethod<v1::ListModelsRequest, v1::ListModelsResponse>{
               .answer = &ListModels,
               .num_work_bytes = nullptr,
               .max_message_bytes = kMaxShortMessageBytes});
  AddUnary(services, context_, "Tokenize",
           UnaryMethod<v1::TokenizeRequest, v1::TokenizeResponse>{
               .answer =
                   [](ApiContext& context, const UnaryCaller& caller,
                      const v1::TokenizeRequest& request, v1::TokenizeResponse& response) {
                     return Tokenize(context, request, caller.cancellation, response);
                   },
               .num_work_bytes = &NumWorkBytes,
               .max_message_bytes = kAnyMessageBytes});
  AddUnary(services, context_, "Detokenize",
           UnaryMethod<v1::DetokenizeRequest, v1::DetokenizeResponse>{
               .answer =
                   [](ApiContext& context, const UnaryCaller&, const v1::DetokenizeRequest& request,
                      v1::DetokenizeResponse& response) {
                     return Detokenize(context, request, response);
                   },
               .num_work_bytes = &NumWorkBytes,
               .max_message_bytes = kAnyMessageBytes});
}

}  // namespace lockstep::router
