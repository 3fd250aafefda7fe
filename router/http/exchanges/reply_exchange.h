#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/runtime/mutex.h"
#include "router/front/connection/exchange.h"
#include "router/front/connection/output_signal.h"
#include "router/http/messages/http_head.h"
#include "router/http/messages/http_request.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {

// A whole answer, given at once or later. Counted until the client has it or is gone.
class ReplyExchange : public Exchange {
 public:
  // The answer counts for the tenant; empty: for no tenant.
  explicit ReplyExchange(std::shared_ptr<OutputSignal> signal, AnswerMemory answer = {},
                         std::string_view tenant = {})
      : signal_(std::move(signal)),
        memory_(std::move(answer.memory)),
        held_(AnswerMemory{.memory = memory_}.ShareOf(tenant)) {}

  // Call once. If there is no memory for the answer, the client gets that error instead.
  void Reply(HttpHead head, std::string body);
  Output Take() override {
    MutexLock lock(mutex_);
    return std::exchange(output_, Output());
  }
  void OnWritten() override {}
  void OnClosed() override {}

 private:
  const std::shared_ptr<OutputSignal> signal_;
  const std::shared_ptr<ByteBudget> memory_;  // null: no bound
  Mutex mutex_;
  Output output_ ABSL_GUARDED_BY(mutex_);
  ByteBudget::Share held_ ABSL_GUARDED_BY(mutex_);  // counts the output until it is written
};

// The answer to a request that cannot be read, or that has no room, in OpenAI's format. From status
// 500 on, it asks clients to retry.
std::shared_ptr<Exchange> Refusal(int http_status, std::string message,
                                  std::shared_ptr<OutputSignal> signal);

}  // namespace lockstep::router
