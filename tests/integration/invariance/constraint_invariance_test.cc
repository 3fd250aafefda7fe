// A constrained request gives the same bits alone and under any schedule: preempted, restarted, on
// other workers, while the constraint engine is killed. Engines that answer wrongly are found.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "common/model_files/tokenizer/vocabulary.h"
#include "common/status.h"
#include "tests/common/constraints/test_engine.h"
#include "tests/integration/invariance/invariance_check.h"
#include "worker/cpu/load_model.h"

namespace lockstep::testing {
namespace {

using Requests = std::vector<std::shared_ptr<const router::Request>>;

constexpr char kRegex[] = "[a-z]{2,6}( [a-z]{1,8}){1,9}";
constexpr char kSchema[] =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
        "n": {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 4}},
        "required": ["name", "n"], "additionalProperties": false})";
constexpr TokenId kEndOfTurn = 383;  // tiny-llama's <|eot_id|>

// What a wrapped engine does wrong.
enum class EngineFault {
  kNone,
  kKilled,     // the process ends again and again; nothing may change
  kLate,       // a mask is of the token before
  kOtherSlot,  // a mask is of the slot that was asked before
};

class FaultyEngine final : public ConstraintEngine {
 public:
  FaultyEngine(CagedConstraintEngine& engine, EngineFault fault) : engine_(engine), fault_(fault) {}

  const std::string& version() const override { return engine_.version(); }
  absl::Status Check(const Constraint& constraint) override { return engine_.Check(constraint); }
  absl::Status Begin(SlotId slot, const Constraint& constraint, std::span<const TokenId> end_ids,
                     std::span<const TokenId> tokens) override {
    late_.erase(slot);
    return engine_.Begin(slot, constraint, end_ids, tokens);
  }
  absl::Status Mask(SlotId slot, std::span<const TokenId> tokens, TokenMask& mask) override {
    ++num_masks_;
    if (fault_ == EngineFault::kKilled && num_masks_ % 200 == 0) kill(engine_.pid(), SIGKILL);
    LOCKSTEP_RETURN_IF_ERROR(engine_.Mask(slot, tokens, mask));
    const TokenMask right = mask;
    if (fault_ == EngineFault::kLate && late_.contains(slot)) mask = late_[slot];
    if (fault_ == EngineFault::kOtherSlot && !last_.words.empty()) mask = last_;
    late_[slot] = right;
    last_ = right;
    return absl::OkStatus();
  }
  absl::Status Release(SlotId slot) override { return engine_.Release(slot); }
  absl::Status Restart() override {
    ++num_restarts_;
    return engine_.Restart();
  }

  uint64_t num_masks() const { return num_masks_; }
  uint64_t num_restarts() const { return num_restarts_; }

 private:
  CagedConstraintEngine& engine_;
  const EngineFault fault_;
  std::map<SlotId, TokenMask> late_;
  TokenMask last_;
  uint64_t num_masks_ = 0;
  uint64_t num_restarts_ = 0;
};

// Two of three requests get a constraint.
Requests Constrain(const Requests& requests) {
  Requests changed;
  for (const auto& request : requests) {
    auto copy = std::make_shared<router::Request>(*request);
    if (copy->key % 3 != 0) {
      const bool is_regex = copy->key % 3 == 1;
      copy->constraint = {
          .constraint = {.kind = is_regex ? ConstraintKind::kRegex : ConstraintKind::kJsonSchema,
                         .text = is_regex ? kRegex : kSchema},
          .engine = kTestConstraintEngine};
      copy->sampling.allowed_token_ids.clear();
      copy->sampling.stop_token_ids = {kEndOfTurn};
    }
    changed.push_back(std::move(copy));
  }
  return changed;
}

// Counts whole outputs. Each of them must fit.
uint32_t CountWhole(const Requests& requests, const Records& records,
                    const std::vector<VocabularyToken>& vocabulary) {
  uint32_t num_whole = 0;
  for (const auto& request : requests) {
    if (!request->constraint) continue;
    for (const SequenceRecord& sample : records.at(request->key).samples) {
      EXPECT_TRUE(sample.error.ok()) << sample.error;
      if (sample.reason != router::FinishReason::kStop) continue;
      std::string text;
      for (const TokenId token : sample.tokens) {
        if (token != kEndOfTurn) text += vocabulary[token].bytes;
      }
      ++num_whole;
      if (request->constraint->constraint.kind == ConstraintKind::kRegex) {
        EXPECT_TRUE(std::regex_match(text, std::regex(kRegex))) << text;
        continue;
      }
      const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
      EXPECT_TRUE(value.is_object() && value.size() == 2 && value["name"].is_string() &&
                  value["n"].is_array())
          << text;
    }
  }
  return num_whole;
}

class ConstraintInvariance : public ::testing::Test {
 protected:
  void SetUp() override {
    LOCKSTEP_SKIP_WITHOUT_LLGUIDANCE();
    worker::ModelOptions options;
    options.num_kv_blocks = case_.num_blocks;
    options.num_threads = 1;
    options.max_step_tokens = 512;
    auto model = worker::LoadCpuModel(case_.path, options);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    auto vocabulary = LoadVocabulary(case_.path, model_->info().vocab_size);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
    vocabulary_ = *std::move(vocabulary);
    auto engine = CagedConstraintEngine::Start(TestEngineConfig(), vocabulary_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    WorkloadShape shape = case_.shape;
    shape.num_requests = 180;
    shape.vocab_size = model_->info().vocab_size;
    requests_ = Constrain(MakeWorkload(shape, /*seed=*/20261129));
  }

  WorkerUnderTest With(ConstraintEngine& engine) {
    return {.info = model_->info(),
            .make_runner = [this, &engine](const worker::ExecutorLimits& limits,
                                           WorkerUnderTest::Observer observer) {
              auto runner = std::make_shared<worker::CpuStepRunner>(
                  *model_, limits, /*incarnation=*/1, /*drafter=*/nullptr, &engine);
              runner->set_logits_observer(std::move(observer));
              return runner;
            }};
  }
  Records Together(ConstraintEngine& engine, ScheduleCounts* counts) {
    const WorkerUnderTest worker = With(engine);
    const auto lives =
        AdversarialLives(worker.info, case_.num_restarts, case_.min_blocks, /*seed=*/7);
    return RunTogether(worker, requests_, lives, /*seed=*/11, counts);
  }

  const ModelCase case_ = TinyCase("tiny-llama");
  std::unique_ptr<worker::ForwardModel> model_;
  std::vector<VocabularyToken> vocabulary_;
  std::unique_ptr<CagedConstraintEngine> engine_;
  Requests requests_;
};

TEST_F(ConstraintInvariance, SchedulesAndKillsChangeNothing) {
  const Records alone = RunAlone(With(*engine_), requests_);
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_GE(CountWhole(requests_, alone, vocabulary_), 20u);

  FaultyEngine engine(*engine_, EngineFault::kKilled);
  ScheduleCounts counts;
  const Records together = Together(engine, &counts);
  ASSERT_FALSE(HasFatalFailure());
  fmt::print("steps {} overlapped {} preemptions {} hit tokens {} restarts {} masks {} kills {}\n",
             counts.steps, counts.overlapped_steps, counts.preemptions, counts.prefix_hit_tokens,
             counts.restarts, engine.num_masks(), engine.num_restarts());
  EXPECT_GE(counts.restarts, case_.num_restarts);
  EXPECT_GE(counts.preemptions, 5u);
  EXPECT_GE(counts.prefix_hit_tokens, 200u);
  EXPECT_GE(engine.num_masks(), 1000u);
  EXPECT_GE(engine.num_restarts(), 5u);
  EXPECT_THAT(Differences(alone, together, /*limit=*/10), ::testing::IsEmpty());
  EXPECT_EQ(counts.changed_on_recompute, 0u);
}

TEST_F(ConstraintInvariance, WrongMasksAreSeen) {
  const Records alone = RunAlone(With(*engine_), requests_);
  ASSERT_FALSE(HasFatalFailure());
  for (const EngineFault fault : {EngineFault::kLate, EngineFault::kOtherSlot}) {
    FaultyEngine engine(*engine_, fault);
    ScheduleCounts counts;
    const Records together = Together(engine, &counts);
    EXPECT_THAT(Differences(alone, together, /*limit=*/10), ::testing::Not(::testing::IsEmpty()));
  }
}

}  // namespace
}  // namespace lockstep::testing
