#include "worker/service/connection_acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "common/runtime/mutex.h"
#include "common/status.h"
#include "tests/common/temp_folder.h"
#include "tests/support/loopback_client.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::LoopbackClient;
using ::testing::HasSubstr;

// The owner of the connections.
class Owner {
 public:
  ~Owner() { CloseAll(); }

  ConnectionAcceptor::OnConnection Take() {
    return [this](int descriptor) {
      MutexLock lock(mutex_);
      descriptors_.push_back(descriptor);
      changed_.NotifyAll();
    };
  }
  void AwaitConnections(size_t count) {
    MutexLock lock(mutex_);
    while (descriptors_.size() < count) changed_.Wait(mutex_);
  }
  size_t num_connections() {
    MutexLock lock(mutex_);
    return descriptors_.size();
  }
  void CloseAll() {
    MutexLock lock(mutex_);
    for (const int descriptor : descriptors_) close(descriptor);
    descriptors_.clear();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<int> descriptors_ ABSL_GUARDED_BY(mutex_);
};

std::unique_ptr<ConnectionAcceptor> Listen(uint32_t max_connections) {
  auto acceptor = ConnectionAcceptor::Listen("127.0.0.1:0", max_connections);
  EXPECT_TRUE(acceptor.ok()) << acceptor.status();
  return *std::move(acceptor);
}

TEST(ConnectionAcceptorTest, OneAboveTheBoundIsClosedAtOnceAndEndsMakeRoom) {
  Owner owner;
  const auto acceptor = Listen(3);
  acceptor->Start(owner.Take());
  std::vector<LoopbackClient> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(acceptor->port());
  owner.AwaitConnections(3);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(LoopbackClient(acceptor->port()).Receive(), 0);
  EXPECT_EQ(owner.num_connections(), 3u);
  EXPECT_FALSE(clients[0].Readable(0));
  owner.CloseAll();
  for (int i = 0; i < 3; ++i) clients.emplace_back(acceptor->port());
  owner.AwaitConnections(3);
  EXPECT_EQ(LoopbackClient(acceptor->port()).Receive(), 0);
}

TEST(ConnectionAcceptorTest, AcceptsAgainAfterDescriptorsHadRunOut) {
  Owner owner;
  const auto acceptor = Listen(3);
  LoopbackClient client;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = dup(0);
  ASSERT_GE(lowest_free, 0);
  close(lowest_free);
  rlimit none_left = before;
  none_left.rlim_cur = static_cast<rlim_t>(lowest_free);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  ASSERT_TRUE(client.Connect(acceptor->port()));
  acceptor->Start(owner.Take());
  EXPECT_FALSE(client.Readable(250)) << "it waits to be accepted";
  EXPECT_EQ(owner.num_connections(), 0u);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  owner.AwaitConnections(1);
}

TEST(ConnectionAcceptorTest, ListensOnEveryAddressOfItsHost) {
  Owner owner;
  const auto acceptor = ConnectionAcceptor::Listen("localhost:0", 3);
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  (*acceptor)->Start(owner.Take());
  const LoopbackClient client((*acceptor)->port());
  owner.AwaitConnections(1);
  EXPECT_THAT(Message(ConnectionAcceptor::Listen("no.such.host.invalid:0", 3).status()),
              HasSubstr("cannot listen on no.such.host.invalid:0"));
}

TEST(ConnectionAcceptorTest, TakenAddressesAreErrors) {
  const auto acceptor = Listen(3);
  const std::string address = fmt::format("127.0.0.1:{}", acceptor->port());
  EXPECT_THAT(Message(ConnectionAcceptor::Listen(address, 3).status()),
              HasSubstr("cannot listen on " + address));
  const TempFolder folder;
  const std::string unix_address = "unix:" + folder.path() + "/socket";
  const auto first = ConnectionAcceptor::Listen(unix_address, 3);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->port(), 0);
  EXPECT_THAT(Message(ConnectionAcceptor::Listen(unix_address, 3).status()),
              HasSubstr("another process listens at " + folder.path() + "/socket"));
}

}  // namespace
}  // namespace lockstep::worker
