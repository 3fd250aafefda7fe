#include "router/workers/step_codec.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/grpc/sampling_fields.h"
#include "common/status.h"
#include "router/workers/slot_constraint.h"
#include "router/workers/worker_text.h"

namespace lockstep::router {
namespace {

namespace wire = worker::v1;

uint32_t Saturate(uint64_t value) {
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::min(kMax, value));
}

void EncodeSampling(const StartedSlot& started, wire::SlotSampling* out) {
  const SamplingParams& sampling = started.request->sampling;
  WriteSamplingNumbers(sampling, *out);
  out->set_seed(sampling.seed);
  out->set_sample_index(started.sample_index);
  for (const auto& [id, bias] : sampling.logit_bias) {
    out->add_logit_bias_ids(id);
    out->add_logit_bias_values(bias);
  }
  out->mutable_allowed_token_ids()->Add(sampling.allowed_token_ids.begin(),
                                        sampling.allowed_token_ids.end());
  out->mutable_stop_token_ids()->Add(sampling.stop_token_ids.begin(),
                                     sampling.stop_token_ids.end());
  out->set_min_total_tokens(Saturate(started.request->min_total_tokens()));
  out->set_max_total_tokens(Saturate(started.request->max_total_tokens()));
  out->set_num_logprobs(sampling.num_logprobs);
  out->set_num_prompt_logprobs(sampling.num_prompt_logprobs);
}

void EncodeBlocks(const std::vector<GroupBlocks>& blocks, wire::StartedSlot* out) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const GroupBlocks& from = blocks[i];
    LOCKSTEP_CHECK(from.group == i, "started slot {}: the blocks of group {} come where {} belongs",
                   out->slot(), from.group, i);
    if (i == 0) {
      out->mutable_blocks()->Add(from.ids.begin(), from.ids.end());
      continue;
    }
    wire::GroupBlocks* const to = out->add_group_blocks();
    to->set_first(from.first);
    to->mutable_blocks()->Add(from.ids.begin(), from.ids.end());
  }
}

// `grown_groups` stays empty as long as only group 0 grows.
void EncodeGrowth(const RunRow& row, wire::StepRequest& out) {
  for (const GroupBlocks& grown : row.new_blocks) {
    if (grown.group > 0 || out.grown_groups_size() > 0) {
      out.mutable_grown_groups()->Resize(out.grown_slots_size(), 0);
      out.add_grown_groups(grown.group);
    }
    out.add_grown_slots(row.slot);
    out.add_grown_counts(static_cast<uint32_t>(grown.ids.size()));
    out.mutable_grown_blocks()->Add(grown.ids.begin(), grown.ids.end());
  }
}

void EncodeStarted(const StartedSlot& started, wire::StartedSlot* out) {
  out->set_slot(started.slot);
  out->mutable_known_tokens()->Add(started.known_tokens.begin(), started.known_tokens.end());
  out->set_num_prompt_tokens(static_cast<uint32_t>(started.request->prompt_tokens.size()));
  out->set_num_computed_tokens(started.num_computed_tokens);
  EncodeBlocks(started.blocks, out);
  EncodeSampling(started, out->mutable_sampling());
  out->set_first_prompt_logprob(started.first_prompt_logprob);
  EncodeConstraint(*started.request, out);
}

// Codes on the wire are google.rpc.Code, which has the values of absl::StatusCode. Fails if the
// code is OK.
absl::StatusOr<absl::StatusCode> DecodeCode(std::string_view field, uint32_t code) {
  if (code == 0) return Internal("{}.code: an error needs a code other than OK", field);
  constexpr uint32_t kHighestCode = static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  return code <= kHighestCode ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown;
}

absl::Duration Nanoseconds(uint64_t ns) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return absl::Nanoseconds(static_cast<int64_t>(std::min(ns, kMax)));
}

absl::StatusOr<TokenLogprobs> DecodeLogprobs(std::string_view field,
                                             const wire::TokenLogprobs& entry) {
  if (entry.top_ids_size() != entry.top_logprobs_size()) {
    return Internal("{}: {} top_ids but {} top_logprobs", field, entry.top_ids_size(),
                    entry.top_logprobs_size());
  }
  TokenLogprobs out{
      .token = entry.token_id(), .logprob = entry.logprob(), .rank = entry.rank(), .top = {}};
  out.top.reserve(entry.top_ids_size());
  for (int i = 0; i < entry.top_ids_size(); ++i) {
    out.top.emplace_back(entry.top_ids(i), entry.top_logprobs(i));
  }
  return out;
}

// Collects the rows that a result mentions. `outcome` lists them in the order in which the result
// first mentions them.
class ResultDecoder {
 public:
  ResultDecoder(const wire::StepResult& result, const StepPlan& plan)
      : result_(result), plan_(plan) {
    for (size_t row = 0; row < plan.rows.size(); ++row) {
      const SlotId slot = plan.rows[row].slot;
      if (slot >= plan_row_of_slot_.size()) plan_row_of_slot_.resize(slot + 1, kNone);
      plan_row_of_slot_[slot] = static_cast<uint32_t>(row);
    }
    outcome_row_.resize(plan.rows.size(), kNone);
    outcome_.rows.reserve(plan.rows.size());
  }

  absl::StatusOr<StepOutcome> Decode() {
    if (result_.step_id() != plan_.step_id) {
      return Internal("step_id: expected {}, got {}", plan_.step_id, result_.step_id());
    }
    outcome_.step_id = plan_.step_id;
    outcome_.timings = {.queue = Nanoseconds(result_.timings().queue_ns()),
                        .compute = Nanoseconds(result_.timings().compute_ns()),
                        .idle = Nanoseconds(result_.timings().idle_ns()),
                        .total = Nanoseconds(result_.timings().total_ns())};
    if (result_.has_refusal()) {
      LOCKSTEP_RETURN_IF_ERROR(DecodeRefusal());
      return std::move(outcome_);
    }
    LOCKSTEP_RETURN_IF_ERROR(DecodeTokens());
    LOCKSTEP_RETURN_IF_ERROR(DecodeTokenLogprobs());
    LOCKSTEP_RETURN_IF_ERROR(DecodeStops());
    LOCKSTEP_RETURN_IF_ERROR(DecodeInert());
    LOCKSTEP_RETURN_IF_ERROR(DecodeErrors());
    LOCKSTEP_RETURN_IF_ERROR(DecodePromptLogprobs());
    return std::move(outcome_);
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // Null if the slot did not run in this step.
  const RunRow* PlanRow(SlotId slot) const {
    if (slot >= plan_row_of_slot_.size() || plan_row_of_slot_[slot] == kNone) return nullptr;
    return &plan_.rows[plan_row_of_slot_[slot]];
  }

  // Returns the row to fill. The slot must have a plan row.
  RowOutcome& Row(SlotId slot) {
    uint32_t& index = outcome_row_[plan_row_of_slot_[slot]];
    if (index == kNone) {
      index = static_cast<uint32_t>(outcome_.rows.size());
      outcome_.rows.emplace_back().slot = slot;
    }
    return outcome_.rows[index];
  }

  absl::Status NotRun(std::string_view field, int index, SlotId slot) const {
    return Internal("{}[{}]: slot {} did not run in step {}", field, index, slot, plan_.step_id);
  }
  absl::Status Repeated(std::string_view field, int index, SlotId slot) const {
    return Internal("{}[{}]: slot {} is given twice", field, index, slot);
  }

  absl::Status DecodeRefusal() {
    if (result_.sampled_slots_size() > 0 || result_.stopped_slots_size() > 0 ||
        result_.inert_slots_size() > 0 || result_.errors_size() > 0 ||
        result_.prompt_logprobs_size() > 0) {
      return Internal("refusal: a refused step cannot have rows");
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const absl::StatusCode code,
                              DecodeCode("refusal", result_.refusal().code()));
    outcome_.refusal =
        MakeError(code, "the worker says {}", QuoteWorker(result_.refusal().message()));
    return absl::OkStatus();
  }

  absl::Status DecodeTokens() {
    const int num_rows = result_.sampled_slots_size();
    const bool one_each = result_.sampled_counts_size() == 0;
    if (!one_each && result_.sampled_counts_size() != num_rows) {
      return Internal("sampled_counts: expected {} entries or none, got {}", num_rows,
                      result_.sampled_counts_size());
    }
    const int num_drafted = result_.drafted_counts_size();
    if (num_drafted != 0 && num_drafted != num_rows) {
      return Internal("drafted_counts: expected {} entries or none, got {}", num_rows, num_drafted);
    }
    const auto& tokens = result_.token_ids();
    int next_token = 0;
    for (int i = 0; i < num_rows; ++i) {
      const SlotId slot = result_.sampled_slots(i);
      const RunRow* const planned = PlanRow(slot);
      if (planned == nullptr) return NotRun("sampled_slots", i, slot);
      RowOutcome& row = Row(slot);
      if (!row.tokens.empty()) return Repeated("sampled_slots", i, slot);
      LOCKSTEP_RETURN_IF_ERROR(DecodeDrafted(i, *planned, row));
      const uint32_t count = one_each ? 1 : result_.sampled_counts(i);
      const uint64_t bound =
          uint64_t{planned->num_tokens} * std::max(1u, plan_.decode_iterations) + row.num_drafted;
      if (count == 0 || count > bound) {
        return Internal("sampled_counts[{}]: expected 1 to {} tokens for slot {}, got {}", i, bound,
                        slot, count);
      }
      if (count > static_cast<uint32_t>(tokens.size() - next_token)) {
        return Internal("token_ids: {} entries are too few for sampled_counts[{}]", tokens.size(),
                        i);
      }
      row.tokens.assign(tokens.begin() + next_token, tokens.begin() + next_token + count);
      next_token += static_cast<int>(count);
    }
    if (next_token != tokens.size()) {
      return Internal("token_ids: expected {} entries, got {}", next_token, tokens.size());
    }
    return absl::OkStatus();
  }

  // A row keeps the drafts that were right, and one token more.
  absl::Status DecodeDrafted(int i, const RunRow& planned, RowOutcome& row) const {
    if (result_.drafted_counts_size() == 0) return absl::OkStatus();
    row.num_drafted = result_.drafted_counts(i);
    if (row.num_drafted <= planned.max_drafts) return absl::OkStatus();
    return Internal("drafted_counts[{}]: expected at most {} tokens for slot {}, got {}", i,
                    planned.max_drafts, planned.slot, row.num_drafted);
  }

  // A slot that asked for log-probabilities has one entry per token, in the order of token_ids.
  absl::Status DecodeTokenLogprobs() {
    int next = 0;
    const int total = result_.logprobs_size();
    for (int i = 0; i < result_.sampled_slots_size() && next < total; ++i) {
      const SlotId slot = result_.sampled_slots(i);
      if (result_.logprobs(next).slot() != slot) continue;
      RowOutcome& row = Row(slot);
      row.logprobs.reserve(row.tokens.size());
      for (const TokenId token : row.tokens) {
        if (next == total || result_.logprobs(next).slot() != slot) {
          return Internal("logprobs: expected {} entries for slot {}, got {}", row.tokens.size(),
                          slot, row.logprobs.size());
        }
        if (result_.logprobs(next).token_id() != token) {
          return Internal("logprobs[{}].token_id: expected {}, got {}", next, token,
                          result_.logprobs(next).token_id());
        }
        LOCKSTEP_ASSIGN_OR_RETURN(TokenLogprobs entry,
                                  DecodeLogprobs("logprobs", result_.logprobs(next)));
        row.logprobs.push_back(std::move(entry));
        ++next;
      }
    }
    if (next != total) {
      return Internal("logprobs[{}]: slot {} kept no more tokens in step {}", next,
                      result_.logprobs(next).slot(), plan_.step_id);
    }
    return absl::OkStatus();
  }

  absl::Status DecodeStops() {
    if (result_.stopped_slots_size() != result_.stop_causes_size()) {
      return Internal("stop_causes: expected {} entries, got {}", result_.stopped_slots_size(),
                      result_.stop_causes_size());
    }
    for (int i = 0; i < result_.stopped_slots_size(); ++i) {
      const SlotId slot = result_.stopped_slots(i);
      if (PlanRow(slot) == nullptr) return NotRun("stopped_slots", i, slot);
      RowOutcome& row = Row(slot);
      if (row.stopped != StopCause::kNone) return Repeated("stopped_slots", i, slot);
      if (row.tokens.empty()) {
        return Internal("stopped_slots[{}]: slot {} stopped without a token", i, slot);
      }
      switch (result_.stop_causes(i)) {
        case wire::STOP_CAUSE_TOKEN:
          row.stopped = StopCause::kStopToken;
          break;
        case wire::STOP_CAUSE_LENGTH:
          row.stopped = StopCause::kLength;
          break;
        default:
          return Internal("stop_causes[{}]: expected token or length, got {}", i,
                          static_cast<int>(result_.stop_causes(i)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status DecodeInert() {
    for (int i = 0; i < result_.inert_slots_size(); ++i) {
      const SlotId slot = result_.inert_slots(i);
      if (PlanRow(slot) == nullptr) return NotRun("inert_slots", i, slot);
      RowOutcome& row = Row(slot);
      if (row.was_inert) return Repeated("inert_slots", i, slot);
      if (!row.tokens.empty()) {
        return Internal("inert_slots[{}]: inert slot {} kept {} tokens", i, slot,
                        row.tokens.size());
      }
      row.was_inert = true;
    }
    return absl::OkStatus();
  }

  absl::Status DecodeErrors() {
    for (int i = 0; i < result_.errors_size(); ++i) {
      const wire::SlotError& error = result_.errors(i);
      if (PlanRow(error.slot()) == nullptr) return NotRun("errors", i, error.slot());
      RowOutcome& row = Row(error.slot());
      if (!row.error.ok()) return Repeated("errors", i, error.slot());
      LOCKSTEP_ASSIGN_OR_RETURN(const absl::StatusCode code, DecodeCode("errors", error.code()));
      // INTERNAL for every code of the worker: the request was checked, so the client did nothing
      // wrong.
      row.error = Internal("the worker failed this sequence with {}: {}",
                           absl::StatusCodeToString(code), QuoteWorker(error.message()));
    }
    return absl::OkStatus();
  }

  absl::Status DecodePromptLogprobs() {
    for (int i = 0; i < result_.prompt_logprobs_size(); ++i) {
      const wire::PromptLogprobs& message = result_.prompt_logprobs(i);
      const SlotId slot = message.slot();
      const RunRow* const planned = PlanRow(slot);
      if (planned == nullptr) return NotRun("prompt_logprobs", i, slot);
      RowOutcome& row = Row(slot);
      if (!row.prompt_logprobs.empty()) return Repeated("prompt_logprobs", i, slot);
      const int num_entries = message.entries_size();
      if (message.first_position() == 0 || num_entries == 0 ||
          static_cast<uint32_t>(num_entries) > planned->num_tokens) {
        return Internal(
            "prompt_logprobs[{}]: expected 1 to {} entries from position 1 on, got {} from {}", i,
            planned->num_tokens, num_entries, message.first_position());
      }
      row.first_prompt_logprob = message.first_position();
      row.prompt_logprobs.reserve(num_entries);
      for (const wire::TokenLogprobs& wire_entry : message.entries()) {
        LOCKSTEP_ASSIGN_OR_RETURN(TokenLogprobs entry,
                                  DecodeLogprobs("prompt_logprobs.entries", wire_entry));
        row.prompt_logprobs.push_back(std::move(entry));
      }
    }
    return absl::OkStatus();
  }

  const wire::StepResult& result_;
  const StepPlan& plan_;
  std::vector<uint32_t> plan_row_of_slot_;  // slots are dense, so this is as small as the batch
  std::vector<uint32_t> outcome_row_;       // [plan row] -> index into outcome_.rows
  StepOutcome outcome_;
};

}  // namespace

wire::StepRequest EncodeStep(const StepPlan& plan, uint64_t epoch) {
  wire::StepRequest request;
  request.set_epoch(epoch);
  request.set_step_id(plan.step_id);
  request.set_resync(plan.resync);
  request.mutable_released_slots()->Add(plan.released.begin(), plan.released.end());
  for (const StartedSlot& started : plan.started) EncodeStarted(started, request.add_started());

  bool one_token_each = true;
  bool some_draft = false;
  for (const RunRow& row : plan.rows) {
    one_token_each = one_token_each && row.num_tokens == 1;
    some_draft = some_draft || row.max_drafts > 0;
    EncodeGrowth(row, request);
  }
  request.set_repeat_rows(plan.repeat_rows);
  if (!plan.repeat_rows) {
    request.mutable_run_slots()->Reserve(static_cast<int>(plan.rows.size()));
    for (const RunRow& row : plan.rows) request.add_run_slots(row.slot);
    if (!one_token_each) {
      request.mutable_run_tokens()->Reserve(static_cast<int>(plan.rows.size()));
      for (const RunRow& row : plan.rows) request.add_run_tokens(row.num_tokens);
    }
    if (some_draft) {
      request.mutable_draft_limits()->Reserve(static_cast<int>(plan.rows.size()));
      for (const RunRow& row : plan.rows) request.add_draft_limits(row.max_drafts);
    }
  }
  // 0 means one iteration and takes no byte.
  request.set_decode_iterations(plan.decode_iterations > 1 ? plan.decode_iterations : 0);
  return request;
}

absl::StatusOr<StepOutcome> DecodeResult(const wire::StepResult& result, const StepPlan& plan) {
  return ResultDecoder(result, plan).Decode();
}

}  // namespace lockstep::router
