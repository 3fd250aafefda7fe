#include "kernels/formats/checkpoint/decode_weight.h"

#include <string>

#include "common/status.h"
#include "kernels/formats/awq/awq.h"
#include "kernels/formats/compressed_tensors/byte_quantized.h"
#include "kernels/formats/compressed_tensors/pack_quantized.h"
#include "kernels/formats/fp8_block/fp8_block.h"
#include "kernels/formats/gptq/gptq.h"
#include "kernels/formats/mxfp4/mxfp4.h"
#include "kernels/formats/nvfp4/nvfp4.h"

namespace lockstep::kernels {

std::span<const std::string_view> TensorSuffixes(WeightFormat format) {
  static constexpr std::string_view kPacked[] = {
      "weight_packed", "weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx"};
  static constexpr std::string_view kBytes[] = {"weight", "weight_scale", "weight_zero_point",
                                                "input_scale", "input_zero_point"};
  static constexpr std::string_view kBlock[] = {"weight", "weight_scale_inv", "input_scale"};
  static constexpr std::string_view kAwq[] = {"qweight", "qzeros", "scales"};
  static constexpr std::string_view kGptq[] = {"qweight", "qzeros", "scales", "g_idx"};
  static constexpr std::string_view kNvfp4[] = {"weight_packed", "weight_scale",
                                                "weight_global_scale", "input_global_scale"};
  static constexpr std::string_view kNvfp4ModelOpt[] = {"weight", "weight_scale", "weight_scale_2",
                                                        "input_scale"};
  static constexpr std::string_view kMxfp4[] = {"weight_packed", "weight_scale"};
  switch (format) {
    case WeightFormat::kPackQuantized:
      return kPacked;
    case WeightFormat::kIntQuantized:
    case WeightFormat::kFloatQuantized:
      return kBytes;
    case WeightFormat::kFp8Block:
      return kBlock;
    case WeightFormat::kAwq:
      return kAwq;
    case WeightFormat::kGptq:
      return kGptq;
    case WeightFormat::kNvfp4:
      return kNvfp4;
    case WeightFormat::kNvfp4ModelOpt:
      return kNvfp4ModelOpt;
    case WeightFormat::kMxfp4:
      return {};
    case WeightFormat::kMxfp4Packed:
      return kMxfp4;
  }
  return {};
}

absl::StatusOr<MatrixShape> ReadShapeOfWeight(const ModuleTensors& tensors,
                                              const WeightScheme& scheme) {
  const std::span<const std::string_view> suffixes = TensorSuffixes(scheme.format);
  if (suffixes.empty()) {
    return InvalidArgument("module {}: {} has one tensor for all experts", tensors.module,
                           WeightFormatName(scheme.format));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* codes, tensors.Get(suffixes.front()));
  LOCKSTEP_ASSIGN_OR_RETURN(const MatrixShape stored, ReadMatrixShape(*codes));
  switch (scheme.format) {
    case WeightFormat::kPackQuantized: {
      LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* tensor, tensors.Get("weight_shape"));
      LOCKSTEP_RETURN_IF_ERROR(ExpectShape(*tensor, {2}));
      LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, ReadIntegers(*tensor));
      if (shape[0] > 0 && shape[1] > 0) return MatrixShape{shape[0], shape[1]};
      return InvalidArgument("tensor {}: [{}, {}] is no shape of a matrix", tensor->name, shape[0],
                             shape[1]);
    }
    case WeightFormat::kAwq:
      return MatrixShape{stored.columns * 8, stored.rows};
    case WeightFormat::kGptq:
      return MatrixShape{stored.columns, stored.rows * (32 / int64_t{scheme.bits})};
    case WeightFormat::kNvfp4:
    case WeightFormat::kNvfp4ModelOpt:
    case WeightFormat::kMxfp4Packed:
      return MatrixShape{stored.rows, stored.columns * 2};
    default:
      return stored;
  }
}

absl::StatusOr<QuantizedMatrix> DecodeWeight(const ModuleTensors& tensors,
                                             const WeightScheme& scheme) {
  switch (scheme.format) {
    case WeightFormat::kPackQuantized:
      return DecodePackQuantized(tensors, scheme);
    case WeightFormat::kIntQuantized:
      return DecodeIntQuantized(tensors, scheme);
    case WeightFormat::kFloatQuantized:
      return DecodeFloatQuantized(tensors, scheme);
    case WeightFormat::kFp8Block:
      return DecodeFp8Block(tensors, scheme);
    case WeightFormat::kAwq:
      return DecodeAwq(tensors, scheme);
    case WeightFormat::kGptq:
      return DecodeGptq(tensors, scheme);
    case WeightFormat::kNvfp4:
    case WeightFormat::kNvfp4ModelOpt:
      return DecodeNvfp4(tensors, scheme);
    case WeightFormat::kMxfp4Packed:
      return DecodeMxfp4Packed(tensors);
    case WeightFormat::kMxfp4:
      break;
  }
  return InvalidArgument("module {}: {} has one tensor for all experts", tensors.module,
                         WeightFormatName(scheme.format));
}

ModuleTensors TensorsOfModule(const SafetensorsCheckpoint& checkpoint, std::string_view module) {
  std::string name(module);
  return {.module = name, .find = [&checkpoint, name](std::string_view suffix) {
            return checkpoint.Find(fmt::format("{}.{}", name, suffix));
          }};
}

}  // namespace lockstep::kernels
