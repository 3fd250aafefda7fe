#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_files/safetensors.h"
#include "kernels/formats/quantized_matrix.h"

// What the decoders of all formats share: checks of tensors, which come from files that we do not
// trust. Errors are INVALID_ARGUMENT, one line each: "tensor NAME: what is wrong".
namespace lockstep::kernels {

// The tensors of one module: of its suffix ("weight_scale"), or nullptr.
struct ModuleTensors {
  std::string module;  // "model.layers.0.mlp.down_proj"
  std::function<const SafetensorsTensor*(std::string_view suffix)> find;

  std::string NameOf(std::string_view suffix) const;
  // INVALID_ARGUMENT "tensor NAME is missing".
  absl::StatusOr<const SafetensorsTensor*> Get(std::string_view suffix) const;
};

// How big a matrix a decoder makes. More is refused before anything is allocated.
inline constexpr int64_t kMaxMatrixElements = int64_t{1} << 36;

std::string DescribeTensor(const SafetensorsTensor& tensor);  // "I32 [64, 16]"

// The bytes are what dtype and shape say, and the dtype is one of these.
absl::Status ExpectDtype(const SafetensorsTensor& tensor,
                         std::initializer_list<SafetensorsDtype> dtypes);
absl::Status ExpectShape(const SafetensorsTensor& tensor, std::initializer_list<int64_t> shape);
// A matrix with at least one element: {rows, columns}.
struct MatrixShape {
  int64_t rows, columns;
};
absl::StatusOr<MatrixShape> ReadMatrixShape(const SafetensorsTensor& tensor);

bool AllBytesAre(std::byte value, const SafetensorsTensor& tensor);
// Element `index` of a tensor of 4-byte words.
uint32_t WordAt(const SafetensorsTensor& tensor, int64_t index);
// All elements, of F32, F16 or BF16. A value that is not finite is refused.
absl::StatusOr<std::vector<float>> ReadScales(const SafetensorsTensor& tensor);
// The same, rounded to bf16: the scales of integer codes (docs/formats.md).
absl::StatusOr<std::vector<float>> ReadRoundedScales(const SafetensorsTensor& tensor);
// All elements, of I32 or I64.
absl::StatusOr<std::vector<int64_t>> ReadIntegers(const SafetensorsTensor& tensor);

// [groups, rows] to [rows, groups].
template <typename T>
std::vector<T> Transposed(const std::vector<T>& values, int64_t groups, int64_t rows) {
  std::vector<T> result(values.size());
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t row = 0; row < rows; ++row) {
      result[static_cast<size_t>(row * groups + group)] =
          values[static_cast<size_t>(group * rows + row)];
    }
  }
  return result;
}

// Sets group_of_column from a tensor of K indices, unless column / group_columns says the same.
absl::Status SetGroupOfColumn(const SafetensorsTensor& g_idx, int64_t num_groups,
                              QuantizedMatrix* matrix);

// The last step of every decoder: drops zero points that are all in the middle, and refuses codes
// that are NaN and values that are not finite in bf16. `name`: of the tensor with the codes.
absl::StatusOr<QuantizedMatrix> Finish(std::string_view name, QuantizedMatrix matrix);

}  // namespace lockstep::kernels
