#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/model_files/gguf.h"
#include "common/model_files/safetensors.h"
#include "kernels/core/bfloat16.h"
#include "kernels/formats/quantized_matrix.h"
#include "worker/model/plan/model_plan.h"
#include "worker/model/weights/random_codes.h"
#include "worker/model/weights/random_weights.h"

namespace lockstep::worker {

class QuantizedTensor;

struct SourceTensor {
  std::string name;
  std::vector<uint64_t> shape;     // outermost first
  std::string type_name;           // as the file calls it
  GgmlType type = GgmlType::kF32;  // of the data, if `supported`
  bool supported = false;          // can be converted to fp32
  std::span<const std::byte> data;
  std::optional<RandomTensor> random = std::nullopt;       // if set, there is no data
  std::optional<RandomCodes> random_codes = std::nullopt;  // of the random tensor; unset: numbers
  // If set, there is no data: codes of other tensors. ReadRows makes bf16 of them, ReadCodes gives
  // them.
  std::shared_ptr<const QuantizedTensor> quantized = nullptr;
  bool may_be_unused = false;  // by the model
};

// The tensors of a checkpoint in any container: a GGUF file, or a folder with safetensors. The
// weights of a quantised module are one tensor, with the name and shape of an unquantised
// checkpoint. Owns the mapped files.
class WeightSource {
 public:
  static absl::StatusOr<WeightSource> Open(const std::string& path, const ModelFamily& family);
  // Every tensor that a model of this shape needs, without a file: seeded random numbers, scaled as
  // in a trained model. `path` stands for the model in errors. With `codes_of`, linear parts
  // may be quantised, unless the file would have them transposed, or their columns do not fit.
  static WeightSource Random(const std::string& path, const ModelFamily& family,
                             const ModelPlan& plan, uint64_t seed,
                             const RandomCodesOfModule& codes_of = nullptr);

  const std::string& path() const { return path_; }
  bool is_gguf() const { return std::holds_alternative<GgufFile>(files_); }
  const TensorNames& names() const { return is_gguf() ? family_->gguf : family_->hugging_face; }
  std::span<const SourceTensor> tensors() const { return tensors_; }  // sorted by name
  const SourceTensor* Find(std::string_view name) const;              // nullptr if absent
  // For the log: how a folder's weights are quantised, and its unused contents. Empty if there is
  // nothing to report.
  const std::string& summary() const { return summary_; }
  const std::string& warning() const { return warning_; }
  // Hashes every tensor in full with XXH3, and combines the hashes in the order of the names. Equal
  // for equal names, types and bytes. Of quantised weights the bytes are those of the file.
  uint64_t Fingerprint() const;

 private:
  using Files = std::variant<std::monostate, GgufFile, SafetensorsCheckpoint>;

  static absl::StatusOr<WeightSource> OpenFolder(const std::string& path,
                                                 const ModelFamily& family);
  WeightSource(std::string path, const ModelFamily& family, Files files,
               std::vector<SourceTensor> tensors);

  std::string path_;
  const ModelFamily* family_;
  Files files_;
  std::vector<SourceTensor> tensors_;
  std::string summary_, warning_;
};

// fp32 values of whole rows of `row_elements` elements, starting with row `first_row`.
// INVALID_ARGUMENT names tensor and element of the first value that is not finite as bf16: with it,
// requests would fail, and the self-check would say only that logits are not finite.
//   values: [num_rows * row_elements]
absl::Status ReadRows(const SourceTensor& tensor, int64_t first_row, int64_t row_elements,
                      std::span<float> values);
// The same for a tensor of type bf16, without a conversion to fp32.
absl::Status CopyRows(const SourceTensor& tensor, int64_t first_row, int64_t row_elements,
                      std::span<kernels::BFloat16> values);

// Whether the file has the tensor as codes, which ReadCodes gives.
bool HasCodes(const SourceTensor& tensor);
// Whether the codes are E4M3, one for each weight.
bool HasFp8Codes(const SourceTensor& tensor);
// How many weights the file has as codes.
uint64_t NumCodes(const WeightSource& source);
// The whole matrix. Its values are those of ReadRows, rounded to bf16, but 0 is always +0.
// INVALID_ARGUMENT names the tensor.
absl::StatusOr<kernels::QuantizedMatrix> ReadCodes(const SourceTensor& tensor);

}  // namespace lockstep::worker
