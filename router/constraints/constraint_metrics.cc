#include "router/constraints/constraint_metrics.h"

namespace lockstep::router {
namespace {

const prometheus::Histogram::BucketBoundaries kCompileSeconds = {
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5};

}  // namespace

ConstraintMetrics::ConstraintMetrics(prometheus::Registry& registry, const std::string& model) {
  const prometheus::Labels labels = {{"model", model}};
  auto& requests = prometheus::BuildCounter()
                       .Name("lockstep_router_constrained_requests_total")
                       .Help("Requests with a constraint, by whether it can be enforced.")
                       .Labels(labels)
                       .Register(registry);
  accepted_total = &requests.Add({{"result", "accepted"}});
  refused_total = &requests.Add({{"result", "refused"}});
  restarts_total = &prometheus::BuildCounter()
                        .Name("lockstep_router_constraint_engine_restarts_total")
                        .Help("Constraint engines of the router that ended and were replaced.")
                        .Labels(labels)
                        .Register(registry)
                        .Add({});
  compile_seconds = &prometheus::BuildHistogram()
                         .Name("lockstep_router_constraint_compile_seconds")
                         .Help("Time to compile a constraint that was not known yet.")
                         .Labels(labels)
                         .Register(registry)
                         .Add({}, kCompileSeconds);
}

}  // namespace lockstep::router
