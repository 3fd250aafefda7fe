#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/constraints/engine_process.h"
#include "common/status.h"

namespace lockstep::testing {

// An engine without a process. A constraint's text has the bytes that the output must be, once, or
// nothing: then every token may follow. Token b is the byte b.
class FakeConstraintEngine final : public ConstraintEngine {
 public:
  explicit FakeConstraintEngine(uint32_t vocab_size = 64) : vocab_size_(vocab_size) {}

  const std::string& version() const override { return version_; }
  absl::Status Check(const Constraint&) override { return absl::OkStatus(); }
  absl::Status Begin(SlotId slot, const Constraint& constraint, std::span<const TokenId> end_ids,
                     std::span<const TokenId> tokens) override {
    LOCKSTEP_RETURN_IF_ERROR(Fault("begin", slot));
    slots_[slot] = {.text = constraint.text,
                    .ends = {end_ids.begin(), end_ids.end()},
                    .output = {tokens.begin(), tokens.end()}};
    return absl::OkStatus();
  }
  absl::Status Mask(SlotId slot, std::span<const TokenId> tokens, TokenMask& mask) override {
    LOCKSTEP_RETURN_IF_ERROR(Fault("mask", slot));
    if (!slots_.contains(slot)) return InvalidArgument("slot {} was not begun", slot);
    Sequence& sequence = slots_[slot];
    sequence.output.insert(sequence.output.end(), tokens.begin(), tokens.end());
    return MakeMask(sequence, mask);
  }
  absl::Status Release(SlotId slot) override {
    LOCKSTEP_RETURN_IF_ERROR(Fault("release", slot));
    slots_.erase(slot);
    return absl::OkStatus();
  }
  absl::Status Restart() override {
    calls.push_back("restart");
    slots_.clear();
    return restart_status;
  }

  size_t num_slots() const { return slots_.size(); }

  std::vector<std::string> calls;  // as "mask 3"
  // Called before each job; an error is what the job gives.
  std::function<absl::Status(const std::string& job, SlotId slot)> fault;
  absl::Status restart_status;

 private:
  struct Sequence {
    std::string text;
    std::vector<TokenId> ends;
    std::vector<TokenId> output;
  };

  absl::Status Fault(const std::string& job, SlotId slot) {
    calls.push_back(job + " " + std::to_string(slot));
    const absl::Status status = fault ? fault(job, slot) : absl::OkStatus();
    if (absl::IsAborted(status) || absl::IsUnavailable(status)) slots_.clear();
    return status;
  }
  absl::Status MakeMask(const Sequence& sequence, TokenMask& mask) const {
    mask = {.words =
                std::vector<uint32_t>((vocab_size_ + 31) / 32, sequence.text.empty() ? ~0u : 0u)};
    if (sequence.text.empty()) return absl::OkStatus();
    const size_t place = sequence.output.size();
    for (size_t i = 0; i < place; ++i) {
      if (i >= sequence.text.size() ||
          sequence.output[i] != static_cast<uint8_t>(sequence.text[i])) {
        return InvalidArgument("token {} does not fit", i);
      }
    }
    mask.ends_only = place == sequence.text.size();
    const auto allow = [&mask](TokenId token) { mask.words[token / 32] |= 1u << token % 32; };
    if (!mask.ends_only) {
      allow(static_cast<uint8_t>(sequence.text[place]));
    } else {
      for (const TokenId token : sequence.ends) allow(token);
    }
    return absl::OkStatus();
  }

  const uint32_t vocab_size_;
  const std::string version_ = "fake@1";
  std::map<SlotId, Sequence> slots_;
};

}  // namespace lockstep::testing
