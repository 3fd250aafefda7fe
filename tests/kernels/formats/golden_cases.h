#pragma once

#include <span>
#include <string_view>

#include "common/model_files/quantization/quantization_config.h"

namespace lockstep::kernels {

// A case of tests/golden/formats/decode.safetensors.
struct GoldenCase {
  std::string_view name;
  WeightScheme scheme;
};

inline constexpr GoldenCase kGoldenCases[] = {
    {"w4_g32_sym", {.format = WeightFormat::kPackQuantized, .bits = 4, .group_size = 32}},
    {"w4_g64_asym",
     {.format = WeightFormat::kPackQuantized, .bits = 4, .symmetric = false, .group_size = 64}},
    {"w4_g128_sym", {.format = WeightFormat::kPackQuantized, .bits = 4, .group_size = 128}},
    {"w4_channel_asym",
     {.format = WeightFormat::kPackQuantized,
      .bits = 4,
      .symmetric = false,
      .extent = ScaleExtent::kChannel}},
    {"w4_tensor_sym",
     {.format = WeightFormat::kPackQuantized, .bits = 4, .extent = ScaleExtent::kTensor}},
    {"w8_g32_asym",
     {.format = WeightFormat::kPackQuantized, .bits = 8, .symmetric = false, .group_size = 32}},
    {"w8_channel_sym",
     {.format = WeightFormat::kPackQuantized, .bits = 8, .extent = ScaleExtent::kChannel}},
    {"w4_ordered",
     {.format = WeightFormat::kPackQuantized, .bits = 4, .symmetric = false, .group_size = 32}},
    {"int8_channel_sym",
     {.format = WeightFormat::kIntQuantized, .bits = 8, .extent = ScaleExtent::kChannel}},
    {"int8_g32_asym",
     {.format = WeightFormat::kIntQuantized, .bits = 8, .symmetric = false, .group_size = 32}},
    {"fp8_channel",
     {.format = WeightFormat::kFloatQuantized, .bits = 8, .extent = ScaleExtent::kChannel}},
    {"fp8_tensor",
     {.format = WeightFormat::kFloatQuantized, .bits = 8, .extent = ScaleExtent::kTensor}},
    {"fp8_g32", {.format = WeightFormat::kFloatQuantized, .bits = 8, .group_size = 32}},
    {"fp8_block",
     {.format = WeightFormat::kFp8Block,
      .bits = 8,
      .extent = ScaleExtent::kBlock,
      .block_rows = 16,
      .block_columns = 32}},
    {"fp8_block_bf16",
     {.format = WeightFormat::kFp8Block,
      .bits = 8,
      .extent = ScaleExtent::kBlock,
      .block_rows = 128,
      .block_columns = 128}},
    {"awq_g32", {.format = WeightFormat::kAwq, .bits = 4, .symmetric = false, .group_size = 32}},
    {"awq_channel",
     {.format = WeightFormat::kAwq,
      .bits = 4,
      .symmetric = false,
      .extent = ScaleExtent::kChannel}},
    {"gptq_g32",
     {.format = WeightFormat::kGptq, .bits = 4, .group_size = 32, .zeros_minus_one = true}},
    {"gptq_g32_v2", {.format = WeightFormat::kGptq, .bits = 4, .group_size = 32}},
    {"gptq_ordered",
     {.format = WeightFormat::kGptq,
      .bits = 4,
      .group_size = 32,
      .act_order = true,
      .zeros_minus_one = true}},
    {"gptq_ordered_v2",
     {.format = WeightFormat::kGptq, .bits = 4, .group_size = 32, .act_order = true}},
    {"gptq_channel",
     {.format = WeightFormat::kGptq,
      .bits = 4,
      .extent = ScaleExtent::kChannel,
      .zeros_minus_one = true}},
    {"gptq_channel_v2",
     {.format = WeightFormat::kGptq, .bits = 4, .extent = ScaleExtent::kChannel}},
    {"gptq_int8",
     {.format = WeightFormat::kGptq,
      .bits = 8,
      .group_size = 32,
      .act_order = true,
      .zeros_minus_one = true}},
    {"gptq_int8_v2",
     {.format = WeightFormat::kGptq, .bits = 8, .group_size = 32, .act_order = true}},
    {"nvfp4", {.format = WeightFormat::kNvfp4, .bits = 4, .group_size = 16}},
    {"nvfp4_modelopt", {.format = WeightFormat::kNvfp4ModelOpt, .bits = 4, .group_size = 16}},
    {"mxfp4", {.format = WeightFormat::kMxfp4Packed, .bits = 4, .group_size = 32}},
};

inline const WeightScheme& SchemeOfGolden(std::string_view name) {
  for (const GoldenCase& golden : kGoldenCases) {
    if (golden.name == name) return golden.scheme;
  }
  static const WeightScheme kNone;
  return kNone;
}

}  // namespace lockstep::kernels
