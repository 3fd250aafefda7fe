#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "router/http/exchanges/generate_exchange.h"
#include "router/serving/calls/generate_call.h"

namespace lockstep::router {

// One prompt of an exchange. The exchange may be destroyed first.
class HttpGenerateCall final : public GenerateCall {
 public:
  HttpGenerateCall(ApiContext& context, std::weak_ptr<GenerateExchange> exchange, uint32_t prompt,
                   Origin origin)
      : GenerateCall(context, std::move(origin)), exchange_(std::move(exchange)), prompt_(prompt) {}

 private:
  void StartWrite(std::vector<lockstep::v1::GenerateResponse> messages) override {
    using Delivery = GenerateExchange::Delivery;
    const Delivery delivery = Deliver(messages);
    if (delivery != Delivery::kPending) OnWriteDone(delivery == Delivery::kDone);
  }
  absl::StatusCode StartLastWrite(std::vector<lockstep::v1::GenerateResponse> messages) override {
    Deliver(messages);
    End(absl::OkStatus());
    return absl::StatusCode::kOk;  // if the exchange failed, it has ended the trace
  }
  void End(const absl::Status& status) override {
    if (const auto exchange = exchange_.lock()) exchange->OnCallEnd(prompt_, status);
  }

  GenerateExchange::Delivery Deliver(std::span<const lockstep::v1::GenerateResponse> messages) {
    const std::shared_ptr<GenerateExchange> exchange = exchange_.lock();
    if (exchange == nullptr) return GenerateExchange::Delivery::kGone;
    return exchange->AddMessages(prompt_, messages);
  }

  const std::weak_ptr<GenerateExchange> exchange_;
  const uint32_t prompt_;
};

}  // namespace lockstep::router
