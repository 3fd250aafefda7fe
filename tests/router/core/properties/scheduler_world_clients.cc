// What clients do, and what they must hear.
#include <algorithm>
#include <iterator>
#include <ranges>
#include <set>

#include "common/instant.h"
#include "common/status.h"
#include "tests/router/core/properties/scheduler_world.h"

namespace lockstep::router::testing {

SchedulerWorld::Client* SchedulerWorld::PickClient() {
  if (clients_.empty()) return nullptr;
  return &std::next(clients_.begin(), random_.Between(0, clients_.size() - 1))->second;
}

bool SchedulerWorld::RunsPoison(const Planned& planned, bool kills) const {
  return std::ranges::any_of(planned.owners, [&](const Owner& owner) {
    const auto client = clients_.find(owner.first);
    if (client == clients_.end() || client->second.kills != kills) return false;
    if (client->second.poison || !client->second.late_poison) return client->second.poison;
    const bool starts = std::ranges::any_of(planned.plan.started, [&](const StartedSlot& started) {
      return started.request->key == owner.first && started.sample_index == owner.second;
    });
    return !starts;
  });
}

void SchedulerWorld::NoteLost() {
  std::set<Owner> in_flight;
  for (const Planned& step : planned_) in_flight.insert(step.owners.begin(), step.owners.end());
  for (const Executed& step : executed_) in_flight.insert(step.owners.begin(), step.owners.end());
  for (const Owner& owner : in_flight) {
    Sample* const sample = FindOpen(owner.first, owner.second);
    if (sample == nullptr) continue;
    ++sample->num_losses;
    sample->lost_alone = in_flight.size() == 1;
  }
}

absl::Status SchedulerWorld::Cancel() {
  Client* client = PickClient();
  const RequestKey unknown = next_key_ + 1000;
  if (client != nullptr) {
    client->cancelled = true;
    const RequestKey key = client->request->key;
    const bool in_flight = AnyInFlight([key](const Owner& owner) { return owner.first == key; });
    Count(!client->admitted ? "cancelled before admission"
          : in_flight       ? "cancelled with steps in flight"
                            : "cancelled after admission");
  }
  scheduler_->Cancel(client == nullptr ? unknown : client->request->key, now_);
  return absl::OkStatus();
}

absl::Status SchedulerWorld::StopString() {
  Client* client = PickClient();
  if (client == nullptr) return absl::OkStatus();
  const uint32_t sample_index = random_.Between(0, client->samples.size());
  if (sample_index < client->samples.size()) {
    Sample& sample = client->samples[sample_index];
    sample.stop_requested = true;
    if (!sample.ended) Count(sample.delivered.empty() ? "stop strings at once" : "stop strings");
  }
  scheduler_->StopSequence(client->request->key, sample_index, now_);
  return absl::OkStatus();
}

absl::Status SchedulerWorld::PassTime() {
  return PassTime(absl::Milliseconds(random_.Between(1, 2000)));
}

absl::Status SchedulerWorld::PassTime(absl::Duration duration) {
  now_ += duration;
  const Instant next = scheduler_->NextDeadline();
  scheduler_->ExpireDeadlines(now_);
  if (scheduler_->NextDeadline() <= now_) return Internal("a deadline passed and nothing happened");
  if (next <= now_) Count("deadlines passed");
  return absl::OkStatus();
}

absl::Status SchedulerWorld::FailUnserved() {
  const bool may_start = worker_ != nullptr && !worker_drains_;
  const Instant since = now_ - absl::Milliseconds(random_.Between(0, random_.OneIn(2) ? 3000 : 0));
  const uint32_t num_running = scheduler_->Stats().running_sequences;
  for (auto& [key, client] : clients_) {
    client.unserved = !may_start && client.request->arrival <= since;
  }
  const uint32_t num_failed = scheduler_->FailUnserved(since, Unavailable("told to fail"), now_);
  Count(worker_ == nullptr ? "unserved without a worker" : "unserved on a worker", num_failed);
  LOCKSTEP_RETURN_IF_ERROR(CheckEverything());
  for (auto& [key, client] : clients_) client.unserved = false;
  if (scheduler_->UnservedSince() <= since) return Internal("unserved, and waits on");
  if (may_start && scheduler_->UnservedSince() != Instant::InfiniteFuture()) {
    return Internal("unserved, although the worker may take it");
  }
  if (worker_ == nullptr && since == now_ && !clients_.empty()) return Internal("who is served?");
  if (scheduler_->Stats().running_sequences != num_running) return Internal("it was served");
  return absl::OkStatus();
}

std::string SchedulerWorld::Corrupt(StepOutcome& outcome) {
  const uint32_t kind = random_.Between(0, 3);
  if (kind == 0 || outcome.rows.empty()) {
    outcome.step_id += random_.Between(1, 2);
    return "wrong step";
  }
  RowOutcome& row = outcome.rows[random_.Between(0, outcome.rows.size() - 1)];
  if (kind == 1) {
    row.was_inert = !row.was_inert;
    return "inert or not";
  }
  if (kind == 2) {
    row.tokens.insert(row.tokens.end(), std::max(4u, config_.max_draft_tokens + 2), TokenId{1});
    return "more tokens than planned";
  }
  outcome.rows.push_back(row);
  if (random_.OneIn(2)) outcome.rows.back().slot = limits_.max_slots + random_.Between(0, 3);
  return "a slot twice or unknown";
}

absl::Status SchedulerWorld::DeliverCorrupted() {
  if (executed_.empty() || !executed_.front().step.outcome.refusal.ok()) return absl::OkStatus();
  StepOutcome outcome = executed_.front().step.outcome;
  const std::string kind = Corrupt(outcome);
  Count("contradictions: " + kind);
  const absl::Status status = scheduler_->Apply(outcome, now_);
  if (status.code() != absl::StatusCode::kInternal) {
    return Internal("contradiction ({}): taken as {}", kind, status.ToString());
  }
  if (!scheduler_->TakeEvents().empty()) return Internal("a contradicting outcome caused events");
  if (scheduler_->NextStep(now_).has_value()) return Internal("planned after a contradiction");
  LOCKSTEP_RETURN_IF_ERROR(LoseWorker());
  return Attach();
}

absl::Status SchedulerWorld::CheckEverything() {
  for (const SchedulerEvent& event : scheduler_->TakeEvents()) {
    LOCKSTEP_RETURN_IF_ERROR(std::visit([this](const auto& e) { return OnEvent(e); }, event));
  }
  LOCKSTEP_RETURN_IF_ERROR(scheduler_->CheckIntegrity());
  const SchedulerStats stats = scheduler_->Stats();
  const uint32_t num_blocks =
      stats.free_blocks + stats.used_blocks + stats.cached_blocks + stats.fenced_blocks;
  if (num_blocks != (worker_ == nullptr ? 0 : limits_.kv_groups[0].num_blocks)) {
    return Internal("{} blocks are accounted for", num_blocks);
  }
  const size_t in_flight = planned_.size() + executed_.size();
  if (stats.steps_in_flight != in_flight) {
    return Internal("{} steps are in flight, stats say {}", in_flight, stats.steps_in_flight);
  }
  if (scheduler_->Idle() != (clients_.empty() && in_flight == 0)) {
    return Internal("idle: {}, but {} requests are live", scheduler_->Idle(), clients_.size());
  }
  return absl::OkStatus();
}

SchedulerWorld::Sample* SchedulerWorld::FindOpen(RequestKey key, uint32_t sample_index) {
  const auto client = clients_.find(key);
  if (client == clients_.end() || sample_index >= client->second.samples.size()) return nullptr;
  Sample& sample = client->second.samples[sample_index];
  return sample.ended ? nullptr : &sample;
}

absl::Status SchedulerWorld::OnEvent(const StartedEvent& event) {
  const auto client = clients_.find(event.request);
  if (client == clients_.end())
    return Internal("request {}: admitted, but not live", event.request);
  if (client->second.admitted) return Internal("request {}: admitted twice", event.request);
  client->second.admitted = true;
  if (event.num_cached_tokens >= client->second.request->prompt_tokens.size()) {
    return Internal("request {}: the whole prompt is said to be cached", event.request);
  }
  return absl::OkStatus();
}

absl::Status SchedulerWorld::OnEvent(const PromptLogprobsEvent& event) {
  const auto found = clients_.find(event.request);
  if (found == clients_.end()) return Internal("prompt log-probabilities of nobody");
  Client& client = found->second;
  const std::vector<TokenId>& prompt = client.request->prompt_tokens;
  if (client.has_prompt_logprobs) return Internal("prompt log-probabilities twice");
  client.has_prompt_logprobs = true;
  Count("prompt log-probabilities");
  if (event.entries.size() != prompt.size() - 1) {
    return Internal("request {}: {} prompt log-probabilities for {} tokens", event.request,
                    event.entries.size(), prompt.size());
  }
  uint64_t hash = 0;
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    hash = ExtendTextHash(hash, prompt[i]);
    const TokenLogprobs expected = LogprobsOf(hash, prompt[i + 1]);
    if (event.entries[i].token != expected.token || event.entries[i].logprob != expected.logprob) {
      return Internal("request {}: wrong prompt log-probability {}", event.request, i);
    }
  }
  return absl::OkStatus();
}

absl::Status SchedulerWorld::OnEvent(const TokensEvent& event) {
  Sample* sample = FindOpen(event.request, event.sample_index);
  if (sample == nullptr) {
    return Internal("request {}: tokens after the end of sample {}", event.request,
                    event.sample_index);
  }
  const Client& client = clients_.at(event.request);
  const SamplingParams& sampling = client.request->sampling;
  if (!client.admitted) return Internal("request {}: tokens before admission", event.request);
  if (sampling.num_prompt_logprobs >= 0 && !client.has_prompt_logprobs) {
    return Internal("request {}: tokens before prompt log-probabilities", event.request);
  }
  sample->num_losses = 0;
  const size_t num_before = sample->delivered.size();
  std::ranges::copy(event.tokens, std::back_inserter(sample->delivered));
  const std::vector<TokenId>& reference = sample->reference.tokens;
  if (sample->delivered.size() > reference.size() ||
      !std::equal(sample->delivered.begin(), sample->delivered.end(), reference.begin())) {
    return Internal("request {}: other tokens than when it runs alone", event.request);
  }
  if (event.logprobs.size() != (sampling.num_logprobs >= 0 ? event.tokens.size() : 0)) {
    return Internal("request {}: {} log-probabilities", event.request, event.logprobs.size());
  }
  uint64_t hash = 0;
  for (TokenId token : client.request->prompt_tokens) hash = ExtendTextHash(hash, token);
  for (size_t i = 0; i < sample->delivered.size() && !event.logprobs.empty(); ++i) {
    const TokenLogprobs expected = LogprobsOf(hash, reference[i]);
    if (i >= num_before && event.logprobs[i - num_before].logprob != expected.logprob) {
      return Internal("request {}: wrong log-probability of token {}", event.request, i);
    }
    hash = ExtendTextHash(hash, reference[i]);
  }
  return absl::OkStatus();
}

absl::Status SchedulerWorld::OnEvent(const PreemptedEvent& event) {
  Sample* const sample = FindOpen(event.request, event.sample_index);
  if (sample == nullptr) {
    return Internal("request {}: sample {} preempted after its end", event.request,
                    event.sample_index);
  }
  ++sample->num_preemptions;
  return absl::OkStatus();
}

absl::Status SchedulerWorld::OnEvent(const FinishedEvent& event) {
  Sample* sample = FindOpen(event.request, event.sample_index);
  if (sample == nullptr) {
    return Internal("request {}: sample {} ended twice", event.request, event.sample_index);
  }
  sample->ended = true;
  const Client& client = clients_.at(event.request);
  const absl::Status status = CheckEnding(client, *sample, event);
  if (!status.ok()) return Annotate(status, fmt::format("end of request {}", event.request));
  std::vector<TokenId>& text = ended_texts_.emplace_back(client.request->prompt_tokens);
  std::ranges::copy(sample->delivered, std::back_inserter(text));
  if (ended_texts_.size() > 6) ended_texts_.pop_front();
  if (std::ranges::all_of(client.samples, &Sample::ended)) clients_.erase(event.request);
  return absl::OkStatus();
}

absl::Status SchedulerWorld::CheckEnding(const Client& client, const Sample& sample,
                                         const FinishedEvent& event) {
  if (event.num_generated_tokens != sample.delivered.size()) {
    return Internal("{} tokens delivered, {} said", sample.delivered.size(),
                    event.num_generated_tokens);
  }
  if (!event.error.ok()) return CheckFailure(client, sample, event.error);
  const bool complete = sample.delivered == sample.reference.tokens;
  switch (event.reason) {
    case FinishReason::kAborted:
      Count("ended: cancelled");
      return client.cancelled ? absl::OkStatus() : Internal("aborted, but not cancelled");
    case FinishReason::kLength:
      Count("ended: length");
      if (complete && sample.reference.cause == StopCause::kLength) return absl::OkStatus();
      return Internal("by length, but it is not at its end");
    case FinishReason::kStop:
      if (!event.stop_token.has_value()) {
        Count("ended: stop string");
        return sample.stop_requested ? absl::OkStatus() : Internal("a stop string of nobody");
      }
      Count("ended: stop token");
      if (complete && sample.reference.cause == StopCause::kStopToken &&
          *event.stop_token == sample.delivered.back()) {
        return absl::OkStatus();
      }
      return Internal("by a stop token, but it is not at its end");
  }
  return Internal("unknown reason");
}

absl::Status SchedulerWorld::CheckFailure(const Client& client, const Sample& sample,
                                          const absl::Status& error) {
  Count("failed: " + absl::StatusCodeToString(error.code()));
  bool deserved = false;
  switch (error.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      deserved = client.request->deadline <= now_;
      break;
    case absl::StatusCode::kAborted:
      deserved = sample.row_failed || client.other_bits;
      break;
    case absl::StatusCode::kInternal: {
      const bool lost = sample.num_losses >= 4 && sample.lost_alone;
      if (lost) Count("failed after killing workers");
      deserved = lost || (sample.num_refusals >= 3 && sample.refused_alone);
      break;
    }
    case absl::StatusCode::kUnavailable:
      deserved = client.unserved;
      break;
    case absl::StatusCode::kInvalidArgument: {
      const size_t num_prompt = client.request->prompt_tokens.size();
      deserved =
          num_prompt + client.request->sampling.max_new_tokens > limits_.max_context_tokens ||
          num_prompt + sample.reference.tokens.size() >
              size_t{limits_.kv_groups[0].num_blocks} * limits_.block_size_tokens();
      break;
    }
    case absl::StatusCode::kResourceExhausted:
      deserved = sample.num_preemptions >= config_.max_preemptions_per_sequence;
      break;
    default:
      break;
  }
  return deserved ? absl::OkStatus() : Internal("failed without a cause: {}", error.ToString());
}

}  // namespace lockstep::router::testing
