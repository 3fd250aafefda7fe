#include "tests/rigs/instant_worker/instant_worker.h"

#include <utility>

#include "common/model_files/model_config.h"
#include "common/model_files/tokenizer/tokenizer_fingerprint.h"
#include "common/status.h"

namespace lockstep::bench {
namespace {

constexpr uint64_t kIncarnation = 1;
constexpr uint32_t kMaxStepTokens = 16384;
constexpr uint32_t kNumBlocks = 1 << 17;

}  // namespace

absl::StatusOr<std::unique_ptr<InstantWorker>> InstantWorker::Start(const std::string& model_path,
                                                                    uint32_t max_slots,
                                                                    uint32_t window_tokens) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(model_path));
  std::unique_ptr<InstantWorker> instant(new InstantWorker());
  worker::ForwardModelInfo& info = instant->info_;
  info.model_id = "instant";
  info.vocab_size = config.vocab_size;
  info.max_context_tokens = config.max_context_tokens;
  info.max_step_tokens = kMaxStepTokens;
  info.max_logits_rows = max_slots;
  info.kv_groups.front().num_blocks = kNumBlocks;
  if (window_tokens > 0) {
    info.kv_groups.push_back(
        {.num_blocks = kNumBlocks, .window_tokens = window_tokens, .dtype = {}});
  }
  info.model_fingerprint = config.Fingerprint();
  LOCKSTEP_ASSIGN_OR_RETURN(info.tokenizer_fingerprint, LoadTokenizerFingerprint(model_path));
  instant->metrics_ = std::make_unique<worker::WorkerMetrics>(instant->registry_, info);
  auto runner = std::make_unique<PacedRunner>(
      info, worker::ExecutorLimits{.max_slots = max_slots, .max_decode_iterations = 1},
      kIncarnation);
  instant->runner_ = runner.get();
  LOCKSTEP_ASSIGN_OR_RETURN(
      instant->server_,
      worker::WorkerServer::Start(std::move(runner), info, kIncarnation, *instant->metrics_, {}));
  return instant;
}

}  // namespace lockstep::bench
