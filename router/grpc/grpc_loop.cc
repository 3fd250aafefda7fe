#include "router/grpc/grpc_loop.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::router {
namespace {

constexpr size_t kStrandsAtATime = 16;
constexpr size_t kMaxEventsInARow = 64;

}  // namespace

GrpcLoop::GrpcLoop(grpc::ServerBuilder& builder, uint32_t index)
    : queue_(builder.AddCompletionQueue()),
      thread_(fmt::format("grpc-{}", index), [this] { Run(); }) {}

void GrpcLoop::Stop() {
  RingNow(stop_alarm_, *queue_, stop_tag_);
  thread_.join();
}

void GrpcLoop::Push(std::shared_ptr<Strand> strand) {
  {
    MutexLock lock(mutex_);
    if (closed_ || !strands_.Push(std::move(strand))) return;
  }
  RingNow(strands_alarm_, *queue_, strands_tag_);
}

void GrpcLoop::Run() {
  void* id = nullptr;
  bool ok = false;
  while (NextEvent(&id, &ok)) CompletionTag::FromId(id).OnComplete(ok);
}

bool GrpcLoop::NextEvent(void** id, bool* ok) {
  for (;;) {
    if (stopping_ && num_users_ == 0 && Close()) queue_->Shutdown();
    if (!has_strands_) return queue_->Next(id, ok);
    // Between a few strands and the next what is over by now, and a look at the sockets, so that a
    // worker's result never waits for more than a few strands; but not for ever.
    if (++num_events_in_a_row_ <= kMaxEventsInARow) {
      switch (queue_->AsyncNext(id, ok, gpr_inf_past(GPR_CLOCK_MONOTONIC))) {
        case grpc::CompletionQueue::GOT_EVENT:
          return true;
        case grpc::CompletionQueue::SHUTDOWN:
          return false;
        case grpc::CompletionQueue::TIMEOUT:
          break;
      }
    }
    num_events_in_a_row_ = 0;
    RunStrands();
  }
}

void GrpcLoop::OnStrands(bool /*ok*/) { has_strands_ = true; }

void GrpcLoop::RunStrands() {
  std::vector<std::shared_ptr<Strand>> strands;
  {
    MutexLock lock(mutex_);
    strands = strands_.Take(kStrandsAtATime);
  }
  for (std::shared_ptr<Strand>& strand : strands) StrandRunner::Run(std::move(strand));
  MutexLock lock(mutex_);
  has_strands_ = !strands_.Leave();
}

void GrpcLoop::OnStop(bool /*ok*/) { stopping_ = true; }

bool GrpcLoop::Close() {
  MutexLock lock(mutex_);
  const bool closes = !closed_ && strands_.idle();
  closed_ |= closes;
  return closes;
}

GrpcLoops::GrpcLoops(uint32_t num_threads) {
  for (uint32_t i = 0; i < num_threads; ++i) {
    loops_.push_back(std::make_shared<GrpcLoop>(builder_, i));
  }
}

void GrpcLoops::Stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& loop : loops_) loop->Stop();
}

}  // namespace lockstep::router
