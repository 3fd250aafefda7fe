// The page at "/", in a real browser: tests/clients/page_check.py drives it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/common/temp_folder.h"
#include "tests/integration/process_fixture.h"

namespace lockstep::testing {
namespace {

class PageTest : public ProcessTest {
 protected:
  void ExpectThePageWorks(const std::string& options = "") {
    const Outcome outcome =
        RunShell("PYTHONDONTWRITEBYTECODE=1 python3 tests/clients/page_check.py " +
                 router_->http_address() + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    ExpectNothingHeld();
  }
};

TEST_F(PageTest, ChatsAndShowsTheStatus) {
  ASSERT_NO_FATAL_FAILURE(StartFleet({"--http_listen=127.0.0.1:0"}));
  ExpectThePageWorks();
}

TEST_F(PageTest, AsksForAKeyWhereThereAreTenants) {
  const TempFolder folder;
  const std::string path = folder.path() + "/tenants.json";
  const Outcome digest = RunShell("printf %s a-good-key | sha256sum");
  ASSERT_EQ(digest.exit_code, 0) << digest.output;
  std::ofstream(path) << R"({"tenants": [{"name": "acme", "key_sha256": [")"
                      << digest.output.substr(0, 64) << R"("]}]})";
  ASSERT_NO_FATAL_FAILURE(StartFleet({"--http_listen=127.0.0.1:0", "--tenants=" + path}));
  ExpectThePageWorks(" --key a-good-key");
}

}  // namespace
}  // namespace lockstep::testing
