#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/runtime/mutex.h"
#include "router/front/connection/exchange.h"
#include "router/front/connection/output_signal.h"
#include "router/http/dialects/dialect.h"
#include "router/http/exchanges/body_decoder.h"
#include "router/serving/calls/api_context.h"
#include "router/serving/calls/call_door.h"

namespace lockstep::router {

class HttpGenerateCall;

// A completion or a chat: as many GenerateCalls as it has prompts, and one answer. The tenant is
// asked before the body is read. What was read, and what waits to be sent, counts against the
// memory of all answers, so that a slow or silent client holds nothing that nobody counts. Nothing
// is sent before the first of them was admitted by the scheduler, so a refusal has its own status;
// what fails later becomes an error inside the stream. The exchange dies with its connection, its
// calls once they have noticed.
class GenerateExchange final : public Exchange,
                               public Strand,
                               public std::enable_shared_from_this<GenerateExchange> {
 public:
  struct Origin {
    const Dialect& dialect;                // outlives the exchange
    std::shared_ptr<const Tenant> tenant;  // null: nobody in particular
  };
  // `context` outlives the object.
  static std::shared_ptr<GenerateExchange> Start(ApiContext& context, Origin origin,
                                                 HttpRequest request,
                                                 std::shared_ptr<OutputSignal> signal);
  GenerateExchange(ApiContext& context, Origin origin, HttpRequest request,
                   std::shared_ptr<OutputSignal> signal);
  ~GenerateExchange() override;

  Output Take() override;
  void OnWritten() override;
  void Abandon() override;
  // Reads the body and starts the calls.
  void RunStrand() override;
  std::string_view owner() const override { return door_.tenant_name(); }
  size_t num_work_bytes() const override { return num_work_bytes_; }

 private:
  friend class HttpGenerateCall;
  enum class Delivery { kDone, kPending, kGone };

  // --- from the calls ---
  Delivery AddMessages(uint32_t prompt, std::span<const lockstep::v1::GenerateResponse> messages);
  void OnCallEnd(uint32_t prompt, const absl::Status& status);

  // False: the tenant is at its limit, and the client has been told.
  bool Admit();
  // The next turn of a compressed body. True: `body` has it whole. Else the client is told why not,
  // or the exchange waits for another turn.
  bool Decode(std::unique_ptr<BodyDecoder>& decoder, std::string& body);
  absl::StatusOr<std::unique_ptr<ApiRequest>> ReadBody(const std::string& body);
  void StartCalls();
  absl::Status CheckBatch(const std::vector<std::shared_ptr<HttpGenerateCall>>& calls) const;
  void BeginTrace();
  void EndTrace(absl::StatusCode code);
  std::unique_ptr<AnswerWriter> MakeWriter() const;
  // Before there are calls.
  void Refuse(const absl::Status& status);
  void Fail(const absl::Status& status);
  // An answer that says nothing else.
  void SetError(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts what the answer has grown to, or shrunk; not OK: it may not.
  absl::Status Hold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t NumAnswerBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpHead AnswerHead() const;
  // The headers of every answer, errors included.
  void AddOwnHeaders(HttpHead& head) const;
  void CancelCalls();

  ApiContext& context_;
  const Dialect& dialect_;
  const std::shared_ptr<OutputSignal> signal_;
  const std::string id_;
  CallDoor door_;
  HttpRequest http_;             // its body until RunStrand begins, or the client is gone
  const size_t num_body_bytes_;  // as they came
  size_t num_work_bytes_;        // of the next turn
  ByteBudget::Share reading_;    // of what the body is read into, beyond the body
  std::shared_ptr<const ApiRequest> request_;

  Mutex mutex_;
  std::vector<std::shared_ptr<HttpGenerateCall>> calls_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<AnswerWriter> writer_ ABSL_GUARDED_BY(mutex_);
  size_t num_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<BodyDecoder> decoder_ ABSL_GUARDED_BY(mutex_);  // while it waits for a turn
  bool over_ ABSL_GUARDED_BY(mutex_) = false;                     // nothing more is added
  bool head_taken_ ABSL_GUARDED_BY(mutex_) = false;
  Output pending_ ABSL_GUARDED_BY(mutex_);
  size_t num_writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // taken, and not written yet
  ByteBudget::Share held_ ABSL_GUARDED_BY(mutex_);        // of the answer, until it is sent
  // Prompts whose calls wait until what is pending, or being written, is written.
  std::vector<uint32_t> pending_prompts_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> writing_prompts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
