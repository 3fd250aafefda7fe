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
#include "router/http/messages/http_request.h"
#include "router/serving/calls/api_context.h"
#include "router/serving/calls/call_door.h"

namespace lockstep::router {

class HttpGenerateCall;

// One completion or chat over HTTP: a GenerateCall for each prompt, and one answer. The tenant is
// admitted before the body is read. The parsed body and the unsent answer count against the shared
// memory budget, so slow clients cannot exceed it. Nothing is sent before the scheduler has
// admitted a call, so a refusal has its own HTTP status. Later failures become an error inside the
// stream. The exchange is destroyed with its connection, and its calls when they have noticed.
class GenerateExchange final : public Exchange,
                               public Strand,
                               public std::enable_shared_from_this<GenerateExchange> {
 public:
  // `context` and `dialect` must outlive the object. `tenant` null: no tenant.
  static std::shared_ptr<GenerateExchange> Start(ApiContext& context, const Dialect& dialect,
                                                 std::shared_ptr<const Tenant> tenant,
                                                 HttpRequest request,
                                                 std::shared_ptr<OutputSignal> signal);
  GenerateExchange(ApiContext& context, const Dialect& dialect,
                   std::shared_ptr<const Tenant> tenant, HttpRequest request,
                   std::shared_ptr<OutputSignal> signal);
  ~GenerateExchange() override;

  Output Take() override;
  void OnWritten() override;
  void OnClosed() override;
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

  // False: the tenant is at its limit, and the client gets that error.
  bool Admit();
  // Runs the next turn of decompression. True: `body` is complete. False: the client gets an error,
  // or the exchange waits for another turn.
  bool Decode(std::unique_ptr<BodyDecoder>& decoder, std::string& body);
  absl::StatusOr<std::unique_ptr<ApiRequest>> ReadBody(const std::string& body);
  void StartCalls();
  absl::Status CheckBatch(const std::vector<std::shared_ptr<HttpGenerateCall>>& calls) const;
  void BeginTrace();
  void EndTrace(absl::StatusCode code);
  std::unique_ptr<AnswerWriter> MakeWriter() const;
  // Call before there are calls.
  void Refuse(const absl::Status& status);
  void Fail(const absl::Status& status);
  // Replaces the answer by an error.
  void SetError(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the current size of the answer. Not OK if it is too large.
  absl::Status Hold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t NumAnswerBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The client's id of the request, or ours.
  const std::string& ShownId() const { return http_.request_id.empty() ? id_ : http_.request_id; }
  HeaderList AnswerHead() const;
  // The headers of every answer, errors included.
  void AddOwnHeaders(HttpHead& head) const;
  void CancelCalls();

  ApiContext& context_;
  const Dialect& dialect_;
  const std::shared_ptr<OutputSignal> signal_;
  const std::string id_;
  CallDoor door_;
  HttpRequest http_;             // its body until RunStrand begins, or the client is gone
  const size_t num_body_bytes_;  // as received
  size_t num_work_bytes_;        // of the next turn
  ByteBudget::Share reading_;    // of the parsed body, beyond the body itself
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
  size_t num_writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // taken, not written yet
  ByteBudget::Share held_ ABSL_GUARDED_BY(mutex_);        // counts the answer until it is sent
  // Prompts with calls that wait until pending or taken output is written.
  std::vector<uint32_t> pending_prompts_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> writing_prompts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
