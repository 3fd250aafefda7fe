#include "router/workers/worker_contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "common/hash.h"
#include "common/lease_epoch.h"
#include "common/status.h"
#include "router/workers/worker_text.h"

namespace lockstep::router {

namespace {

class Mismatches {
 public:
  void Require(bool holds, std::string_view field, std::string_view wanted, std::string_view got) {
    if (!holds) Add(fmt::format("{}: expected {}, got {}", field, wanted, got));
  }
  void RequireRange(std::string_view field, uint64_t value, uint64_t min, uint64_t max) {
    Require(value >= min && value <= max, field, fmt::format("{} to {}", min, max),
            fmt::format("{}", value));
  }
  void Add(std::string_view text) { text_ += fmt::format("{}{}", text_.empty() ? "" : "; ", text); }
  void RequireName(std::string_view field, std::string_view text) {
    Require(text.size() <= kMaxWorkerNameBytes, field,
            fmt::format("at most {} bytes", kMaxWorkerNameBytes),
            fmt::format("{} bytes", text.size()));
  }
  void Merge(const Mismatches& other) {
    if (!other.empty()) Add(other.text_);
  }
  bool empty() const { return text_.empty(); }
  absl::Status ToStatus() const {
    if (text_.empty()) return absl::OkStatus();
    return FailedPrecondition("the worker does not fit this router: {}", text_);
  }

 private:
  std::string text_;
};

void CheckIdentity(const worker::v1::DescribeResponse& description, const ExpectedModel& expected,
                   Mismatches& mismatches) {
  mismatches.RequireRange("protocol_version", description.protocol_version(),
                          kOldestStepProtocolVersion, kStepProtocolVersion);
  mismatches.Require(description.model_fingerprint() == expected.model_fingerprint,
                     "model_fingerprint", fmt::format("{:016x}", expected.model_fingerprint),
                     fmt::format("{:016x} (model {})", description.model_fingerprint(),
                                 QuoteWorker(description.model_id())));
  mismatches.Require(description.tokenizer_fingerprint() == 0 ||
                         description.tokenizer_fingerprint() == expected.tokenizer_fingerprint,
                     "tokenizer_fingerprint",
                     fmt::format("{:016x}", expected.tokenizer_fingerprint),
                     fmt::format("{:016x}", description.tokenizer_fingerprint()));
  mismatches.Require(description.vocab_size() == expected.vocab_size, "vocab_size",
                     fmt::format("{}", expected.vocab_size),
                     fmt::format("{}", description.vocab_size()));
  mismatches.RequireName("weights_dtype", description.weights_dtype());
  mismatches.RequireName("device", description.device());
  mismatches.RequireName("constraint_engine", description.constraint_engine());
}

KvGroups GroupsOf(const worker::v1::DescribeResponse& description) {
  KvGroups groups;
  for (const worker::v1::KvGroup& group : description.kv_groups()) {
    groups.push_back(
        MakeKvGroup(group.block_size_tokens(), group.num_blocks(), group.window_tokens()));
  }
  return groups;
}

void CheckGroup(const worker::v1::KvGroup& group, std::string_view name, Mismatches& mismatches) {
  mismatches.RequireRange(fmt::format("{}.block_size_tokens", name), group.block_size_tokens(), 1,
                          kMaxWorkerBlockSizeTokens);
  mismatches.RequireRange(fmt::format("{}.num_blocks", name), group.num_blocks(), 1,
                          kMaxWorkerBlocks);
  mismatches.RequireRange(fmt::format("{}.window_tokens", name), group.window_tokens(), 0,
                          kMaxWorkerWindowTokens);
  mismatches.RequireName(fmt::format("{}.dtype", name), group.dtype());
}

void CheckGroups(const worker::v1::DescribeResponse& description, Mismatches& all) {
  const uint32_t max_groups =
      description.protocol_version() == kOldestStepProtocolVersion ? 1 : kMaxWorkerKvGroups;
  const auto num_groups = static_cast<uint32_t>(description.kv_groups_size());
  if (num_groups == 0 || num_groups > max_groups) {
    return all.Require(false, "kv_groups",
                       fmt::format("1 to {} groups with protocol version {}", max_groups,
                                   description.protocol_version()),
                       fmt::format("{}", num_groups));
  }
  Mismatches mismatches;
  uint64_t num_blocks = 0;
  uint64_t num_tokens = 0;
  for (uint32_t i = 0; i < num_groups; ++i) {
    const worker::v1::KvGroup& group = description.kv_groups(static_cast<int>(i));
    CheckGroup(group, fmt::format("kv_groups[{}]", i), mismatches);
    num_blocks += group.num_blocks();
    num_tokens += uint64_t{group.num_blocks()} * group.block_size_tokens();
  }
  mismatches.Require(num_blocks <= kMaxWorkerBlocks, "kv_groups",
                     fmt::format("at most {} blocks in all", kMaxWorkerBlocks),
                     fmt::format("{}", num_blocks));
  mismatches.Require(num_tokens <= kMaxWorkerCacheTokens, "kv_groups",
                     fmt::format("at most {} tokens in all", kMaxWorkerCacheTokens),
                     fmt::format("{}", num_tokens));
  // The numbers are in range. The scheduler says which of them fit together.
  if (mismatches.empty()) {
    if (const absl::Status status = Validate(GroupsOf(description)); !status.ok()) {
      mismatches.Add(Message(status));
    }
  }
  all.Merge(mismatches);
}

// The router allocates memory by these numbers and computes with them.
void CheckLimits(const worker::v1::DescribeResponse& description, Mismatches& mismatches) {
  CheckGroups(description, mismatches);
  mismatches.RequireRange("max_slots", description.max_slots(), 1, kMaxWorkerSlots);
  mismatches.RequireRange("max_step_tokens", description.max_step_tokens(), 1,
                          kMaxWorkerStepTokens);
  mismatches.RequireRange("max_context_tokens", description.max_context_tokens(), 1,
                          kMaxWorkerContextTokens);
  mismatches.RequireRange("max_logprobs", description.max_logprobs(), 0, kMaxWorkerLogprobs);
  mismatches.RequireRange("max_steps_in_flight", description.max_steps_in_flight(), 1,
                          kMaxWorkerStepsInFlight);
  mismatches.RequireRange("max_decode_iterations", description.max_decode_iterations(), 0,
                          kMaxWorkerDecodeIterations);
  mismatches.RequireRange("max_draft_tokens", description.max_draft_tokens(), 0,
                          kMaxWorkerDraftTokens);
  mismatches.RequireRange("last_epoch", description.last_epoch(), 0, kHighestEpoch);
}

}  // namespace

uint64_t ConstraintEngineHash(std::string_view version) {
  return version.empty() ? 0 : std::max<uint64_t>(Hash64(version), 1);
}

WorkerBits BitsOf(const worker::v1::DescribeResponse& description) {
  return {.numerics_id = description.numerics_id(),
          .weights_fingerprint = description.weights_fingerprint()};
}

absl::Status CheckDescription(const worker::v1::DescribeResponse& description,
                              const ExpectedModel& expected) {
  // A message of this size is not inspected any further.
  if (description.ByteSizeLong() > kMaxDescriptionBytes) {
    return FailedPrecondition("the worker describes itself in {} bytes, expected at most {}",
                              description.ByteSizeLong(), kMaxDescriptionBytes);
  }
  Mismatches mismatches;
  CheckIdentity(description, expected, mismatches);
  CheckLimits(description, mismatches);
  return mismatches.ToStatus();
}

WorkerLimits LimitsOf(const worker::v1::DescribeResponse& description) {
  return {.kv_groups = GroupsOf(description),
          .max_slots = description.max_slots(),
          .max_step_tokens = description.max_step_tokens(),
          .max_context_tokens = description.max_context_tokens(),
          .vocab_size = description.vocab_size(),
          .max_decode_iterations = std::max(1u, description.max_decode_iterations()),
          .max_draft_tokens = description.max_draft_tokens(),
          .max_steps_in_flight = description.max_steps_in_flight(),
          .constraint_engine = ConstraintEngineHash(description.constraint_engine())};
}

size_t MaxResultBytes(const worker::v1::DescribeResponse& description) {
  // Tokens, logprobs of prompts, and everything else of a slot. An error's text may be long.
  constexpr size_t kBytesOfTop = 10;
  constexpr size_t kBytesOfToken = 48;
  constexpr size_t kBytesOfSlot = 512;
  constexpr size_t kBytesOfStep = 64 << 10;
  const size_t num_slots = description.max_slots();
  const size_t max_kept =
      std::max(description.max_decode_iterations(), 1 + description.max_draft_tokens());
  const size_t num_tokens = description.max_step_tokens() + num_slots * max_kept;
  return kBytesOfStep + num_slots * kBytesOfSlot +
         num_tokens * (kBytesOfToken + kBytesOfTop * description.max_logprobs());
}

}  // namespace lockstep::router
