#include "tests/rigs/soak/clients.h"

#include <absl/status/status.h>
#include <absl/time/clock.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "common/status.h"
#include "tests/rigs/instant_worker/pacing.h"

namespace lockstep::bench {
namespace {

namespace v1 = lockstep::v1;

constexpr uint32_t kQuestionsPerStream = 2;
constexpr uint32_t kNumPlainTokens = 256;  // ids below are tokens of any model
constexpr size_t kMaxMessages = 8;
constexpr std::chrono::seconds kRequestDeadline(120);
constexpr std::chrono::milliseconds kPauseAfterFailure(20);

v1::GenerateRequest MakeRequest(std::mt19937_64& random, uint32_t stream) {
  const auto draw = [&random](uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random);
  };
  v1::GenerateRequest request;
  const uint32_t num_prompt_tokens = draw(3, 48);
  for (uint32_t i = 0; i < num_prompt_tokens; ++i) {
    request.mutable_token_ids()->add_ids(draw(0, kNumPlainTokens - 1));
  }
  v1::SamplingParams& sampling = *request.mutable_sampling();
  sampling.set_temperature(stream % 2 == 0 ? 0.0f : 1.0f);
  sampling.set_seed(draw(1, 1u << 30));
  if (stream % 4 == 3) sampling.set_top_p(0.9f);
  if (stream % 8 == 5) sampling.set_n(2);
  request.mutable_stop()->set_max_tokens(draw(60, 190));
  request.mutable_stop()->set_ignore_eos(true);
  return request;
}

uint64_t Excess(size_t of, size_t over) { return of > over ? of - over : 0; }

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

std::string StatusName(const grpc::Status& status) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
}

SoakClients::SoakClients(uint32_t num_streams, uint64_t seed, const std::string& address,
                         std::string key)
    : key_(std::move(key)), questions_(num_streams) {
  std::mt19937_64 random(seed);
  for (uint32_t stream = 0; stream < num_streams; ++stream) {
    for (uint32_t i = 0; i < kQuestionsPerStream; ++i) {
      questions_[stream].push_back({.request = MakeRequest(random, stream), .expected = {}});
    }
  }
  Retarget(address);
}

SoakClients::~SoakClients() = default;

void SoakClients::Retarget(const std::string& address) {
  std::shared_ptr<Stub> stub = v1::Generation::NewStub(OpenChannel(address));
  MutexLock lock(mutex_);
  stub_ = std::move(stub);
}

std::shared_ptr<SoakClients::Stub> SoakClients::stub() {
  MutexLock lock(mutex_);
  return stub_;
}

SoakClients::Reply SoakClients::Ask(const v1::GenerateRequest& request) {
  const std::shared_ptr<Stub> router = stub();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kRequestDeadline);
  if (!key_.empty()) context.AddMetadata("authorization", "Bearer " + key_);
  const Clock::time_point start = Clock::now();
  const auto reader = router->Generate(&context, request);
  Reply reply;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    reply.accepted = true;
    if (response.has_finish()) reply.finishes.push_back(response.finish());
    if (!response.has_delta()) continue;
    if (reply.tokens.empty()) reply.latency.first_token_seconds = SecondsSince(start);
    const v1::OutputDelta& delta = response.delta();
    if (reply.tokens.size() <= delta.index()) reply.tokens.resize(delta.index() + 1);
    std::vector<uint32_t>& tokens = reply.tokens[delta.index()];
    tokens.insert(tokens.end(), delta.token_ids().begin(), delta.token_ids().end());
  }
  reply.status = reader->Finish();
  reply.latency.whole_seconds = SecondsSince(start);
  reply.hinted = context.GetServerTrailingMetadata().contains("retry-after-ms");
  return reply;
}

absl::Status SoakClients::LearnExpected() {
  std::vector<NamedThread> threads;
  std::vector<absl::Status> problems(questions_.size());
  for (size_t stream = 0; stream < questions_.size(); ++stream) {
    threads.emplace_back("learn", [this, stream, &problems] {
      for (Question& question : questions_[stream]) {
        Reply reply = Ask(question.request);
        if (!reply.status.ok()) {
          problems[stream] = Internal("undisturbed: {}: {}", StatusName(reply.status),
                                      reply.status.error_message());
        }
        question.expected = std::move(reply.tokens);
      }
    });
  }
  for (NamedThread& thread : threads) thread.join();
  for (const absl::Status& problem : problems) LOCKSTEP_RETURN_IF_ERROR(problem);
  for (const auto& questions : questions_) {
    for (const Question& question : questions) {
      const uint32_t num_tokens = question.request.stop().max_tokens();
      const bool complete =
          question.expected.size() == std::max(1u, question.request.sampling().n()) &&
          std::ranges::all_of(question.expected,
                              [&](const auto& tokens) { return tokens.size() == num_tokens; });
      if (!complete) return absl::InternalError("an undisturbed answer is incomplete");
    }
  }
  return absl::OkStatus();
}

void SoakClients::Start() {
  for (uint32_t stream = 0; stream < questions_.size(); ++stream) {
    threads_.emplace_back("stream", [this, stream] { Stream(stream); });
  }
}

std::vector<ClientLatency> SoakClients::TakeLatencies() {
  MutexLock lock(mutex_);
  return std::exchange(latencies_, {});
}

ClientTally SoakClients::tally() {
  MutexLock lock(mutex_);
  return tally_;
}

ClientTally SoakClients::Stop() {
  done_.store(true);
  for (NamedThread& thread : threads_) thread.join();
  threads_.clear();
  MutexLock lock(mutex_);
  return tally_;
}

void SoakClients::Stream(uint32_t stream) {
  const std::vector<Question>& questions = questions_[stream];
  for (size_t i = 0; !done_.load(); ++i) {
    const Question& question = questions[i % questions.size()];
    const Reply reply = Ask(question.request);
    Count(question, reply);
    if (!reply.status.ok()) PaceFor(kPauseAfterFailure);
  }
}

void SoakClients::Count(const Question& question, const Reply& reply) {
  MutexLock lock(mutex_);
  ++tally_.num_requests;
  const bool ok = reply.status.ok();
  if (ok) {
    ++tally_.num_finished;
    latencies_.push_back(reply.latency);
  } else if (!reply.accepted && reply.hinted) {
    ++tally_.num_refused;
  } else {
    ++tally_.num_failed[StatusName(reply.status)];
  }
  if (!ok && tally_.messages.size() < kMaxMessages) {
    tally_.messages.push_back(reply.status.error_message());
  }
  std::vector<uint32_t> num_finishes(question.expected.size());
  for (const v1::Finish& finish : reply.finishes) {
    const bool known = finish.index() < num_finishes.size();
    if (known) ++num_finishes[finish.index()];
    const size_t num_expected = known ? question.expected[finish.index()].size() : 0;
    const bool whole = finish.reason() == v1::FINISH_REASON_LENGTH &&
                       finish.usage().completion_tokens() == num_expected;
    if (!known || (ok && !whole)) ++tally_.num_bad_finishes;
  }
  for (const uint32_t count : num_finishes)
    tally_.num_bad_finishes += count > 1 || (ok && count == 0);
  // Of a request that failed, what came before must be right as well.
  for (size_t index = 0; index < std::max(reply.tokens.size(), question.expected.size()); ++index) {
    static const std::vector<uint32_t> kNone;
    const auto& came = index < reply.tokens.size() ? reply.tokens[index] : kNone;
    const auto& expected = index < question.expected.size() ? question.expected[index] : kNone;
    tally_.num_tokens += came.size();
    tally_.num_duplicate_tokens += Excess(came.size(), expected.size());
    if (ok) tally_.num_missing_tokens += Excess(expected.size(), came.size());
    for (size_t i = 0; i < std::min(came.size(), expected.size()); ++i) {
      tally_.num_wrong_tokens += came[i] != expected[i];
    }
  }
}

}  // namespace lockstep::bench
