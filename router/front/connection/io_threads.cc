#include "router/front/connection/io_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace lockstep::router {

IoThreads::Thread::Thread(StrandRunner& fallback)
    : work_(boost::asio::make_work_guard(io_)),
      strands_(std::make_shared<IoStrands>(fallback)),
      runner_(strands_) {
  strands_->Open(io_);
}

std::shared_ptr<void> IoThreads::Thread::Count(std::shared_ptr<void> ticket) {
  ++num_connections_;
  return std::shared_ptr<void>(this, [ticket = std::move(ticket)](void* self) {
    --static_cast<Thread*>(self)->num_connections_;
  });
}

IoThreads::IoThreads(uint32_t num_threads, StrandRunner& fallback) {
  for (uint32_t i = 0; i < num_threads; ++i) threads_.push_back(std::make_unique<Thread>(fallback));
}

void IoThreads::Run() {
  for (size_t i = 0; i < threads_.size(); ++i) {
    Thread& thread = *threads_[i];
    thread.thread_ = NamedThread(fmt::format("http-{}", i), [&thread] { thread.io_.run(); });
  }
}

void IoThreads::Stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& thread : threads_) thread->io_.stop();
  for (const auto& thread : threads_) {
    if (thread->thread_.joinable()) thread->thread_.join();
  }
  // Connections are destroyed later, with io_.
  for (const auto& thread : threads_) thread->strands_->Close();
}

IoThreads::Thread& IoThreads::Next() {
  return **std::ranges::min_element(
      threads_, {}, [](const auto& thread) { return thread->num_connections_.load(); });
}

IoThreads::Thread& IoThreads::Of(const boost::asio::any_io_executor& executor) {
  const auto found = std::ranges::find_if(threads_, [&](const auto& thread) {
    return executor == boost::asio::any_io_executor(thread->io_.get_executor());
  });
  LOCKSTEP_CHECK(found != threads_.end(), "a socket of no thread");
  return **found;
}

}  // namespace lockstep::router
