#pragma once

#include <absl/status/status.h>
#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "router/http/dialects/openai/answer_json.h"

namespace lockstep::router {

// Writes OpenAI's JSON, whole or as server-sent events.
class OpenAiWriter : public AnswerWriter {
 public:
  // `request` and the tokenizer must outlive the object. The frame's options, and whether it is a
  // stream, come from the request.
  static std::unique_ptr<OpenAiWriter> Make(AnswerFrame frame, const OpenAiRequest& request);

  void Add(uint32_t prompt, std::span<const lockstep::v1::GenerateResponse> messages,
           std::string& out) override;
  size_t num_held_bytes() const override { return num_held_bytes_; }

 protected:
  OpenAiWriter(AnswerFrame frame, const OpenAiRequest& request);

  // Adds new output of a choice. The pointers are valid during the call.
  virtual void AddPart(const lockstep::v1::OutputDelta* delta, const lockstep::v1::Finish* finish,
                       uint32_t prompt, std::string& out) = 0;
  // Call only after a message came: by then the number of samples has been checked.
  size_t num_choices() const { return prompts_.size() * frame_.options.num_samples; }
  uint32_t ChoiceIndex(uint32_t prompt, uint32_t sample) const {
    return prompt * frame_.options.num_samples + sample;
  }
  const std::string& EchoText(uint32_t prompt) const { return prompts_[prompt].echo_text; }
  const std::vector<lockstep::v1::TokenLogprob>& EchoLogprobs(uint32_t prompt) const {
    return prompts_[prompt].echo_logprobs;
  }
  // Places of the tokens in EchoLogprobs. EchoEnd: the end of the echoed text, where the answer
  // continues.
  const std::vector<uint32_t>& EchoOffsets(uint32_t prompt) const {
    return prompts_[prompt].echo_offsets;
  }
  const CharacterCounter& EchoEnd(uint32_t prompt) const { return prompts_[prompt].echo_end; }

  const std::vector<lockstep::v1::TokenLogprob>& PromptLogprobs(uint32_t prompt) const {
    return prompts_[prompt].logprobs;
  }
  // Nothing if they were not requested.
  std::optional<std::span<const uint32_t>> ToldPromptTokenIds(uint32_t prompt) const {
    if (!frame_.options.token_ids) return std::nullopt;
    return prompts_[prompt].token_ids;
  }

  void CountHeld(size_t num_bytes) { num_held_bytes_ += num_bytes; }
  void CountHeld(std::string_view text,
                 const google::protobuf::RepeatedPtrField<lockstep::v1::TokenLogprob>& logprobs);

  const AnswerFrame frame_;
  AnswerUsage usage_;

 private:
  struct Prompt {
    std::string echo_text;
    std::vector<lockstep::v1::TokenLogprob> echo_logprobs;
    std::vector<uint32_t> echo_offsets;
    CharacterCounter echo_end;
    std::vector<lockstep::v1::TokenLogprob> logprobs;  // if requested
    std::vector<uint32_t> token_ids;                   // if requested
  };

  void AddFinish(const lockstep::v1::OutputDelta* delta, const lockstep::v1::Finish& finish,
                 uint32_t prompt, std::string& out);
  void AddPromptInfo(uint32_t prompt, const lockstep::v1::PromptInfo& info);
  void SetEchoOffsets(const lockstep::v1::GenerateRequest& request, Prompt& state) const;

  const OpenAiRequest& request_;
  std::vector<Prompt> prompts_;
  size_t num_held_bytes_ = 0;
};

}  // namespace lockstep::router
