#include "kernels/formats/compressed_tensors/pack_quantized.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "kernels/formats/tensors/scale_encoding.h"
#include "kernels/formats/tensors/scale_layout.h"

namespace lockstep::kernels {
namespace {

// The integers of a word: 8 of 4 bits, or 4 of 8.
struct WordLayout {
  int64_t bits;
  int64_t codes_per_word() const { return 32 / bits; }
  uint8_t Code(uint32_t word, int64_t index) const {
    return static_cast<uint8_t>((word >> (bits * (index % codes_per_word()))) & ((1u << bits) - 1));
  }
  int64_t NumWords(int64_t num_codes) const {
    return (num_codes + codes_per_word() - 1) / codes_per_word();
  }
};

absl::StatusOr<MatrixShape> ReadWeightShape(const ModuleTensors& tensors,
                                            const SafetensorsTensor& packed,
                                            const WordLayout& layout) {
  LOCKSTEP_ASSIGN_OR_RETURN(const MatrixShape words, ReadMatrixShape(packed));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* tensor, tensors.Get("weight_shape"));
  LOCKSTEP_RETURN_IF_ERROR(ExpectShape(*tensor, {2}));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, ReadIntegers(*tensor));
  const int64_t most = words.columns * layout.codes_per_word();
  const bool fits = shape[0] == words.rows && shape[1] > 0 && shape[1] <= most &&
                    layout.NumWords(shape[1]) == words.columns;
  if (fits) return MatrixShape{shape[0], shape[1]};
  return InvalidArgument("tensor {}: [{}, {}] does not fit {} {} of {}-bit codes", tensor->name,
                         shape[0], shape[1], packed.name, DescribeTensor(packed), layout.bits);
}

absl::Status ReadPackedZeros(const ModuleTensors& tensors, const WordLayout& layout,
                             QuantizedMatrix* matrix) {
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* tensor, tensors.Get("weight_zero_point"));
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(*tensor, {SafetensorsDtype::kI32}));
  const int64_t groups = static_cast<int64_t>(matrix->scales.size()) / matrix->n;
  LOCKSTEP_RETURN_IF_ERROR(ExpectShape(*tensor, {layout.NumWords(matrix->n), groups}));
  for (int64_t row = 0; row < matrix->n; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const uint32_t word = WordAt(*tensor, row / layout.codes_per_word() * groups + group);
      matrix->zeros.push_back(layout.Code(word, row));
    }
  }
  return absl::OkStatus();
}

// Words [rows, words of a row] to codes [rows, columns]. The last word of a row may have fewer.
template <int64_t bits>
std::vector<uint8_t> UnpackAlongColumns(const SafetensorsTensor& packed, int64_t rows,
                                        int64_t columns) {
  constexpr int64_t kPerWord = 32 / bits;
  const int64_t words = (columns + kPerWord - 1) / kPerWord;
  std::vector<uint8_t> codes(static_cast<size_t>(rows * words * kPerWord));
  for (int64_t word = 0; word < rows * words; ++word) {
    const int64_t row = word / words;
    // The last word of a row may write beyond the row. The next row overwrites that.
    uint8_t* const first = codes.data() + row * columns + word % words * kPerWord;
    const uint32_t value = WordAt(packed, word);
    for (int64_t i = 0; i < kPerWord; ++i) {
      first[i] = static_cast<uint8_t>((value >> (bits * i)) & ((1u << bits) - 1));
    }
  }
  codes.resize(static_cast<size_t>(rows * columns));
  return codes;
}

// Files from before an order was found have an index full of -1.
std::vector<uint32_t> PackAlongColumns(const std::vector<uint8_t>& codes, int64_t rows,
                                       int64_t columns, const WordLayout& layout) {
  const int64_t words = layout.NumWords(columns);
  std::vector<uint32_t> packed(static_cast<size_t>(rows * words));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const uint32_t code = codes[static_cast<size_t>(row * columns + column)];
      packed[static_cast<size_t>(row * words + column / layout.codes_per_word())] |=
          code << (layout.bits * (column % layout.codes_per_word()));
    }
  }
  return packed;
}

}  // namespace

absl::StatusOr<QuantizedMatrix> DecodePackQuantized(const ModuleTensors& tensors,
                                                    const WeightScheme& scheme) {
  const WordLayout layout{.bits = scheme.bits};
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* packed, tensors.Get("weight_packed"));
  if (layout.bits != 4 && layout.bits != 8) {
    return InvalidArgument("tensor {}: codes of {} bits, expected 4 or 8", packed->name,
                           layout.bits);
  }
  LOCKSTEP_RETURN_IF_ERROR(ExpectDtype(*packed, {SafetensorsDtype::kI32}));
  LOCKSTEP_ASSIGN_OR_RETURN(const MatrixShape shape, ReadWeightShape(tensors, *packed, layout));
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsTensor* scale, tensors.Get("weight_scale"));
  QuantizedMatrix matrix;
  matrix.kind = layout.bits == 4 ? CodeKind::kInt4 : CodeKind::kInt8;
  matrix.n = shape.rows;
  matrix.k = shape.columns;
  LOCKSTEP_RETURN_IF_ERROR(SetScales(*scale, scheme, ScaleRounding::kBFloat16, &matrix));
  if (scheme.symmetric) {
    LOCKSTEP_RETURN_IF_ERROR(ExpectZeroBytes(tensors.find("weight_zero_point")));
  } else {
    LOCKSTEP_RETURN_IF_ERROR(ReadPackedZeros(tensors, layout, &matrix));
  }
  const SafetensorsTensor* const g_idx = tensors.find("weight_g_idx");
  if (g_idx != nullptr && !AllBytesAre(std::byte{0xFF}, *g_idx)) {
    LOCKSTEP_RETURN_IF_ERROR(SetGroupOfColumn(*g_idx, matrix.num_groups(), &matrix));
  }
  matrix.codes = layout.bits == 4 ? UnpackAlongColumns<4>(*packed, matrix.n, matrix.k)
                                  : UnpackAlongColumns<8>(*packed, matrix.n, matrix.k);
  return Finish(packed->name, std::move(matrix));
}

absl::StatusOr<std::vector<EncodedTensor>> EncodePackQuantized(const QuantizedMatrix& matrix,
                                                               SafetensorsDtype scale_dtype) {
  if (matrix.kind != CodeKind::kInt4 && matrix.kind != CodeKind::kInt8) {
    return InvalidArgument("pack-quantized holds integers only");
  }
  const WordLayout layout{.bits = matrix.kind == CodeKind::kInt4 ? 4 : 8};
  const int64_t groups = matrix.num_groups();
  std::vector<EncodedTensor> tensors;
  tensors.push_back(MakeTensor("weight_packed", SafetensorsDtype::kI32,
                               {matrix.n, layout.NumWords(matrix.k)},
                               PackAlongColumns(matrix.codes, matrix.n, matrix.k, layout)));
  LOCKSTEP_ASSIGN_OR_RETURN(EncodedTensor scale, EncodeScales("weight_scale", scale_dtype,
                                                              {matrix.n, groups}, matrix.scales));
  tensors.push_back(std::move(scale));
  tensors.push_back(MakeTensor("weight_shape", SafetensorsDtype::kI64, {2},
                               std::vector<int64_t>{matrix.n, matrix.k}));
  if (!matrix.zeros.empty()) {
    // Along N: the same as along the columns of the transposed matrix, transposed again.
    const int64_t words = layout.NumWords(matrix.n);
    const auto packed =
        PackAlongColumns(Transposed(matrix.zeros, matrix.n, groups), groups, matrix.n, layout);
    tensors.push_back(MakeTensor("weight_zero_point", SafetensorsDtype::kI32, {words, groups},
                                 Transposed(packed, groups, words)));
  }
  if (!matrix.has_contiguous_groups()) {
    tensors.push_back(
        MakeTensor("weight_g_idx", SafetensorsDtype::kI32, {matrix.k}, matrix.group_of_column));
  }
  return tensors;
}

}  // namespace lockstep::kernels
