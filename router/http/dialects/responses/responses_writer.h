#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "router/http/dialects/dialect.h"
#include "router/http/dialects/responses/custom_input.h"
#include "router/http/dialects/responses/response_json.h"
#include "router/http/dialects/responses/responses_request.h"

namespace lockstep::router {

// Writes the response of one request, whole or as server-sent events. The output becomes items:
// each stretch of reasoning, each stretch of text, and each call. One item is open at a time.
class ResponsesWriter : public AnswerWriter {
 public:
  // `request` and the tokenizer must outlive the object.
  static std::unique_ptr<ResponsesWriter> Make(AnswerFacts facts, const ResponsesRequest& request);

  void Add(uint32_t prompt, std::span<const lockstep::v1::GenerateResponse> messages,
           std::string& out) final;
  size_t num_held_bytes() const override { return num_held_bytes_; }

 protected:
  ResponsesWriter(AnswerFacts facts, const ResponsesRequest& request);

  // What happens to the output, in order. The item is the last one of items().
  virtual void OnBegin(std::string& out) = 0;
  virtual void OnItem(std::string& out) = 0;
  // `logprobs`: of the tokens of this piece, if requested.
  virtual void OnPiece(std::string_view piece,
                       const std::vector<lockstep::v1::TokenLogprob>& logprobs,
                       std::string& out) = 0;
  // Not called for a call that was cut, because a client could run it.
  virtual void OnItemEnd(std::string& out) = 0;

  // Calls OnBegin if nothing came yet.
  void Begin(std::string& out);
  // Ends the answer early. Calls nothing.
  void Cut();
  // The response with the state and the usage of now.
  ResponseView View() const;
  const AnswerFacts& facts() const { return facts_; }
  const std::vector<OutputItem>& items() const { return items_; }
  ResponseState state() const { return state_; }

 private:
  void AddDelta(const lockstep::v1::OutputDelta& delta, std::string& out);
  // Those of text; those of tokens that are open wait.
  void KeepLogprobs(const lockstep::v1::OutputDelta& delta);
  void KeepOpenLogprobs();
  void AddCall(const lockstep::v1::ToolCallDelta& call, std::string& out);
  void AddFinish(const lockstep::v1::Finish& finish, std::string& out);
  // The open item becomes one of this kind.
  void Open(OutputItem::Kind kind, std::string& out);
  // Gives the item its id.
  void AddItem(OutputItem item, std::string& out);
  void OpenCall(const lockstep::v1::ToolCallDelta& call, std::string& out);
  void AddPiece(std::string_view piece, std::vector<lockstep::v1::TokenLogprob> logprobs,
                std::string& out);
  // Ends the open item, if there is one. `cut`: the output did not end by itself.
  void Close(bool cut, std::string& out);
  bool IsOpen() const { return !items_.empty() && items_.back().state == OutputItem::State::kOpen; }
  bool IsWholeCall() const;

  const AnswerFacts facts_;
  const ResponsesRequest& request_;
  const std::string id_;
  std::vector<OutputItem> items_;
  uint32_t num_calls_ = 0;
  CustomInput custom_input_;  // of the open item, if it is a custom call
  // Of tokens whose text did not come yet. The next text has them.
  std::vector<lockstep::v1::TokenLogprob> logprobs_;
  std::vector<lockstep::v1::TokenLogprob> open_logprobs_;  // as TOKEN_PART_OPEN says
  bool begun_ = false;
  ResponseState state_ = ResponseState::kInProgress;
  ResponseUsage usage_;
  std::optional<uint64_t> seed_;
  size_t num_held_bytes_ = 0;
};

}  // namespace lockstep::router
