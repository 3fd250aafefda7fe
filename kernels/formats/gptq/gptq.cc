#include "kernels/formats/gptq/gptq.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "kernels/formats/tensors/scale_encoding.h"

namespace lockstep::kernels {
namespace {

uint32_t CodeMask(int64_t bits) { return (1u << bits) - 1; }
// A word with 1 in every code.
uint32_t Ones(int64_t bits) { return bits == 4 ? 0x11111111u : 0x01010101u; }

struct GptqShape {
  int64_t n, k, group, groups;
};

absl::StatusOr<GptqShape> CheckShapes(const SafetensorsTensor& weight,
                                      const SafetensorsTensor& zeros,
                                      const SafetensorsTensor& scales, const WeightScheme& scheme) {
  const int64_t per_word = 32 / int64_t{scheme.bits};
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(weight, {SafetensorsDtype::kI32}));
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(zeros, {SafetensorsDtype::kI32}));
  LOCKSTEP_ASSIGN_OR_RETURN(const MatrixShape words, ReadMatrixShape(weight));
  GptqShape shape{.n = words.columns, .k = words.rows * per_word, .group = 0, .groups = 0};
  shape.group = scheme.group_size > 0 ? int64_t{scheme.group_size} : shape.k;
  shape.groups = (shape.k + shape.group - 1) / shape.group;
  if (shape.n % per_word != 0) {
    return InvalidArgument(
        "tensor {}: {} columns are not a multiple of the {} zero points of a word", weight.name,
        shape.n, per_word);
  }
  LOCKSTEP_RETURN_IF_ERROR(ExpectShape(zeros, {shape.groups, shape.n / per_word}));
  LOCKSTEP_RETURN_IF_ERROR(ExpectShape(scales, {shape.groups, shape.n}));
  return shape;
}

// Words [K / per_word, N] to codes [N, K].
std::vector<uint8_t> UnpackAlongK(const SafetensorsTensor& packed, const GptqShape& shape,
                                  int64_t bits) {
  const int64_t per_word = 32 / bits;
  std::vector<uint8_t> codes(static_cast<size_t>(shape.n * shape.k));
  for (int64_t k = 0; k < shape.k; k += per_word) {
    for (int64_t n = 0; n < shape.n; ++n) {
      const uint32_t word = WordAt(packed, k / per_word * shape.n + n);
      for (int64_t i = 0; i < per_word; ++i) {
        codes[static_cast<size_t>(n * shape.k + k + i)] =
            static_cast<uint8_t>((word >> (bits * i)) & CodeMask(bits));
      }
    }
  }
  return codes;
}

// Words [groups, N / per_word] to zero points [N, groups].
std::vector<uint8_t> UnpackZeros(const SafetensorsTensor& packed, const GptqShape& shape,
                                 int64_t bits, bool minus_one) {
  const int64_t per_word = 32 / bits;
  std::vector<uint8_t> zeros(static_cast<size_t>(shape.n * shape.groups));
  for (int64_t group = 0; group < shape.groups; ++group) {
    for (int64_t n = 0; n < shape.n; ++n) {
      uint32_t word = WordAt(packed, group * (shape.n / per_word) + n / per_word);
      if (minus_one) word += Ones(bits);
      zeros[static_cast<size_t>(n * shape.groups + group)] =
          static_cast<uint8_t>((word >> (bits * (n % per_word))) & CodeMask(bits));
    }
  }
  return zeros;
}

absl::Status ReadColumnOrder(const ModuleTensors& tensors, const WeightScheme& scheme,
                             int64_t num_groups, QuantizedMatrix* matrix) {
  const SafetensorsTensor* const g_idx = tensors.find("g_idx");
  if (g_idx == nullptr) {
    if (!scheme.act_order) return absl::OkStatus();
    return InvalidArgument("tensor {} is missing, but desc_act is true", tensors.NameOf("g_idx"));
  }
  if (!scheme.act_order && AllBytesAre(std::byte{0}, *g_idx)) return absl::OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(SetGroupOfColumn(*g_idx, num_groups, matrix));
  if (scheme.act_order || matrix->has_contiguous_groups()) return absl::OkStatus();
  return InvalidArgument("tensor {}: permutes the groups of columns, but desc_act is false",
                         g_idx->name);
}

// Codes [outer, inner] to words: along the inner one.
std::vector<uint32_t> PackInner(const std::vector<uint8_t>& codes, int64_t bits) {
  const int64_t per_word = 32 / bits;
  std::vector<uint32_t> words(codes.size() / static_cast<size_t>(per_word));
  for (size_t i = 0; i < codes.size(); ++i) {
    const int64_t place = static_cast<int64_t>(i) % per_word;
    words[i / static_cast<size_t>(per_word)] |= uint32_t{codes[i]} << (bits * place);
  }
  return words;
}

}  // namespace

absl::StatusOr<QuantizedMatrix> DecodeGptq(const ModuleTensors& tensors,
                                           const WeightScheme& scheme) {
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* weight, tensors.Get("qweight"));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* zeros, tensors.Get("qzeros"));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* scales, tensors.Get("scales"));
  if (scheme.bits != 4 && scheme.bits != 8) {
    return InvalidArgument("tensor {}: codes of {} bits, expected 4 or 8", weight->name,
                           scheme.bits);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const GptqShape shape, CheckShapes(*weight, *zeros, *scales, scheme));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> by_group, ReadRoundedScales(*scales));
  QuantizedMatrix matrix;
  matrix.kind = scheme.bits == 4 ? CodeKind::kInt4 : CodeKind::kInt8;
  matrix.n = shape.n;
  matrix.k = shape.k;
  matrix.group_columns = shape.group;
  matrix.scales = Transposed(by_group, shape.groups, shape.n);
  LOCKSTEP_RETURN_IF_ERROR(ReadColumnOrder(tensors, scheme, shape.groups, &matrix));
  matrix.codes = UnpackAlongK(*weight, shape, scheme.bits);
  matrix.zeros = UnpackZeros(*zeros, shape, scheme.bits, scheme.zeros_minus_one);
  return Finish(weight->name, std::move(matrix));
}

absl::StatusOr<std::vector<EncodedTensor>> EncodeGptq(const QuantizedMatrix& matrix,
                                                      SafetensorsDtype scale_dtype,
                                                      bool zeros_minus_one) {
  const int64_t bits = matrix.kind == CodeKind::kInt4 ? 4 : 8;
  const int64_t per_word = 32 / bits;
  const bool is_integer = matrix.kind == CodeKind::kInt4 || matrix.kind == CodeKind::kInt8;
  if (!is_integer || matrix.n % per_word != 0 || matrix.k % per_word != 0) {
    return InvalidArgument("GPTQ holds integers, with rows and columns in multiples of {} only",
                           per_word);
  }
  const int64_t groups = matrix.num_groups();
  const std::vector<uint8_t> zeros =
      matrix.zeros.empty() ? std::vector<uint8_t>(matrix.scales.size(), MiddleCode(matrix.kind))
                           : matrix.zeros;
  std::vector<uint32_t> zero_words = PackInner(Transposed(zeros, matrix.n, groups), bits);
  if (zeros_minus_one) {
    for (uint32_t& word : zero_words) word -= Ones(bits);
  }
  std::vector<int32_t> g_idx = matrix.group_of_column;
  for (int64_t k = 0; g_idx.size() < static_cast<size_t>(matrix.k); ++k) {
    g_idx.push_back(static_cast<int32_t>(k / matrix.group_columns));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(EncodedTensor scales,
                            EncodeScales("scales", scale_dtype, {groups, matrix.n},
                                         Transposed(matrix.scales, matrix.n, groups)));
  std::vector<EncodedTensor> tensors;
  tensors.push_back(
      MakeTensor("qweight", SafetensorsDtype::kI32, {matrix.k / per_word, matrix.n},
                 Transposed(PackInner(matrix.codes, bits), matrix.n, matrix.k / per_word)));
  tensors.push_back(
      MakeTensor("qzeros", SafetensorsDtype::kI32, {groups, matrix.n / per_word}, zero_words));
  tensors.push_back(std::move(scales));
  tensors.push_back(MakeTensor("g_idx", SafetensorsDtype::kI32, {matrix.k}, g_idx));
  return tensors;
}

}  // namespace lockstep::kernels
