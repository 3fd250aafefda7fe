#include "worker/cuda/steps/step_record.h"

#include "kernels/sampling/log_softmax.h"
#include "kernels/sampling/sample.h"

namespace lockstep::worker {
namespace {

void FillLogprobs(const LogitsUse& use, TokenId token, const kernels::RowDescription& from,
                  v1::TokenLogprobs& to) {
  to.set_slot(use.slot);
  to.set_token_id(token);
  to.set_logprob(from.logprob);
  to.set_rank(from.rank);
  for (uint32_t i = 0; i < from.num_best; ++i) {
    to.add_top_ids(from.best_tokens[i]);
    to.add_top_logprobs(from.best_logprobs[i]);
  }
}

}  // namespace

void CudaStepRecord::Clear() {
  result.Clear();
  stats = {};
  rows.clear();
  passes.clear();
  num_harvested = 0;
  begin_ns = 0;
  idle_ns = 0;
  end_ns = 0;
}

void CudaStepRecord::TakePass(const PassSource& source, const PassRecord& pass,
                              std::vector<EndedRow>& ended) {
  if (pass.computes) TakeTimes(source, pass.serial % source.ring.capacity);
  TakePrompts(source, pass, ended);
  for (size_t i = 0; i < pass.samples.size(); ++i) TakeSample(source, pass, i, ended);
  ++num_harvested;
}

void CudaStepRecord::TakeTimes(const PassSource& source, size_t entry) {
  if (begin_ns == 0) {
    begin_ns = source.ring.begin_ns[entry];
    if (source.last_end_ns != 0 && begin_ns > source.last_end_ns) {
      idle_ns = begin_ns - source.last_end_ns;
    }
  }
  end_ns = source.ring.end_ns[entry];
}

void CudaStepRecord::TakePrompts(const PassSource& source, const PassRecord& pass,
                                 std::vector<EndedRow>& ended) {
  for (size_t i = 0; i < pass.prompts.size(); ++i) {
    const LogitsUse& use = pass.prompts[i];
    Row& row = rows[use.row];
    if (row.failed || source.failed_generations[use.slot] == row.generation) continue;
    const kernels::RowDescription& description = source.staging.prompt_descriptions[i];
    if (description.status != kernels::kSampled) {
      row.failed = true;
      ReportError(use.slot, kernels::NoLogProbabilities(), result);
      ended.push_back({use.slot, row.generation, /*failed_in_prompt=*/true});
      continue;
    }
    if (row.prompt_logprobs == nullptr) {
      row.prompt_logprobs = result.add_prompt_logprobs();
      row.prompt_logprobs->set_slot(use.slot);
      row.prompt_logprobs->set_first_position(use.position);
    }
    FillLogprobs(use, source.staging.prompt_tokens[i], description,
                 *row.prompt_logprobs->add_entries());
  }
}

void CudaStepRecord::TakeSample(const PassSource& source, const PassRecord& pass, size_t index,
                                std::vector<EndedRow>& ended) {
  const PassSample& use = pass.samples[index];
  Row& row = rows[use.row];
  if (source.failed_generations[use.slot] == row.generation) return;
  const size_t place = pass.serial % source.ring.capacity * source.ring.max_rows + index;
  const kernels::SampledRow& sampled = source.ring.rows[place];
  if (use.draft_number > 0 && sampled.status != kernels::kNotSampled) ++row.num_drafted;
  if (row.failed) return;
  if (sampled.status == kernels::kNoTokenLeft) {
    row.failed = true;
    const uint32_t position = use.position + source.num_kept_drafts[use.slot];
    ReportError(use.slot, kernels::NoTokenLeft(position), result);
    ended.push_back({use.slot, row.generation, /*failed_in_prompt=*/false});
  }
  if (sampled.status != kernels::kSampled) return;
  row.sampled.push_back(sampled.token);
  const kernels::RowDescription& description = source.ring.descriptions[place];
  if (pass.describes && description.rank > 0) {
    FillLogprobs(use, sampled.token, description, row.logprobs.emplace_back());
  }
  if (sampled.stop_cause == kernels::kStillRuns) return;
  row.stopped = true;
  row.stop_cause =
      sampled.stop_cause == kernels::kStoppedByToken ? v1::STOP_CAUSE_TOKEN : v1::STOP_CAUSE_LENGTH;
  ended.push_back({use.slot, row.generation, /*failed_in_prompt=*/false});
}

void CudaStepRecord::Report(const std::vector<uint64_t>& failed_generations) {
  for (const Row& row : rows) {
    // The sequence ended in an earlier step. The result of that step came after this step was
    // submitted.
    const bool had_failed = failed_generations[row.slot] == row.generation;
    if (row.sampled.empty() && !row.failed && (row.samples || had_failed)) {
      result.add_inert_slots(row.slot);
    }
  }
  ReportRows(rows.begin(), rows.end(), result);
  if (begin_ns != 0) {
    result.mutable_timings()->set_compute_ns(end_ns - begin_ns);
    result.mutable_timings()->set_idle_ns(idle_ns);
  }
}

}  // namespace lockstep::worker
