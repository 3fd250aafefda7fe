#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/runtime/named_thread.h"
#include "router/front/connection/io_strands.h"

// Include this in few .cc files only: Asio is slow to compile.
namespace lockstep::router {

// The threads of the front ("http-0", ...). Each polls its own sockets. A socket, its connection
// and the strands of its requests stay on one thread, so threads need not wake each other.
class IoThreads {
 public:
  class Thread {
   public:
    explicit Thread(StrandRunner& fallback);

    boost::asio::io_context& io() { return io_; }
    const std::shared_ptr<StrandRunner>& strands() const { return runner_; }
    // Counts a connection as this thread's until the returned object is released. That object also
    // holds `ticket`.
    std::shared_ptr<void> Count(std::shared_ptr<void> ticket);

   private:
    friend class IoThreads;

    std::atomic<uint32_t> num_connections_ = 0;
    boost::asio::io_context io_{1};  // a hint for Asio: only one thread runs it
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    const std::shared_ptr<IoStrands> strands_;
    const std::shared_ptr<StrandRunner> runner_;
    NamedThread thread_;
  };

  // Strands pushed before Run wait for it. After Stop they run on the fallback.
  IoThreads(uint32_t num_threads, StrandRunner& fallback);
  IoThreads(const IoThreads&) = delete;
  IoThreads& operator=(const IoThreads&) = delete;
  ~IoThreads() { Stop(); }

  void Run();
  // Joins the threads. Connections stay alive until the object is destroyed.
  void Stop();

  Thread& first() { return *threads_.front(); }
  const std::vector<std::unique_ptr<Thread>>& all() const { return threads_; }
  // The thread with the fewest connections.
  Thread& Next();
  // The thread that owns this executor.
  Thread& Of(const boost::asio::any_io_executor& executor);

 private:
  std::vector<std::unique_ptr<Thread>> threads_;
  bool stopped_ = false;
};

}  // namespace lockstep::router
