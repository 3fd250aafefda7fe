#include "tests/worker/model/weights/quantized_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/model_files/safetensors_writer.h"
#include "kernels/formats/awq/awq.h"
#include "kernels/formats/compressed_tensors/byte_quantized.h"
#include "kernels/formats/compressed_tensors/pack_quantized.h"
#include "kernels/formats/fp8_block/fp8_block.h"
#include "kernels/formats/gptq/gptq.h"
#include "kernels/formats/mxfp4/mxfp4.h"
#include "kernels/formats/small_floats.h"
#include "tests/common/status_matchers.h"

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using kernels::CodeKind;
using kernels::EncodedTensor;
using kernels::MakeTensor;
using kernels::QuantizedMatrix;

constexpr char kTinyLlama[] = "tests/golden/tiny-llama";
constexpr float kGlobalScale = 0x1p9f;

struct MatrixOptions {
  CodeKind kind;
  int64_t group_columns = 0;  // 0: a row
  bool zeros = false;
  bool permuted = false;
  int64_t block_rows = 1;  // with equal scales
  bool powers_of_two = false;
};

// Values are as large as those of a model. A scale has few bits, so that every type holds it.
QuantizedMatrix CodesOf(const MatrixOptions& options, int64_t n, int64_t k,
                        std::mt19937_64& random) {
  QuantizedMatrix matrix;
  matrix.kind = options.kind;
  matrix.n = n;
  matrix.k = k;
  matrix.group_columns = options.group_columns == 0 ? k : options.group_columns;
  const bool is_nibble = options.kind == CodeKind::kInt4 || options.kind == CodeKind::kFp4E2M1;
  const auto code = [&] {
    const auto value = static_cast<uint8_t>(random() % (is_nibble ? 16 : 256));
    const bool is_nan = options.kind == CodeKind::kFp8E4M3 && (value & 0x7F) == 0x7F;
    return is_nan ? uint8_t{0x30} : value;
  };
  for (int64_t i = 0; i < n * k; ++i) matrix.codes.push_back(code());
  const float unit =
      options.kind == CodeKind::kFp8E4M3 || options.kind == CodeKind::kInt8 ? 0x1p-13f : 0x1p-9f;
  const int64_t groups = (k + matrix.group_columns - 1) / matrix.group_columns;
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const bool repeats = row % options.block_rows != 0;
      matrix.scales.push_back(
          repeats ? matrix.scales[static_cast<size_t>((row - 1) * groups + group)]
                  : unit * static_cast<float>(options.powers_of_two ? 8 << random() % 2
                                                                    : 8 + random() % 8));
      if (options.zeros) matrix.zeros.push_back(code());
    }
  }
  if (options.permuted) {
    for (int64_t column = 0; column < k; ++column) {
      matrix.group_of_column.push_back(static_cast<int32_t>(column / matrix.group_columns));
    }
    std::ranges::shuffle(matrix.group_of_column, random);
  }
  return matrix;
}

std::vector<EncodedTensor> Value(absl::StatusOr<std::vector<EncodedTensor>> tensors) {
  EXPECT_THAT(tensors, IsOk());
  return tensors.ok() ? *std::move(tensors) : std::vector<EncodedTensor>();
}

// Two codes a byte, the first one low.
std::vector<uint8_t> PackNibbles(const std::vector<uint8_t>& codes) {
  std::vector<uint8_t> bytes(codes.size() / 2);
  for (size_t i = 0; i < codes.size(); ++i) {
    bytes[i / 2] |= static_cast<uint8_t>(codes[i] << (i % 2 * 4));
  }
  return bytes;
}

// Scales of 8 + i, which E4M3 holds, times a power of two.
std::vector<EncodedTensor> EncodeNvfp4(const QuantizedMatrix& matrix, bool model_opt) {
  std::vector<uint8_t> scales;
  for (const float scale : matrix.scales) {
    uint8_t code = 0;
    while (kernels::E4M3ToFloat(code) != scale * kGlobalScale) ++code;
    scales.push_back(code);
  }
  const std::vector<float> global = {model_opt ? 1 / kGlobalScale : kGlobalScale};
  const int64_t n = matrix.n, k = matrix.k;
  return {MakeTensor(model_opt ? "weight" : "weight_packed", SafetensorsDtype::kU8, {n, k / 2},
                     PackNibbles(matrix.codes)),
          MakeTensor("weight_scale", SafetensorsDtype::kF8E4M3, {n, k / 16}, scales),
          MakeTensor(model_opt ? "weight_scale_2" : "weight_global_scale", SafetensorsDtype::kF32,
                     {1}, global),
          MakeTensor(model_opt ? "input_scale" : "input_global_scale", SafetensorsDtype::kF32, {1},
                     global)};
}

Json CompressedTensors(const char* format, const Json& weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}},
          {"ignore", {"lm_head"}}};
}

Json Gptq(int bits, bool sym, const char* version) {
  return {{"quant_method", "gptq"}, {"bits", bits}, {"group_size", 16},
          {"desc_act", true},       {"sym", sym},   {"checkpoint_format", version}};
}

WeightLayoutCase LayoutCase(
    std::string name, Json config, const MatrixOptions& options,
    std::function<absl::StatusOr<std::vector<EncodedTensor>>(const QuantizedMatrix&)> encode) {
  return {.name = std::move(name),
          .quantization_config = std::move(config),
          .matrix = [options](int64_t n, int64_t k,
                              std::mt19937_64& random) { return CodesOf(options, n, k, random); },
          .encode = [encode = std::move(encode)](
                        const QuantizedMatrix& matrix) { return Value(encode(matrix)); }};
}

void AddIntegers(std::vector<WeightLayoutCase>* cases) {
  const auto pack = [](const QuantizedMatrix& m) {
    return kernels::EncodePackQuantized(m, SafetensorsDtype::kBF16);
  };
  const Json int4 = {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 16}};
  Json asymmetric = int4;
  asymmetric["symmetric"] = false;
  Json ordered = int4;
  ordered["actorder"] = "group";
  const Json int8 = {{"num_bits", 8}, {"type", "int"}, {"strategy", "channel"}};
  const auto compressed = [](const Json& weights) {
    return CompressedTensors("pack-quantized", weights);
  };
  cases->push_back(
      LayoutCase("pack4", compressed(int4), {.kind = CodeKind::kInt4, .group_columns = 16}, pack));
  cases->push_back(LayoutCase("pack4_zeros", compressed(asymmetric),
                              {.kind = CodeKind::kInt4, .group_columns = 16, .zeros = true}, pack));
  cases->push_back(LayoutCase("pack4_order", compressed(ordered),
                              {.kind = CodeKind::kInt4, .group_columns = 16, .permuted = true},
                              pack));
  cases->push_back(LayoutCase("pack8", compressed(int8), {.kind = CodeKind::kInt8}, pack));
  cases->push_back(LayoutCase("int8", CompressedTensors("int-quantized", int8),
                              {.kind = CodeKind::kInt8}, [](const QuantizedMatrix& m) {
                                return kernels::EncodeIntQuantized(m, SafetensorsDtype::kBF16);
                              }));
  cases->push_back(LayoutCase(
      "awq",
      {{"quant_method", "awq"},
       {"bits", 4},
       {"group_size", 16},
       {"version", "gemm"},
       {"zero_point", true}},
      {.kind = CodeKind::kInt4, .group_columns = 16, .zeros = true},
      [](const QuantizedMatrix& m) { return kernels::EncodeAwq(m, SafetensorsDtype::kF16); }));
  for (const auto& [name, bits, is_v1] :
       {std::tuple("gptq_v1", 4, true), std::tuple("gptq_v2", 4, false),
        std::tuple("gptq_8", 8, true)}) {
    const CodeKind kind = bits == 4 ? CodeKind::kInt4 : CodeKind::kInt8;
    cases->push_back(
        LayoutCase(name, Gptq(bits, false, is_v1 ? "gptq" : "gptq_v2"),
                   {.kind = kind, .group_columns = 16, .zeros = true, .permuted = true},
                   [is_v1 = is_v1](const QuantizedMatrix& m) {
                     return kernels::EncodeGptq(m, SafetensorsDtype::kF16, is_v1);
                   }));
  }
}

void AddFloats(std::vector<WeightLayoutCase>* cases) {
  cases->push_back(
      LayoutCase("fp8_rows",
                 CompressedTensors("float-quantized",
                                   {{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}}),
                 {.kind = CodeKind::kFp8E4M3}, [](const QuantizedMatrix& m) {
                   return kernels::EncodeFloatQuantized(m, SafetensorsDtype::kF32);
                 }));
  cases->push_back(LayoutCase("fp8_blocks",
                              {{"quant_method", "fp8"},
                               {"fmt", "e4m3"},
                               {"activation_scheme", "dynamic"},
                               {"weight_block_size", {32, 16}},
                               {"modules_to_not_convert", {"lm_head"}}},
                              {.kind = CodeKind::kFp8E4M3, .group_columns = 16, .block_rows = 32},
                              [](const QuantizedMatrix& m) {
                                return kernels::EncodeFp8Block(m, SafetensorsDtype::kF32, 32);
                              }));
  const Json fp4 = {
      {"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}};
  const MatrixOptions nvfp4 = {.kind = CodeKind::kFp4E2M1, .group_columns = 16};
  cases->push_back(
      LayoutCase("nvfp4", CompressedTensors("nvfp4-pack-quantized", fp4), nvfp4,
                 [](const QuantizedMatrix& m) { return EncodeNvfp4(m, /*model_opt=*/false); }));
  cases->push_back(LayoutCase(
      "nvfp4_modelopt",
      {{"quant_method", "modelopt"},
       {"quant_algo", "NVFP4"},
       {"group_size", 16},
       {"ignore", {"lm_head"}}},
      nvfp4, [](const QuantizedMatrix& m) { return EncodeNvfp4(m, /*model_opt=*/true); }));
  Json mxfp4 = fp4;
  mxfp4["strategy"] = "group";
  mxfp4["group_size"] = 32;
  cases->push_back(
      LayoutCase("mxfp4", CompressedTensors("mxfp4-pack-quantized", mxfp4),
                 {.kind = CodeKind::kFp4E2M1, .group_columns = 32, .powers_of_two = true},
                 kernels::EncodeMxfp4Packed));
  cases->back().column_multiple = 32;
}

QuantizedFolder::Tensor CopyOf(const SafetensorsTensor& tensor) {
  return {tensor.dtype, tensor.shape, {tensor.data.begin(), tensor.data.end()}};
}

QuantizedFolder::Tensor Dequantized(const QuantizedMatrix& matrix) {
  std::vector<kernels::BFloat16> values(matrix.codes.size());
  for (int64_t row = 0; row < matrix.n; ++row) {
    kernels::DequantizeRow(matrix, row, values.data() + row * matrix.k);
  }
  return {SafetensorsDtype::kBF16,
          {static_cast<uint64_t>(matrix.n), static_cast<uint64_t>(matrix.k)},
          kernels::BytesOf(std::span<const kernels::BFloat16>(values))};
}

}  // namespace

std::vector<WeightLayoutCase> AllWeightLayouts() {
  std::vector<WeightLayoutCase> cases;
  AddIntegers(&cases);
  AddFloats(&cases);
  return cases;
}

QuantizedFolder::QuantizedFolder(const WeightLayoutCase& layout, const Keeps& keeps)
    : quantization_config(layout.quantization_config) {
  std::mt19937_64 random(7);
  const auto checkpoint = SafetensorsCheckpoint::Open(kTinyLlama);
  EXPECT_THAT(checkpoint, IsOk());
  for (const std::string_view view : checkpoint->TensorNames()) {
    const std::string name(view);
    const SafetensorsTensor& tensor = *checkpoint->Find(name);
    const std::string module = name.substr(0, name.rfind('.'));
    converted[name] = CopyOf(tensor);
    const bool is_linear = module.ends_with("_proj") || (layout.lm_head && module == "lm_head");
    if (!is_linear || (keeps && keeps(module)) ||
        tensor.shape[1] % static_cast<uint64_t>(layout.column_multiple) != 0) {
      tensors[name] = CopyOf(tensor);
      continue;
    }
    const QuantizedMatrix matrix = layout.matrix(static_cast<int64_t>(tensor.shape[0]),
                                                 static_cast<int64_t>(tensor.shape[1]), random);
    for (EncodedTensor& part : layout.encode(matrix)) {
      tensors[module + "." + part.suffix] = {part.dtype, part.shape, std::move(part.bytes)};
    }
    converted[name] = Dequantized(matrix);
  }
}

std::string QuantizedFolder::Write() const {
  return WriteFiles("quantized", tensors, quantization_config);
}

std::string QuantizedFolder::WriteConverted() const {
  return WriteFiles("converted", converted, nullptr);
}

std::string QuantizedFolder::WriteFiles(const std::string& folder,
                                        const std::map<std::string, Tensor>& of,
                                        const Json& quantization) const {
  const std::string path = home_.path() + "/" + folder;
  fs::remove_all(path);
  fs::create_directory(path);
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    fs::copy_file(fs::path(kTinyLlama) / file, fs::path(path) / file);
  }
  Json config = Json::parse(std::ifstream(fs::path(kTinyLlama) / "config.json"));
  if (!quantization.is_null()) config["quantization_config"] = quantization;
  home_.Write(folder + "/config.json", config.dump(2));
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : of) specs.push_back({name, tensor.dtype, tensor.shape});
  auto writer = SafetensorsWriter::Create(path + "/model.safetensors", specs, {});
  EXPECT_THAT(writer, IsOk());
  size_t next = 0;
  for (const auto& [name, tensor] : of) {
    EXPECT_THAT(writer->Append(specs[next++], tensor.bytes), IsOk());
  }
  EXPECT_THAT(writer->Finish(), IsOk());
  return path;
}

}  // namespace lockstep::worker
