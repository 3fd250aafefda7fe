#include <arpa/inet.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/runtime/mutex.h"
#include "lockstep/worker/v1/worker.grpc.pb.h"
#include "router/workers/link/grpc_step_link.h"

// A link connects to a worker by its host name. The name is known, or has its address, only after
// some lookups.
namespace lockstep::router {
namespace {

namespace wire = worker::v1;

constexpr std::string_view kName = "worker-0.test";
constexpr std::chrono::seconds kPatience(20);
// A channel of gRPC that lasts needs minutes for so many lookups of an unknown name.
constexpr int kEarlyLookups = 12;

std::atomic<int> num_lookups{0};
// What the early lookups find; empty: that the name is unknown. Later ones find 127.0.0.1.
std::atomic<const char*> early_address{""};

// Read when gRPC starts: its other resolver asks the network itself.
const int kNativeResolver = setenv("GRPC_DNS_RESOLVER", "native", 1);

using Lookup = int (*)(const char*, const char*, const addrinfo*, addrinfo**);

int LookUp(const char* name, const char* service, const addrinfo* hints, addrinfo** result) {
  static const auto system = reinterpret_cast<Lookup>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (name == nullptr || name != kName) return system(name, service, hints, result);
  if (++num_lookups > kEarlyLookups) return system("127.0.0.1", service, hints, result);
  const char* const address = early_address;
  if (*address == '\0') return EAI_NONAME;
  return system(address, service, hints, result);
}

// A worker that only notices that it was found.
class FoundWorker final : public wire::Worker::Service {
 public:
  FoundWorker() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FoundWorker() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return fmt::format("{}:{}", kName, port_); }

  bool WaitUntilFound() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(mutex_);
    while (!found_) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds::zero()) return false;
      changed_.WaitFor(mutex_, left);
    }
    return true;
  }

 private:
  grpc::Status Describe(grpc::ServerContext*, const wire::DescribeRequest*,
                        wire::DescribeResponse*) override {
    MutexLock lock(mutex_);
    found_ = true;
    changed_.NotifyAll();
    return {grpc::StatusCode::INTERNAL, "found"};
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  CondVar changed_;
  bool found_ ABSL_GUARDED_BY(mutex_) = false;
};

class IgnoredEvents final : public LinkEventSink {
 public:
  void OnLinkEvent(LinkEvent) override {}
};

bool FindsItsWorkerAfter(const char* address) {
  early_address = address;
  num_lookups = 0;
  GrpcLoops loops(1);
  FoundWorker worker;
  IgnoredEvents events;
  WorkerClientConfig config;
  config.address = worker.address();
  config.min_backoff = absl::Milliseconds(20);
  config.max_backoff = absl::Milliseconds(50);
  GrpcStepLink link(config, loops.Of(0));
  link.Start(&events);
  const bool found = worker.WaitUntilFound();
  link.Stop();
  EXPECT_GT(num_lookups, kEarlyLookups);
  return found;
}

TEST(WorkerAddressTest, AWorkerWhoseNameWasUnknownIsFoundSoon) {
  EXPECT_TRUE(FindsItsWorkerAfter(""));
}

// Nothing listens at the old address.
TEST(WorkerAddressTest, AWorkerWithANewAddressIsFoundSoon) {
  EXPECT_TRUE(FindsItsWorkerAfter("127.0.0.2"));
}

}  // namespace
}  // namespace lockstep::router

// Takes the place of the C library's function, for gRPC's library as well.
extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* name,
                                                                  const char* service,
                                                                  const addrinfo* hints,
                                                                  addrinfo** result) {
  return lockstep::router::LookUp(name, service, hints, result);
}
