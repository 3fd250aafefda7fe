#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/instant.h"
#include "lockstep/v1/generation.pb.h"
#include "router/core/messages/request.h"
#include "router/mailboxes/outbox.h"
#include "router/serving/output/output_splitter.h"
#include "router/serving/output/part_messages.h"
#include "router/serving/output/tool_call_counts.h"
#include "router/text/detokenizer.h"
#include "router/text/stop_matcher.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// Options that only the text side of a request needs.
struct TextOptions {
  std::vector<std::string> stop_strings;
  bool include_stop = false;  // keep the stop string, or the text of a stop token
  bool skip_special_tokens = true;
  bool prompt_token_ids = false;  // the response must list them
  // How reasoning and calls of tools are found. Null: the output is content alone. Of does not set
  // it.
  std::shared_ptr<const OutputReading> reading = nullptr;

  static TextOptions Of(const lockstep::v1::GenerateRequest& request);
};

// Turns the engine's output for one request into the messages of its stream. Makes text from
// tokens, finds and cuts stop strings, splits off reasoning and calls, and sends PromptInfo first
// and one Finish per index, with usage and timings. Tokens that came together leave in one message,
// or in a few if their parts need more. Used by one thread at a time.
class ResponseBuilder {
 public:
  // `tokenizer` must outlive the object.
  ResponseBuilder(const Tokenizer& tokenizer, std::shared_ptr<const Request> request,
                  const TextOptions& options);

  // Appends to `messages`. Adds to `stopped` the indices whose text ended at a stop string in this
  // call. The caller must tell the engine about them.
  void Consume(RequestOutput output, Instant now,
               std::vector<lockstep::v1::GenerateResponse>& messages,
               std::vector<uint32_t>& stopped);

  // How the call ends, once that is known. No messages follow then.
  const std::optional<absl::Status>& end() const { return end_; }
  // Of the samples that are finished.
  const ToolCallCounts& tool_calls() const { return tool_calls_; }

 private:
  // For a request whose output is more than content.
  struct Parts {
    OutputSplitter splitter;
    PartMessages messages;
    // Reads each token at once, although a stop string may hold its text back. Null: none is
    // needed.
    std::unique_ptr<OutputSplitter> ahead = nullptr;
    uint32_t num_reasoning_tokens = 0;
    uint32_t num_broken_calls = 0;  // so far; calls cut by a limit are not counted
  };
  struct Sample {
    IncrementalDetokenizer detokenizer;
    StopMatcher matcher;
    std::unique_ptr<Parts> parts = nullptr;  // null: the output is content alone
    uint32_t num_tokens = 0;
    uint32_t num_drafted = 0, num_accepted_drafts = 0;
    Instant first_token_at = Instant::InfiniteFuture();
    bool finished = false;
  };

  void AddPromptInfo(std::vector<lockstep::v1::GenerateResponse>& messages);
  void AddTokens(SampleOutput& output, Instant now,
                 std::vector<lockstep::v1::GenerateResponse>& messages,
                 std::vector<uint32_t>& stopped);
  void AddEnd(uint32_t index, const SampleEnd& end,
              std::vector<lockstep::v1::GenerateResponse>& messages);
  // Why a sample ends before the engine ends it.
  struct EarlyEnd {
    std::optional<size_t> stop_string;
    bool call = false;  // the only call that the request allows has ended
  };
  // Adds one token's text to the last message.
  EarlyEnd AddTokenText(Sample& sample, TokenId token,
                        std::vector<lockstep::v1::GenerateResponse>& messages) const;
  // The same for a sample with parts, which may need more messages: the token goes into the last
  // one. Tells its log-probability which part it is of.
  EarlyEnd AddTokenParts(Sample& sample, TokenId token,
                         std::vector<lockstep::v1::GenerateResponse>& messages) const;
  // Adds the text that waited for its end. Returns the stop string that it completed, if any.
  std::optional<size_t> AddRest(uint32_t index, const SampleEnd& end,
                                std::vector<lockstep::v1::GenerateResponse>& messages);
  // The token ended the sequence, and its text is not wanted.
  bool IsSilentEnd(TokenId token) const;
  bool MayStop(const Sample& sample) const;
  lockstep::v1::Finish* AddFinish(uint32_t index, lockstep::v1::FinishReason reason, Instant at,
                                  std::vector<lockstep::v1::GenerateResponse>& messages);

  const Tokenizer& tokenizer_;
  const std::shared_ptr<const Request> request_;
  const bool include_stop_;
  const bool skip_special_tokens_;
  const bool prompt_token_ids_;
  std::vector<Sample> samples_;
  size_t num_unfinished_;
  bool any_aborted_ = false;
  bool prompt_info_sent_ = false;
  RequestOutput::Start start_;
  bool started_ = false;
  std::optional<std::vector<TokenLogprobs>> prompt_logprobs_;
  ToolCallCounts tool_calls_;
  std::optional<absl::Status> end_;
};

}  // namespace lockstep::router
