// Router and worker compare the tokenizers that they found beside the model, each on its own disk.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/common/temp_folder.h"
#include "tests/integration/process_fixture.h"

namespace lockstep::testing {
namespace {

class TokenizerMismatchTest : public ProcessTest {
 protected:
  // Another copy of the model, whose file `name` is `change`d.
  std::string CopyOfModel(const std::string& name,
                          const std::function<void(nlohmann::json&)>& change) {
    std::filesystem::copy(kModel, folder_.path());
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / name;
    nlohmann::json content = nlohmann::json::parse(std::ifstream(path));
    change(content);
    std::ofstream(path) << content;
    return folder_.path();
  }

  TempFolder folder_;
};

TEST_F(TokenizerMismatchTest, RefusesAWorkerWithAnotherTokenizer) {
  const std::string model = CopyOfModel("tokenizer.json", [](nlohmann::json& file) {
    std::swap(file["model"]["merges"][0], file["model"]["merges"][1]);
  });
  ASSERT_NO_FATAL_FAILURE(StartWorker("127.0.0.1:0", model));
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  ExpectWorkerStateBecomes("mismatched");
  EXPECT_EQ(Generate(Request({1, 2, 3}, 4)).status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TokenizerMismatchTest, TakesAWorkerThatDiffersInNothingThatChangesIds) {
  const std::string model = CopyOfModel("tokenizer_config.json", [](nlohmann::json& file) {
    file["chat_template"] = "{{ messages[0].content }}";
  });
  ASSERT_NO_FATAL_FAILURE(StartWorker("127.0.0.1:0", model));
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  ExpectWorkerStateBecomes("ready");
  EXPECT_TRUE(Generate(Request({1, 2, 3}, 4)).status.ok());
}

}  // namespace
}  // namespace lockstep::testing
