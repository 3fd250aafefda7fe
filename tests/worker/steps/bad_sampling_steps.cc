#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "tests/worker/steps/bad_steps.h"

namespace lockstep::testing {

namespace v1 = worker::v1;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Spoils how the slot that the step starts is sampled.
BadStep OfSampling(std::string name, std::function<void(v1::SlotSampling&)> spoil,
                   std::string message) {
  return {std::move(name),
          [spoil](v1::StepRequest& step) { spoil(*step.mutable_started(0)->mutable_sampling()); },
          "started[0]: sampling: " + std::move(message)};
}

}  // namespace

std::vector<BadStep> BadSampling() {
  using Sampling = v1::SlotSampling;
  return {
      OfSampling(
          "TemperatureNegative", [](Sampling& s) { s.set_temperature(-0.1f); }, "temperature"),
      OfSampling(
          "TemperatureNan", [](Sampling& s) { s.set_temperature(kNan); }, "temperature"),
      OfSampling(
          "TemperatureInf", [](Sampling& s) { s.set_temperature(kInf); }, "temperature"),
      OfSampling(
          "TopPZero", [](Sampling& s) { s.set_top_p(0); }, "top_p"),
      OfSampling(
          "TopPAboveOne", [](Sampling& s) { s.set_top_p(std::nextafter(1.0f, 2.0f)); }, "top_p"),
      OfSampling(
          "TopPNan", [](Sampling& s) { s.set_top_p(kNan); }, "top_p"),
      OfSampling(
          "MinPNegative", [](Sampling& s) { s.set_min_p(-1e-9f); }, "min_p"),
      OfSampling(
          "MinPAboveOne", [](Sampling& s) { s.set_min_p(1.5f); }, "min_p"),
      OfSampling(
          "PresenceInf", [](Sampling& s) { s.set_presence_penalty(kInf); }, "presence_penalty"),
      OfSampling(
          "FrequencyNan", [](Sampling& s) { s.set_frequency_penalty(kNan); }, "frequency_penalty"),
      OfSampling(
          "RepetitionZero", [](Sampling& s) { s.set_repetition_penalty(0); }, "repetition_penalty"),
      OfSampling(
          "RepetitionInf", [](Sampling& s) { s.set_repetition_penalty(kInf); },
          "repetition_penalty"),
      OfSampling(
          "TooManyLogprobs", [](Sampling& s) { s.set_num_logprobs(6); }, "num_logprobs"),
      OfSampling(
          "LogprobsBelowMinusOne", [](Sampling& s) { s.set_num_logprobs(-2); }, "num_logprobs"),
      OfSampling(
          "TooManyPromptLogprobs", [](Sampling& s) { s.set_num_prompt_logprobs(6); },
          "num_prompt_logprobs"),
  };
}

std::vector<BadStep> BadTokenLists() {
  using Sampling = v1::SlotSampling;
  return {
      OfSampling(
          "BiasWithoutValue", [](Sampling& s) { s.add_logit_bias_ids(1); },
          "logit_bias_values: expected 1"),
      OfSampling(
          "BiasInf",
          [](Sampling& s) {
            s.add_logit_bias_ids(1);
            s.add_logit_bias_values(-kInf);
          },
          "logit_bias_values[0]"),
      OfSampling(
          "BiasOutOfVocabulary",
          [](Sampling& s) {
            s.add_logit_bias_ids(kBadStepVocabSize);
            s.add_logit_bias_values(1);
          },
          "logit_bias_ids[0]: token 50"),
      OfSampling(
          "BiasTwice",
          [](Sampling& s) {
            for (int i = 0; i < 2; ++i) {
              s.add_logit_bias_ids(7);
              s.add_logit_bias_values(1);
            }
          },
          "logit_bias_ids[1]: token 7 is given twice"),
      OfSampling(
          "AllowedOutOfVocabulary", [](Sampling& s) { s.add_allowed_token_ids(~0u); },
          "allowed_token_ids[0]"),
      OfSampling(
          "AllowedTwice",
          [](Sampling& s) {
            s.add_allowed_token_ids(7);
            s.add_allowed_token_ids(7);
          },
          "allowed_token_ids[1]"),
      OfSampling(
          "StopOutOfVocabulary", [](Sampling& s) { s.add_stop_token_ids(kBadStepVocabSize); },
          "stop_token_ids[0]"),
  };
}

}  // namespace lockstep::testing
