// `lockstep quantize`, then `lockstep serve` of the folder that it wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/quantization/quantization_config.h"
#include "common/model_files/safetensors.h"
#include "common/model_files/safetensors_writer.h"
#include "kernels/formats/checkpoint/decode_weight.h"
#include "kernels/formats/tensors/encoded_tensor.h"
#include "tests/cli/cli_fixture.h"
#include "tests/common/status_matchers.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

struct Stored {
  TensorSpec spec;
  std::vector<std::byte> bytes;
};

Stored Converted(const kernels::QuantizedMatrix& matrix, const std::string& name) {
  std::vector<kernels::BFloat16> values(matrix.codes.size());
  for (int64_t row = 0; row < matrix.n; ++row) {
    kernels::DequantizeRow(matrix, row, values.data() + row * matrix.k);
  }
  return {{name,
           SafetensorsDtype::kBF16,
           {static_cast<uint64_t>(matrix.n), static_cast<uint64_t>(matrix.k)}},
          kernels::BytesOf(std::span<const kernels::BFloat16>(values))};
}

class ServeQuantizedTest : public CliTest {
 protected:
  std::string Folder(const std::string& name) const { return home_.path() + "/" + name; }

  // The exit code.
  int Run(const std::vector<std::string>& arguments) {
    CliProcess process(arguments, Options());
    const int code = process.Wait();
    output_ = process.output();
    return code;
  }

  // The same model in bf16, beside the tensors of no module of a layer.
  void Convert(const std::string& from, const std::string& to) const {
    const auto checkpoint = SafetensorsCheckpoint::Open(from);
    const auto config = LoadQuantizationConfig(from);
    ASSERT_THAT(checkpoint, IsOk());
    ASSERT_THAT(config, IsOk());
    std::vector<Stored> tensors;
    for (const std::string_view name : checkpoint->TensorNames()) {
      const SafetensorsTensor& tensor = *checkpoint->Find(name);
      const std::string module(name.substr(0, name.rfind('.')));
      if (!module.ends_with("_proj")) {
        tensors.push_back(
            {{tensor.name, tensor.dtype, tensor.shape}, {tensor.data.begin(), tensor.data.end()}});
      } else if (name.ends_with(".weight") || name.ends_with(".weight_packed")) {
        const auto matrix = kernels::DecodeWeight(kernels::TensorsOfModule(*checkpoint, module),
                                                  **(*config)->SchemeOf(module));
        ASSERT_THAT(matrix, IsOk());
        tensors.push_back(Converted(*matrix, module + ".weight"));
      }
    }
    fs::copy(from, to);
    Json json = Json::parse(std::ifstream(from + "/config.json"));
    json.erase("quantization_config");
    std::ofstream(to + "/config.json") << json;
    fs::remove(to + "/model.safetensors");
    std::vector<TensorSpec> specs;
    for (const Stored& tensor : tensors) specs.push_back(tensor.spec);
    auto writer = SafetensorsWriter::Create(to + "/model.safetensors", specs, {});
    ASSERT_THAT(writer, IsOk());
    for (const Stored& tensor : tensors) {
      ASSERT_THAT(writer->Append(tensor.spec, tensor.bytes), IsOk());
    }
    ASSERT_THAT(writer->Finish(), IsOk());
  }

  // What a fleet of this model answers, with the log-probabilities of its greedy choices.
  Json Answer(const std::string& model) {
    ServeModel(model);
    if (HasFatalFailure()) return nullptr;
    const Outcome outcome =
        RunShell("curl --silent --show-error --max-time 30 http://" + address_ +
                 "/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\": \"Once\", "
                 "\"max_tokens\": 24, \"temperature\": 0, \"seed\": 1, \"logprobs\": 2, "
                 "\"ignore_eos\": true}'");
    serve_->Signal(SIGINT);
    EXPECT_EQ(serve_->Wait(), 0);
    Json answer = Json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(answer.contains("choices")) << outcome.output;
    return answer["choices"];
  }

  std::string output_;
};

class ServeQuantizedTargetTest : public ServeQuantizedTest,
                                 public ::testing::WithParamInterface<std::string> {};

TEST_P(ServeQuantizedTargetTest, AnswersAsTheConvertedModelDoes) {
  ASSERT_EQ(Run({"quantize", kModel, "--to", GetParam(), "--output", Folder("quantized")}), 0)
      << output_;
  ASSERT_NO_FATAL_FAILURE(Convert(Folder("quantized"), Folder("converted")));
  const Json answer = Answer(Folder("quantized"));
  EXPECT_EQ(answer, Answer(Folder("converted")));
  EXPECT_NE(answer, Answer(kModel)) << "the codes are no copy of the model";
}

INSTANTIATE_TEST_SUITE_P(All, ServeQuantizedTargetTest, ::testing::Values("fp8-block", "w4a16"),
                         [](const auto& info) {
                           return std::string(info.param == "w4a16" ? info.param : "fp8_block");
                         });

TEST_F(ServeQuantizedTest, SaysWhatIsLoadedAndRefusesADamagedFolderByTensor) {
  ASSERT_EQ(Run({"quantize", kModel, "--to", "w4a16", "--output", Folder("q")}), 0) << output_;
  EXPECT_NE(Run({"quantize", Folder("q"), "--to", "fp8", "--output", Folder("again")}), 0);
  EXPECT_THAT(output_, HasSubstr("the weights are quantised already (compressed-tensors)"));
  Json config = Json::parse(std::ifstream(Folder("q") + "/config.json"));
  config["quantization_config"]["config_groups"]["group_0"]["weights"]["group_size"] = 32;
  std::ofstream(Folder("q") + "/config.json") << config;
  EXPECT_EQ(Run({"serve", Folder("q"), "--port", "0", "--device", "cpu"}), 1);
  EXPECT_THAT(output_,
              AllOf(HasSubstr("weights: int4, groups of 32 (compressed-tensors): 14 modules"),
                    HasSubstr("tensor model.layers.0."), HasSubstr("_proj.weight_scale: shape is"),
                    HasSubstr("ended with exit code 2 and was never ready")));
}

}  // namespace
}  // namespace lockstep::testing
