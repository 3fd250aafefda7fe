#include "router/workers/worker_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <utility>

#include "common/status.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Answer = absl::StatusOr<std::vector<std::string>>;

const Answer kFailed = absl::UnavailableError("no such name");

TEST(WorkerNameTest, IsASchemeANameAndAPort) {
  EXPECT_TRUE(IsWorkerName("dns:///a:1"));
  EXPECT_FALSE(IsWorkerName("a:1"));
  EXPECT_EQ(*ParseWorkerName("dns:///workers.ns.svc:50061"), (Address{"workers.ns.svc", 50061}));
  for (const char* const bad : {"dns://a:1", "dns:///a", "dns:///a:0", "dns:///:1", "dns:///"}) {
    EXPECT_THAT(Message(ParseWorkerName(bad).status()), HasSubstr("expected dns:///name:port"))
        << bad;
  }
}

TEST(WorkerSetTest, AddressesJoinAtOnce) {
  WorkerSet set({"10.9.9.9:1", "dns:///a:50061"});
  EXPECT_EQ(set.num_names(), 1u);
  EXPECT_EQ(set.host(0), "a");
  EXPECT_THAT(set.workers(), ElementsAre("10.9.9.9:1"));
  set.Take(0, Answer({"10.0.0.2", "10.0.0.1"}));
  EXPECT_THAT(set.workers(), ElementsAre("10.0.0.1:50061", "10.0.0.2:50061", "10.9.9.9:1"));
  set.Take(0, Answer({"10.0.0.1", "10.0.0.2", "fd00::1"}));
  EXPECT_THAT(set.workers(),
              ElementsAre("10.0.0.1:50061", "10.0.0.2:50061", "10.9.9.9:1", "[fd00::1]:50061"));
}

TEST(WorkerSetTest, AnAddressThatFlapsStaysAndOneThatIsGoneLeaves) {
  WorkerSet set({"dns:///a:1"});
  set.Take(0, Answer({"10.0.0.1", "10.0.0.2"}));
  for (int i = 0; i < 5; ++i) {
    set.Take(0, Answer({"10.0.0.1"}));
    EXPECT_THAT(set.workers(), ElementsAre("10.0.0.1:1", "10.0.0.2:1"));
    set.Take(0, Answer({"10.0.0.1", "10.0.0.2"}));
  }
  set.Take(0, Answer({"10.0.0.1"}));
  set.Take(0, Answer({"10.0.0.1"}));
  EXPECT_THAT(set.workers(), ElementsAre("10.0.0.1:1"));
  set.Take(0, Answer({"10.0.0.2"}));
  EXPECT_THAT(set.workers(), ElementsAre("10.0.0.1:1", "10.0.0.2:1"));
}

TEST(WorkerSetTest, ANameThatStopsResolvingKeepsItsLastAddresses) {
  WorkerSet set({"dns:///a:1"});
  set.Take(0, Answer({"10.0.0.1", "10.0.0.2"}));
  for (int i = 0; i < 10; ++i) {
    set.Take(0, i % 2 == 0 ? kFailed : Answer(std::vector<std::string>()));
    EXPECT_THAT(set.workers(), ElementsAre("10.0.0.1:1", "10.0.0.2:1"));
  }
  set.Take(0, Answer({"10.0.0.1"}));
  EXPECT_THAT(set.workers(), ElementsAre("10.0.0.1:1", "10.0.0.2:1")) << "the first without it";
}

TEST(WorkerSetTest, OneAddressOfSeveralNamesIsOneWorkerWhileAnyHasIt) {
  WorkerSet set({"dns:///a:1", "10.0.0.1:1", "dns:///b:1", "dns:///c:2"});
  for (const size_t name : {0u, 1u, 2u}) set.Take(name, Answer({"10.0.0.1", "10.0.0.1"}));
  EXPECT_THAT(set.workers(), ElementsAre("10.0.0.1:1", "10.0.0.1:2"));
  for (int i = 0; i < 2; ++i) set.Take(0, Answer({"10.0.0.5"}));
  for (int i = 0; i < 2; ++i) set.Take(2, Answer({"10.0.0.6"}));
  EXPECT_THAT(set.workers(), ElementsAre("10.0.0.1:1", "10.0.0.5:1", "10.0.0.6:2"));
}

TEST(SystemResolverTest, ResolvesThisMachineOnceAndReportsWhatItCannot) {
  SystemResolver resolver;
  EXPECT_THAT(*resolver.Resolve("localhost"), ::testing::Contains("127.0.0.1"));
  EXPECT_THAT(*resolver.Resolve("127.0.0.9"), ElementsAre("127.0.0.9"));
  EXPECT_THAT(*resolver.Resolve("::1"), ElementsAre("::1"));
  EXPECT_THAT(Message(resolver.Resolve("a..b").status()), HasSubstr("a..b: "));
}

// Answers by host from a script, the last answer again and again.
class ScriptedResolver final : public NameResolver {
 public:
  explicit ScriptedResolver(std::map<std::string, std::deque<Answer>> script)
      : script_(std::move(script)) {}

  Answer Resolve(const std::string& host) override {
    std::deque<Answer>& answers = script_.at(host);
    Answer answer = answers.front();
    if (answers.size() > 1) answers.pop_front();
    return answer;
  }

 private:
  std::map<std::string, std::deque<Answer>> script_;
};

// Keeps what was told until the test asks.
class Told {
 public:
  WorkerDiscovery::OnWorkers OnWorkers() {
    return [this](const std::vector<std::string>& workers) {
      MutexLock lock(mutex_);
      told_.push_back(workers);
      changed_.NotifyAll();
    };
  }
  std::vector<std::string> Next() {
    MutexLock lock(mutex_);
    while (told_.empty()) changed_.Wait(mutex_);
    std::vector<std::string> next = std::move(told_.front());
    told_.pop_front();
    return next;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::vector<std::string>> told_ ABSL_GUARDED_BY(mutex_);
};

TEST(WorkerDiscoveryTest, AsksAtOnceAndAgainAndAgain) {
  ScriptedResolver resolver({{"a", {kFailed, Answer({"10.0.0.1"}), Answer({"10.0.0.2"})}},
                             {"b", {Answer({"10.0.1.1"}), kFailed}}});
  Told told;
  const WorkerDiscovery discovery({"dns:///a:1", "10.0.9.9:1", "dns:///b:1"}, absl::Milliseconds(1),
                                  &resolver, told.OnWorkers());
  EXPECT_THAT(told.Next(), ElementsAre("10.0.1.1:1", "10.0.9.9:1"));
  EXPECT_THAT(told.Next(), ElementsAre("10.0.0.1:1", "10.0.1.1:1", "10.0.9.9:1"));
  EXPECT_THAT(told.Next(), ElementsAre("10.0.0.1:1", "10.0.0.2:1", "10.0.1.1:1", "10.0.9.9:1"));
  EXPECT_THAT(told.Next(), ElementsAre("10.0.0.2:1", "10.0.1.1:1", "10.0.9.9:1"));
}

TEST(WorkerDiscoveryTest, EndsWhileItWaits) {
  ScriptedResolver resolver({{"a", {kFailed}}});
  Told told;
  {
    const WorkerDiscovery discovery({"dns:///a:1"}, absl::Hours(1), &resolver, told.OnWorkers());
    EXPECT_THAT(told.Next(), IsEmpty());
  }
}

}  // namespace
}  // namespace lockstep::router
