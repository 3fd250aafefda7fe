// deploy/prometheus and deploy/grafana, with a Prometheus that scrapes a router and a worker:
// tests/monitoring/monitoring_check.py drives both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/process_fixture.h"

namespace lockstep::testing {
namespace {

using MonitoringTest = ProcessTest;

TEST_F(MonitoringTest, EveryRuleAndPanelHasData) {
  ASSERT_NO_FATAL_FAILURE(StartFleet({"--http_listen=127.0.0.1:0"}));
  const Outcome outcome =
      RunShell("PYTHONDONTWRITEBYTECODE=1 python3 tests/monitoring/monitoring_check.py --router " +
               router_->http_address() + " --router-admin " + router_->admin_address() +
               " --worker-admin " + worker_->admin_address() +
               " --prometheus " LOCKSTEP_PROMETHEUS " --promtool " LOCKSTEP_PROMTOOL);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  ExpectNothingHeld();
}

}  // namespace
}  // namespace lockstep::testing
