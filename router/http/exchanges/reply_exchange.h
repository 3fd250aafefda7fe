#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/runtime/mutex.h"
#include "router/front/connection/exchange.h"
#include "router/front/connection/output_signal.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {

// A whole answer, known at once or later. Counted until the client has it, or is gone.
class ReplyExchange : public Exchange {
 public:
  // The answer is the tenant's; empty: nobody's.
  explicit ReplyExchange(std::shared_ptr<OutputSignal> signal, AnswerMemory answer = {},
                         std::string_view tenant = {})
      : signal_(std::move(signal)),
        memory_(std::move(answer.memory)),
        held_(AnswerMemory{.memory = memory_}.ShareOf(tenant)) {}

  // Once. When there is no memory for it beside others' answers, the client is told that instead.
  void Reply(HttpHead head, std::string body);
  Output Take() override {
    MutexLock lock(mutex_);
    return std::exchange(output_, Output());
  }
  void OnWritten() override {}
  void Abandon() override {}

 private:
  const std::shared_ptr<OutputSignal> signal_;
  const std::shared_ptr<ByteBudget> memory_;  // null: no bound
  Mutex mutex_;
  Output output_ ABSL_GUARDED_BY(mutex_);
  ByteBudget::Share held_ ABSL_GUARDED_BY(mutex_);  // of the output, also while it is written
};

// For ConnectionContext::refuse: an error as clients of OpenAI's API expect it. From 500 on it asks
// them to come back.
std::shared_ptr<Exchange> Refusal(int http_status, std::string message,
                                  std::shared_ptr<OutputSignal> signal);

}  // namespace lockstep::router
