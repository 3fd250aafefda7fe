#include "router/engine/worker_contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/status.h"

namespace lockstep::router {

WorkerBits BitsOf(const worker::v1::DescribeResponse& description) {
  return {.numerics_id = description.numerics_id(),
          .weights_fingerprint = description.weights_fingerprint()};
}

absl::Status CheckDescription(const worker::v1::DescribeResponse& description,
                              const ExpectedModel& expected) {
  std::string problems;
  const auto require = [&problems](bool holds, std::string_view field, std::string_view wanted,
                                   std::string_view got) {
    if (holds) return;
    problems +=
        fmt::format("{}{}: expected {}, got {}", problems.empty() ? "" : "; ", field, wanted, got);
  };
  const auto require_positive = [&require](uint32_t value, std::string_view field) {
    require(value > 0, field, "at least 1", "0");
  };

  const uint32_t version = description.protocol_version();
  require(version >= kOldestStepProtocolVersion && version <= kStepProtocolVersion,
          "protocol_version",
          fmt::format("{} to {}", kOldestStepProtocolVersion, kStepProtocolVersion),
          fmt::format("{}", version));
  require(description.model_fingerprint() == expected.model_fingerprint, "model_fingerprint",
          fmt::format("{:016x}", expected.model_fingerprint),
          fmt::format("{:016x} (model \"{}\")", description.model_fingerprint(),
                      description.model_id()));
  require(description.tokenizer_fingerprint() == 0 ||
              description.tokenizer_fingerprint() == expected.tokenizer_fingerprint,
          "tokenizer_fingerprint", fmt::format("{:016x}", expected.tokenizer_fingerprint),
          fmt::format("{:016x}", description.tokenizer_fingerprint()));
  require(description.vocab_size() == expected.vocab_size, "vocab_size",
          fmt::format("{}", expected.vocab_size), fmt::format("{}", description.vocab_size()));
  require(description.kv_groups_size() == 1, "kv_groups", "1 group",
          fmt::format("{}", description.kv_groups_size()));
  for (const worker::v1::KvGroup& group : description.kv_groups()) {
    require_positive(group.block_size_tokens(), "kv_groups.block_size_tokens");
    require_positive(group.num_blocks(), "kv_groups.num_blocks");
  }
  require_positive(description.max_slots(), "max_slots");
  require_positive(description.max_step_tokens(), "max_step_tokens");
  require_positive(description.max_context_tokens(), "max_context_tokens");
  require_positive(description.max_steps_in_flight(), "max_steps_in_flight");
  if (problems.empty()) return absl::OkStatus();
  return FailedPrecondition("the worker does not fit this router: {}", problems);
}

WorkerLimits LimitsOf(const worker::v1::DescribeResponse& description) {
  return {.num_blocks = description.kv_groups(0).num_blocks(),
          .block_size_tokens = description.kv_groups(0).block_size_tokens(),
          .max_slots = description.max_slots(),
          .max_step_tokens = description.max_step_tokens(),
          .max_context_tokens = description.max_context_tokens(),
          .max_decode_iterations = std::max(1u, description.max_decode_iterations()),
          .max_steps_in_flight = description.max_steps_in_flight()};
}

}  // namespace lockstep::router
