#include "router/router_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/status.h"

namespace lockstep::router {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RouterConfig Usable() {
  RouterConfig config;
  config.model = "model.gguf";
  config.workers = {"127.0.0.1:50061"};
  return config;
}

TEST(RouterConfigTest, DefaultsAreUsableOnceThereIsAModelAndAWorker) {
  EXPECT_TRUE(Usable().Validate().ok()) << Usable().Validate();
  EXPECT_THAT(Message(RouterConfig().Validate()), HasSubstr("model: expected"));
}

TEST(RouterConfigTest, ReportsViolationsOfEveryPartAtOnce) {
  RouterConfig config = Usable();
  config.drain_timeout = absl::Seconds(-1);
  config.priority_ageing = absl::ZeroDuration();
  config.admin_listen = "nonsense";
  config.server.front.listeners = {"127.0.0.1:1", "127.0.0.1"};
  config.http_listen = "8000";
  config.server.front.max_connections = 0;
  config.server.front.num_threads = 0;
  config.server.front.cors_origins = {"https://page.example", "page.example"};
  config.server.num_grpc_threads = 0;
  config.server.num_encode_threads = 0;
  config.templates.limits.time = absl::ZeroDuration();
  config.server.front.max_connection_memory_mib = 15;
  config.server.front.keepalive_time = absl::ZeroDuration();
  config.server.front.keepalive_timeout = absl::InfiniteDuration();
  config.server.api.stalled_client_timeout = absl::ZeroDuration();
  config.server.engine.admission.max_open_requests = 0;
  config.server.engine.max_pending_output_bytes = 1;
  config.server.engine.replica.step_timeout = absl::ZeroDuration();
  config.server.engine.replica.scheduler.max_steps_in_flight = 0;
  config.server.api.retry_after = absl::Hours(2);
  config.server.api.limits.max_samples = 0;
  config.worker.keepalive_time = absl::Seconds(1);
  const std::string message = Message(config.Validate());
  for (const char* const field : {"drain_timeout",
                                  "priority_ageing",
                                  "admin_listen",
                                  "listen: ",
                                  "http_listen: ",
                                  "max_connections",
                                  "http_threads",
                                  "cors_origins: expected * or scheme://host[:port], got \"page",
                                  "grpc_threads",
                                  "encode_threads",
                                  "template_timeout",
                                  "max_open_requests",
                                  "max_pending_output_bytes",
                                  "step_timeout",
                                  "max_steps_in_flight",
                                  "retry_after",
                                  "max_samples",
                                  "max_connection_memory_mib: must be from",
                                  "keepalive_time: must be from",
                                  "keepalive_timeout",
                                  "stalled_client_timeout",
                                  "keepalive_time: must be at least"}) {
    EXPECT_THAT(message, HasSubstr(field));
  }
}

TEST(RouterConfigTest, ConnectionsHaveMemoryForTwoOfTheLargestPrompts) {
  RouterConfig config = Usable();
  config.server.front.max_connection_memory_mib = 64;
  config.server.api.limits.max_prompt_bytes = 32 << 20;
  EXPECT_TRUE(config.Validate().ok()) << config.Validate();
  config.server.api.limits.max_prompt_bytes += 1;
  EXPECT_THAT(Message(config.Validate()),
              HasSubstr("max_connection_memory_mib: must hold two prompts"));
}

TEST(RouterConfigTest, EveryWorkerIsNamedOnce) {
  RouterConfig config = Usable();
  config.workers = {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1"};
  EXPECT_THAT(Message(config.Validate()), HasSubstr("worker: 127.0.0.1:1 comes twice"));
  config.workers = {"127.0.0.1:1", "nonsense"};
  EXPECT_THAT(Message(config.Validate()), HasSubstr("worker: "));
  config.workers.clear();
  EXPECT_THAT(Message(config.Validate()), HasSubstr("worker: expected 1 to 1024"));
  config.workers = {"127.0.0.1:1", "127.0.0.1:2"};
  EXPECT_TRUE(config.Validate().ok()) << config.Validate();
  const std::vector<WorkerClientConfig> clients = config.WorkerConfigs();
  ASSERT_EQ(clients.size(), 2u);
  EXPECT_EQ(clients[1].address, "127.0.0.1:2");
  EXPECT_EQ(clients[1].index, 1u);
}

TEST(RouterConfigTest, AWorkerMayBeAtAUnixSocket) {
  RouterConfig config = Usable();
  config.workers = {"unix:/run/lockstep/worker", "127.0.0.1:2"};
  EXPECT_TRUE(config.Validate().ok()) << config.Validate();
  EXPECT_EQ(config.WorkerConfigs().front().address, "unix:/run/lockstep/worker");
  config.workers = {"unix:"};
  EXPECT_THAT(Message(config.Validate()), HasSubstr("worker: expected unix:PATH with 1 to 107"));
  config.workers = {"unix:a", "unix:a"};
  EXPECT_THAT(Message(config.Validate()), HasSubstr("worker: unix:a comes twice"));
  config.workers = {"unix:a"};
  config.worker.tls.ca_path = "ca.pem";
  EXPECT_THAT(Message(config.Validate()), HasSubstr("worker: a unix socket takes no TLS"));
}

TEST(RouterConfigTest, WeightsAreNamedByTheirFingerprint) {
  RouterConfig config = Usable();
  EXPECT_FALSE(config.Agreement().weights_fingerprint.has_value());
  EXPECT_FALSE(config.Agreement().allow_mixed);
  config.weights_fingerprint = "00c0ffee00c0ffee";
  config.server.api.mixed_workers = true;
  EXPECT_TRUE(config.Validate().ok()) << config.Validate();
  EXPECT_EQ(config.Agreement().weights_fingerprint, 0x00c0ffee00c0ffeeu);
  EXPECT_TRUE(config.Agreement().allow_mixed);
  for (const char* const wrong : {"c0ffee", "00c0ffee00c0ffe-", "0x00c0ffee00c0ff", " "}) {
    config.weights_fingerprint = wrong;
    EXPECT_THAT(Message(config.Validate()),
                HasSubstr("weights_fingerprint: expected 16 hexadecimal digits"))
        << wrong;
  }
}

TEST(RouterConfigTest, NamesOfWorkersMixWithAddresses) {
  RouterConfig config = Usable();
  EXPECT_FALSE(config.NamesWorkers());
  config.workers = {"dns:///localhost:50061", "127.0.0.1:2"};
  EXPECT_TRUE(config.Validate().ok()) << config.Validate();
  EXPECT_TRUE(config.NamesWorkers());
  const std::vector<WorkerClientConfig> clients = config.WorkerConfigs();
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[0].address, "127.0.0.1:2");
  EXPECT_EQ(clients[0].index, 0u);
  config.workers = {"dns:///workers:50061"};
  EXPECT_THAT(Message(config.Validate()), HasSubstr("worker: workers:50061 is not this machine"));
  config.insecure = true;
  EXPECT_TRUE(config.Validate().ok()) << config.Validate();
  for (const char* const name : {"dns:workers:1", "dns:///workers", "dns:///workers:0"}) {
    config.workers = {name};
    EXPECT_THAT(Message(config.Validate()), HasSubstr("expected dns:///name:port")) << name;
  }
  config = Usable();
  config.worker_resolve_interval = absl::ZeroDuration();
  EXPECT_THAT(Message(config.Validate()), HasSubstr("worker_resolve_interval: must be positive"));
}

TEST(RouterConfigTest, ARouterThatSharesWorkersPausesForLessThanAStandInWaits) {
  RouterConfig config = Usable();
  EXPECT_EQ(config.WorkerConfigs()[0].max_lease_backoff, absl::Minutes(1));
  config.shard = "0/2";
  for (const absl::Duration wait : {absl::Seconds(5), absl::Seconds(30), absl::Hours(1)}) {
    config.worker.orphan_wait = wait;
    EXPECT_TRUE(config.Validate().ok()) << config.Validate();
    const WorkerClientConfig worker = config.WorkerConfigs()[0];
    EXPECT_EQ(worker.max_lease_backoff, std::min(absl::Minutes(1), wait / 2));
    EXPECT_LT(worker.max_backoff, wait);
  }
}

TEST(RouterConfigTest, APlacementIsOneOfThree) {
  RouterConfig config = Usable();
  config.placement = "random";
  EXPECT_THAT(Message(config.Validate()),
              HasSubstr("placement: expected prefix, least-loaded or round-robin"));
}

TEST(RouterConfigTest, OtherMachinesNeedInsecure) {
  for (const char* const address : {"0.0.0.0:50051", "10.0.0.1:50051", "worker:50061", "[::]:1"}) {
    RouterConfig listening = Usable();
    listening.server.front.listeners.push_back(address);
    EXPECT_THAT(Message(listening.Validate()), HasSubstr("listen: "));
    listening.insecure = true;
    EXPECT_TRUE(listening.Validate().ok());
    RouterConfig connecting = Usable();
    connecting.workers = {"127.0.0.1:1", address};
    EXPECT_THAT(Message(connecting.Validate()), HasSubstr("worker: "));
    connecting.insecure = true;
    EXPECT_TRUE(connecting.Validate().ok());
    RouterConfig listening_twice = Usable();
    listening_twice.http_listen = address;
    EXPECT_THAT(Message(listening_twice.Validate()), HasSubstr("http_listen: "));
    listening_twice.insecure = true;
    EXPECT_TRUE(listening_twice.Validate().ok());
    RouterConfig showing = Usable();
    showing.admin_listen = address;
    EXPECT_THAT(Message(showing.Validate()), HasSubstr("admin_listen: "));
    showing.insecure = true;
    EXPECT_TRUE(showing.Validate().ok());
  }
  for (const char* const address : {"localhost:1", "127.0.0.2:1", "[::1]:1"}) {
    RouterConfig local = Usable();
    local.server.front.listeners = {address};
    local.http_listen = address;
    local.admin_listen = address;
    EXPECT_TRUE(local.Validate().ok()) << address;
  }
}

// Of what a configuration is refused for; the files need not be there.
std::string Objections(const RouterConfig& config) { return Message(config.Validate()); }

TEST(RouterConfigTest, APublicAddressNeedsTlsAndSomebodyToKnow) {
  const TlsFiles tls{.cert_path = "none.pem", .key_path = "none.key", .client_ca_path = ""};
  TlsFiles mutual_tls = tls;
  mutual_tls.client_ca_path = "ca.pem";
  for (const bool second : {false, true}) {
    const auto objections = [second](const TlsFiles& files, const std::string& tenants) {
      RouterConfig config = Usable();
      (second ? config.http_listen : config.server.front.listeners.front()) = "0.0.0.0:1";
      config.server.front.tls = files;
      config.server.tenants_path = tenants;
      return Objections(config);
    };
    const std::string objection =
        "0.0.0.0:1 can be reached from other machines, which needs --tls-cert";
    EXPECT_THAT(objections({}, ""), HasSubstr(objection));
    EXPECT_THAT(objections({}, "tenants.json"), HasSubstr(objection));
    EXPECT_THAT(objections(tls, ""), HasSubstr(objection));
    EXPECT_THAT(objections(tls, "tenants.json"), Not(HasSubstr("other machines")));
    EXPECT_THAT(objections(mutual_tls, ""), Not(HasSubstr("other machines")));
  }
}

TEST(RouterConfigTest, AWorkerElsewhereNeedsTls) {
  RouterConfig config = Usable();
  config.workers = {"10.0.0.1:1"};
  EXPECT_THAT(Objections(config), HasSubstr("10.0.0.1:1 is not this machine, which needs "
                                            "--worker-tls-ca"));
  config.worker.tls.ca_path = "none.pem";
  EXPECT_THAT(Objections(config), Not(HasSubstr("is not this machine")));
}

TEST(RouterConfigTest, ACollectorElsewhereNeedsTls) {
  RouterConfig config = Usable();
  config.tracing.endpoint = "collector:4317";
  EXPECT_THAT(Objections(config), HasSubstr("otlp_endpoint: collector:4317 is not this machine, "
                                            "which needs --otlp-tls-ca"));
  config.tracing.endpoint = "127.0.0.1:4317";
  EXPECT_THAT(Objections(config), Not(HasSubstr("is not this machine")));
  config.tracing.endpoint = "4317";
  EXPECT_THAT(Objections(config), HasSubstr("otlp_endpoint: "));
}

TEST(RouterConfigTest, NothingGuardsAPublicAdminPort) {
  RouterConfig config = Usable();
  config.admin_listen = "0.0.0.0:1";
  config.server.front.tls = {.cert_path = "a", .key_path = "b", .client_ca_path = "c"};
  config.server.tenants_path = "tenants.json";
  EXPECT_THAT(
      Objections(config),
      AllOf(
          HasSubstr("admin_listen: 0.0.0.0:1 can be reached from other machines, and has neither"),
          HasSubstr("pass --insecure-admin to allow it")));
  config.insecure_admin = true;
  EXPECT_THAT(Objections(config), Not(HasSubstr("admin_listen")));
}

TEST(RouterConfigTest, InsecureAdminAllowsNothingBesideTheAdminPort) {
  RouterConfig config = Usable();
  config.insecure_admin = true;
  config.admin_listen = "0.0.0.0:9090";
  EXPECT_TRUE(config.Validate().ok()) << config.Validate();
  config.server.front.listeners = {"0.0.0.0:1"};
  config.http_listen = "0.0.0.0:2";
  config.workers = {"worker:3"};
  config.tracing.endpoint = "collector:4";
  EXPECT_THAT(Objections(config),
              AllOf(HasSubstr("listen: 0.0.0.0:1"), HasSubstr("http_listen: 0.0.0.0:2"),
                    HasSubstr("worker: worker:3"), HasSubstr("otlp_endpoint: collector:4")));
}

TEST(RouterConfigTest, ConnectionsLeaveDescriptorsForEverythingElse) {
  RouterConfig config = Usable();
  config.server.num_encode_threads = 0;
  const uint64_t most = config.MaxConnectionsWith(20'000);
  EXPECT_LT(most, 20'000u);
  config.server.num_encode_threads = 100;
  EXPECT_EQ(config.MaxConnectionsWith(20'000), most - 200);
  config.workers.emplace_back("127.0.0.1:50062");
  EXPECT_EQ(config.MaxConnectionsWith(20'000), most - 204);
  EXPECT_EQ(config.MaxConnectionsWith(300), 150u) << "few are shared";
}

TEST(RouterConfigTest, FilesThatAreNotThereAreNamed) {
  RouterConfig config = Usable();
  config.server.front.tls = {.cert_path = "none.pem", .key_path = "none.key", .client_ca_path = ""};
  config.worker.tls.ca_path = "no-ca.pem";
  EXPECT_THAT(Objections(config), AllOf(HasSubstr("tls: none.pem"), HasSubstr("no-ca.pem")));
}

TEST(RouterConfigTest, AShardOwnsSomeWorkersAndStandsInForOthers) {
  RouterConfig config = Usable();
  for (int port = 50062; port < 50094; ++port) {
    config.workers.push_back(fmt::format("127.0.0.1:{}", port));
  }
  for (const WorkerClientConfig& worker : config.WorkerConfigs()) EXPECT_EQ(worker.shard_rank, 0u);
  uint32_t num_owned = 0;
  for (const char* const shard : {"0/3", "1/3", "2/3"}) {
    config.shard = shard;
    EXPECT_TRUE(config.Validate().ok()) << config.Validate();
    uint32_t num_mine = 0;
    for (const WorkerClientConfig& worker : config.WorkerConfigs()) {
      num_mine += worker.shard_rank == 0;
      EXPECT_LT(worker.shard_rank, 3u);
    }
    EXPECT_EQ(num_mine, 11u) << "addresses that are known from the start are shared evenly";
    num_owned += num_mine;
  }
  EXPECT_EQ(num_owned, config.workers.size());

  config.shard = "3/3";
  config.worker.orphan_wait = absl::Seconds(4);
  EXPECT_THAT(Message(config.Validate()),
              AllOf(HasSubstr("shard: \"3/3\", expected I/N"),
                    HasSubstr("shard_takeover_wait: must be from 5s to 1h")));
}

}  // namespace
}  // namespace lockstep::router
