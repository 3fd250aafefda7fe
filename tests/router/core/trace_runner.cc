#include "tests/router/core/trace_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <sstream>
#include <utility>
#include <variant>

#include "common/status.h"
#include "router/core/policy/priority_policy.h"
#include "tests/router/core/fcfs_policy.h"

namespace lockstep::router::testing {
namespace {

std::vector<std::string> WordsOf(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::map<std::string, std::string> ArgumentsOf(const std::vector<std::string>& words) {
  std::map<std::string, std::string> arguments;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) arguments[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return arguments;
}

template <typename Number>
absl::Status Parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return absl::OkStatus();
  return InvalidArgument("'{}' is not a number", text);
}

// Leaves `value` alone when the argument is missing.
template <typename Number>
absl::Status Take(const std::map<std::string, std::string>& arguments, const std::string& name,
                  Number& value) {
  const auto found = arguments.find(name);
  return found == arguments.end() ? absl::OkStatus() : Parse(found->second, value);
}

absl::Status ParseTokens(const std::string& text, std::vector<TokenId>& tokens) {
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    LOCKSTEP_RETURN_IF_ERROR(Parse(word, tokens.emplace_back()));
  }
  return absl::OkStatus();
}

std::string Describe(const StartedEvent& event) {
  return fmt::format("request {}: admitted, {} tokens cached", event.request,
                     event.num_cached_tokens);
}
std::string Describe(const PromptLogprobsEvent& event) {
  return fmt::format("request {}: {} prompt log-probabilities", event.request,
                     event.entries.size());
}
std::string Describe(const TokensEvent& event) {
  return fmt::format("request {} sample {}: tokens {}{}", event.request, event.sample_index,
                     fmt::join(event.tokens, " "),
                     event.logprobs.empty() ? "" : ", with log-probabilities");
}
std::string Describe(const PreemptedEvent& event) {
  return fmt::format("request {} sample {}: preempted", event.request, event.sample_index);
}
std::string Describe(const FinishedEvent& event) {
  std::string how = event.reason == FinishReason::kLength ? "length"
                    : event.reason == FinishReason::kStop ? "stop"
                                                          : "aborted";
  if (event.stop_token.has_value()) how += fmt::format(" token {}", *event.stop_token);
  if (!event.error.ok()) how = event.error.ToString();
  return fmt::format("request {} sample {}: ended after {} tokens, {} cached: {}", event.request,
                     event.sample_index, event.num_generated_tokens, event.num_cached_tokens, how);
}

}  // namespace

absl::StatusOr<std::string> TraceRunner::Run(std::string_view trace) {
  std::istringstream lines{std::string(trace)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with("  > ")) continue;
    out_ += line + "\n";
    if (line.empty() || line.starts_with("#")) continue;
    const absl::Status status = RunCommand(WordsOf(line));
    if (!status.ok()) return Annotate(status, fmt::format("line {}", number));
    PrintEvents();
    if (scheduler_ == nullptr) continue;
    LOCKSTEP_RETURN_IF_ERROR(
        Annotate(scheduler_->CheckIntegrity(), fmt::format("line {}", number)));
  }
  return out_;
}

absl::Status TraceRunner::RunCommand(const std::vector<std::string>& words) {
  const std::string& command = words.front();
  const Arguments arguments = ArgumentsOf(words);
  if (command == "config") return Configure(arguments);
  if (scheduler_ == nullptr) LOCKSTEP_RETURN_IF_ERROR(Configure({}));
  if (command == "attach") return Attach(arguments);
  if (command == "plan") return Plan();
  if (command == "done") return Done(arguments);
  if (command == "detach") {
    scheduler_->DetachWorker(Unavailable("told to leave"), now_);
    planned_.clear();
    return absl::OkStatus();
  }
  if (command == "stats") {
    PrintStats();
    return absl::OkStatus();
  }
  if (command == "fail") {
    scheduler_->FailUnserved(now_, Unavailable("told to fail"), now_);
    return absl::OkStatus();
  }
  return RunClientCommand(words);
}

absl::Status TraceRunner::RunClientCommand(const std::vector<std::string>& words) {
  const std::string& command = words.front();
  if (words.size() < 2) return InvalidArgument("{}: expected more, or another command", command);
  if (command == "submit") return Submit(words[1], ArgumentsOf(words));
  uint64_t number = 0;
  LOCKSTEP_RETURN_IF_ERROR(Parse(words[1], number));
  if (command == "cancel") {
    scheduler_->Cancel(number, now_);
  } else if (command == "stop" && words.size() == 3) {
    uint32_t sample_index = 0;
    LOCKSTEP_RETURN_IF_ERROR(Parse(words[2], sample_index));
    scheduler_->StopSequence(number, sample_index, now_);
  } else if (command == "pass") {
    now_ += absl::Seconds(number);
    scheduler_->ExpireDeadlines(now_);
  } else {
    return InvalidArgument("unknown command {}", command);
  }
  return absl::OkStatus();
}

absl::Status TraceRunner::Configure(const Arguments& arguments) {
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "in_flight", config_.max_steps_in_flight));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "running", config_.max_running_sequences));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "prefill", config_.max_prefill_tokens_per_step));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "preemptions", config_.max_preemptions_per_sequence));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "iterations", config_.max_decode_iterations));
  const auto policy = arguments.find("policy");
  const bool by_priority = policy != arguments.end() && policy->second == "priority";
  scheduler_ = std::make_unique<Scheduler>(
      config_, by_priority ? MakePriorityPolicy(absl::Seconds(10)) : MakeFcfsPolicy());
  return absl::OkStatus();
}

absl::Status TraceRunner::Attach(const Arguments& arguments) {
  WorkerLimits limits{.kv_groups = {{.block_size_tokens = 4, .num_blocks = 16}},
                      .max_slots = 4,
                      .max_step_tokens = 16,
                      .max_context_tokens = 64};
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "blocks", limits.kv_groups[0].num_blocks));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "block_size", limits.kv_groups[0].block_size_tokens));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "slots", limits.max_slots));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "step_tokens", limits.max_step_tokens));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "context", limits.max_context_tokens));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "iterations", limits.max_decode_iterations));
  worker_ = std::make_unique<ModelWorker>(limits);
  planned_.clear();
  return scheduler_->AttachWorker(limits, now_);
}

absl::Status TraceRunner::Submit(const std::string& key, const Arguments& arguments) {
  auto request = std::make_shared<Request>();
  SamplingParams& sampling = request->sampling;
  sampling.temperature = 0;
  request->arrival = now_;
  uint32_t bypass = 0;
  int64_t deadline_s = 0;
  LOCKSTEP_RETURN_IF_ERROR(Parse(key, request->key));
  LOCKSTEP_RETURN_IF_ERROR(ParseTokens(arguments.at("prompt"), request->prompt_tokens));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "max_new", sampling.max_new_tokens));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "min_new", sampling.min_new_tokens));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "n", request->num_samples));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "priority", request->priority));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "seed", sampling.seed));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "logprobs", sampling.num_logprobs));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "prompt_logprobs", sampling.num_prompt_logprobs));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "bypass", bypass));
  LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "deadline", deadline_s));
  request->bypass_prefix_cache = bypass > 0;
  if (deadline_s > 0) request->deadline = now_ + absl::Seconds(deadline_s);
  if (arguments.contains("salt")) request->prefix_root.salt = arguments.at("salt");
  if (arguments.contains("stop")) {
    LOCKSTEP_RETURN_IF_ERROR(ParseTokens(arguments.at("stop"), sampling.stop_token_ids));
  }
  const absl::Status status = scheduler_->Submit(std::move(request), now_);
  if (!status.ok()) Print(status.ToString());
  return absl::OkStatus();
}

absl::Status TraceRunner::Plan() {
  std::optional<StepPlan> plan = scheduler_->NextStep(now_);
  if (!plan.has_value()) {
    Print("nothing");
    return absl::OkStatus();
  }
  PrintPlan(*plan);
  planned_.push_back(*std::move(plan));
  return absl::OkStatus();
}

absl::Status TraceRunner::Done(const Arguments& arguments) {
  if (planned_.empty()) {
    Print("nothing in flight");
    return absl::OkStatus();
  }
  const StepPlan plan = std::move(planned_.front());
  planned_.pop_front();
  ModelWorker::Faults faults{.refuse = arguments.contains("refuse"), .failing_slot = std::nullopt};
  if (arguments.contains("fail")) {
    LOCKSTEP_RETURN_IF_ERROR(Take(arguments, "fail", faults.failing_slot.emplace()));
  }
  ModelWorker::Executed executed;
  LOCKSTEP_RETURN_IF_ERROR(worker_->Execute(plan, faults, executed));
  if (!executed.outcome.refusal.ok()) Print(fmt::format("step {} refused", plan.step_id));
  for (const RowOutcome& row : executed.outcome.rows) {
    if (row.was_inert) Print(fmt::format("slot {} was inert", row.slot));
  }
  return scheduler_->Apply(std::move(executed.outcome), now_);
}

void TraceRunner::Print(std::string_view line) { out_ += fmt::format("  > {}\n", line); }

void TraceRunner::PrintPlan(const StepPlan& plan) {
  Print(fmt::format(
      "step {}: {} prefill and {} decode tokens{}{}{}", plan.step_id, plan.num_prefill_tokens,
      plan.num_decode_tokens, plan.resync ? ", resync" : "",
      plan.repeat_rows ? ", rows repeat" : "",
      plan.decode_iterations > 1 ? fmt::format(", {} iterations", plan.decode_iterations) : ""));
  if (!plan.released.empty()) Print(fmt::format("release {}", fmt::join(plan.released, " ")));
  for (const StartedSlot& started : plan.started) {
    Print(fmt::format(
        "start slot {}: request {} sample {}, {} tokens, {} computed, blocks {}{}", started.slot,
        started.request->key, started.sample_index, started.known_tokens.size(),
        started.num_computed_tokens, fmt::join(started.blocks[0].ids, " "),
        started.first_prompt_logprob > 0
            ? fmt::format(", prompt log-probabilities from {}", started.first_prompt_logprob)
            : ""));
  }
  for (const RunRow& row : plan.rows) {
    std::string grown;
    if (!row.new_blocks.empty()) {
      grown = fmt::format(", new blocks {}", fmt::join(row.new_blocks[0].ids, " "));
    }
    Print(fmt::format("run slot {}: {}{}", row.slot, row.num_tokens, grown));
  }
}

void TraceRunner::PrintEvents() {
  if (scheduler_ == nullptr) return;
  for (const SchedulerEvent& event : scheduler_->TakeEvents()) {
    Print(std::visit([](const auto& e) { return Describe(e); }, event));
  }
}

void TraceRunner::PrintStats() {
  const SchedulerStats stats = scheduler_->Stats();
  Print(fmt::format("requests waiting {}, sequences waiting {} running {}, steps in flight {}",
                    stats.waiting_requests, stats.waiting_sequences, stats.running_sequences,
                    stats.steps_in_flight));
  Print(fmt::format("blocks free {} used {} cached {} fenced {}", stats.free_blocks,
                    stats.used_blocks, stats.cached_blocks, stats.fenced_blocks));
  Print(fmt::format("preemptions {}, rollbacks {}, wasted rows {}, prefix tokens hit {} of {}",
                    stats.preemptions, stats.rollbacks, stats.wasted_rows, stats.prefix_hit_tokens,
                    stats.prefix_query_tokens));
}

}  // namespace lockstep::router::testing
