#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/caged/caged_process.h"
#include "common/constraints/constraint.h"
#include "common/ids.h"
#include "common/model_files/tokenizer/vocabulary.h"

namespace lockstep {

struct ConstraintEngineConfig {
  std::string program = {};                 // path of lockstep-constraint-engine
  std::string python = "/usr/bin/python3";  // runs it
  std::string packages = {};                // folder of Python packages with llguidance
  // Of one job. Wall time may be kWallFactor times as long.
  absl::Duration job_time = absl::Seconds(1);
  absl::Duration load_time = absl::Seconds(30);  // the same, for the start
  uint32_t memory_mib = 1024;                    // address space

  absl::Status Validate() const;  // every violation at once
};

// Enforces constraints: says for each sequence which tokens may follow. A sequence has a slot. Used
// by one thread at a time.
//
// INVALID_ARGUMENT: the constraint is at fault, or the output does not fit it. The other slots are
// fine. ABORTED: this job took too much time or memory, or crashed the engine. UNAVAILABLE: the
// engine ended by itself, or cannot be started. After these two, all slots are lost and every call
// fails until Restart.
class ConstraintEngine {
 public:
  virtual ~ConstraintEngine() = default;

  // Equal versions, vocabularies and constraints give equal masks.
  virtual const std::string& version() const = 0;
  // Compiles the constraint and computes its first mask.
  virtual absl::Status Check(const Constraint& constraint) = 0;
  // Begins a sequence in a slot, in place of any other. `end_ids`: tokens that end the output.
  // `tokens`: the output so far.
  virtual absl::Status Begin(SlotId slot, const Constraint& constraint,
                             std::span<const TokenId> end_ids, std::span<const TokenId> tokens) = 0;
  // Appends tokens to the slot's output, and computes the mask of the next one.
  virtual absl::Status Mask(SlotId slot, std::span<const TokenId> tokens, TokenMask& mask) = 0;
  virtual absl::Status Release(SlotId slot) = 0;
  // Starts a new process, without slots. Its version is the same.
  virtual absl::Status Restart() = 0;
};

// The engine as a caged process (docs/decisions/0020-constraint-engine.md).
class CagedConstraintEngine final : public ConstraintEngine {
 public:
  // NOT_FOUND if a program is missing, UNAVAILABLE if its Python lacks llguidance or the cage
  // cannot be made. The process ends with the thread that starts it.
  static absl::StatusOr<std::unique_ptr<CagedConstraintEngine>> Start(
      const ConstraintEngineConfig& config, std::span<const VocabularyToken> vocabulary);

  const std::string& version() const override { return version_; }
  absl::Status Check(const Constraint& constraint) override;
  absl::Status Begin(SlotId slot, const Constraint& constraint, std::span<const TokenId> end_ids,
                     std::span<const TokenId> tokens) override;
  absl::Status Mask(SlotId slot, std::span<const TokenId> tokens, TokenMask& mask) override;
  absl::Status Release(SlotId slot) override;
  absl::Status Restart() override;

  // What ended the process, after any call that returned ABORTED or UNAVAILABLE.
  enum class Cause {
    kJob,      // the job alone: it would end every process
    kProcess,  // perhaps what else the process held or met: a new process may do the job
    kMachine,  // the machine was busy: the job used less processor time than it may
  };
  Cause cause() const { return cause_; }

  // -1: it has ended.
  pid_t pid() const { return process_ == nullptr ? -1 : process_->pid(); }

 private:
  CagedConstraintEngine(const ConstraintEngineConfig& config, PythonProgram program,
                        std::string vocabulary_frame, uint32_t vocab_size);

  // The text of the answer. It is valid until the next call.
  absl::StatusOr<std::string_view> Ask(std::string_view frame, absl::Duration limit);
  absl::Status ErrorOf(CagedEnd end, absl::Duration limit) const;
  void End(Cause cause);

  const ConstraintEngineConfig config_;
  const PythonProgram program_;
  const std::string vocabulary_frame_;
  const uint32_t vocab_size_;
  std::string version_;
  std::unique_ptr<CagedProcess> process_;  // null: it ended
  std::string payload_;
  bool is_fresh_ = true;  // no job yet since the start
  Cause cause_ = Cause::kProcess;
};

// The folder with Python packages that has llguidance: `wanted` itself, or if it is "auto", the
// packages beside `program` in a wheel, or those of the system's Python. Empty: there is none, or
// `wanted` is "off". NOT_FOUND if `wanted` is a folder without llguidance.
absl::StatusOr<std::string> FindConstraintPackages(const std::string& wanted,
                                                   const std::string& program);

}  // namespace lockstep
