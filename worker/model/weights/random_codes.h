#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "common/model_files/quantization/quantization_config.h"
#include "kernels/formats/quantized_matrix.h"
#include "worker/model/weights/random_weights.h"

namespace lockstep::worker {

// The kind of random codes, so that a quantised model of any shape can be measured without a file.
struct RandomCodes {
  std::string_view name;
  kernels::CodeKind kind = kernels::CodeKind::kInt4;
  int64_t group_columns = 0;  // -1: a whole row
  bool has_zeros = false;
  int64_t block_columns = 0;  // of the second level of scales; 0: one level; -1: a whole row
  // The matrix of the logits has codes, as in GGUF files. Tools that write folders leave it out.
  bool has_lm_head = false;
};

// "int4-g128", "int4-g128-zeros", "int4-g32", "int8-g32", "fp8-g128", "nvfp4", "mxfp4", "q4_1",
// "q4_k", "q5_k", "q6_k".
std::span<const RandomCodes> AllRandomCodes();
std::optional<RandomCodes> FindRandomCodes(std::string_view name);
// Codes of the same kind, groups and zero points as the scheme's.
RandomCodes CodesOfScheme(const WeightScheme& scheme);
// True if rows of this many columns consist of whole groups and blocks.
bool Fit(const RandomCodes& codes, int64_t num_columns);
uint64_t FingerprintOf(const RandomCodes& codes);

// The codes of a module's matrix, if it has any: "model.layers.0.mlp.down_proj".
using RandomCodesOfModule = std::function<std::optional<RandomCodes>(std::string_view module)>;

struct RowRange {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t num_columns = 0;  // that Fit()
};

// Rows of the matrix that the tensor's seed gives. Their values have about its deviation and the
// mean 0. A row depends on the seed and its number alone.
kernels::QuantizedMatrix RandomRows(const RandomTensor& tensor, const RandomCodes& codes,
                                    const RowRange& range);

}  // namespace lockstep::worker
