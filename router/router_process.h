#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <vector>

#include "common/net/admin_server.h"
#include "common/runtime/clock.h"
#include "router/constraints/constraint_checker.h"
#include "router/engine/router_metrics.h"
#include "router/http/routes/status_json.h"
#include "router/router_config.h"
#include "router/router_server.h"
#include "router/serving/prompts/served_model.h"
#include "router/strands/stall_watch.h"
#include "router/templates/renderer_pool.h"
#include "router/tracing/span_metrics.h"
#include "router/tracing/tracing.h"
#include "router/workers/worker_discovery.h"

namespace lockstep::router {

// OK if the process can listen at every address of the configuration. A large tokenizer takes
// seconds to load, so check the addresses first.
absl::Status CheckAddressesAreFree(const RouterConfig& config);

// Everything that a router process consists of: model, template renderers, metrics, traces, links
// to workers, the server, the discovery of workers, and the admin port. It owns all of them and
// ends them in the opposite order. Use it on one thread.
class RouterProcess {
 public:
  // Loads the model, and returns once the router listens. `config` must be valid.
  static absl::StatusOr<std::unique_ptr<RouterProcess>> Start(RouterConfig config);
  RouterProcess(const RouterProcess&) = delete;
  RouterProcess& operator=(const RouterProcess&) = delete;

  // "LISTENING grpc=A admin=B http=C,D": the first listener, the admin port, and the further
  // listeners, if there are any. All listeners speak the same; the names are older than that.
  std::string ListeningLine() const;

  // Lets running requests finish, for at most the configured time, and ends the rest.
  void Drain();

 private:
  // `caged`: null if the model has no chat template.
  RouterProcess(RouterConfig config, ServedModel model, const CagedTemplate* caged);

  // Leaves constraints_ null if there is no llguidance.
  absl::Status StartConstraints();
  absl::Status Listen();

  const RouterConfig config_;
  const ServedModel model_;
  const RealClock clock_;
  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  RouterMetrics metrics_;
  const SpanMetrics span_metrics_;
  const ConstraintMetrics constraint_metrics_;
  std::unique_ptr<ConstraintChecker> constraints_;  // null: constraints are refused
  const Tracing tracing_;
  const std::shared_ptr<GrpcLoops> loops_;
  StallWatch stalls_;
  std::unique_ptr<RouterServer> server_;
  std::unique_ptr<OtlpExporter> exporter_;  // null: no collector was named
  SystemResolver resolver_;
  std::unique_ptr<WorkerDiscovery> discovery_;  // null: no worker is given by name
  std::unique_ptr<StatusJson> fleet_status_;
  std::unique_ptr<AdminServer> admin_;
};

}  // namespace lockstep::router
