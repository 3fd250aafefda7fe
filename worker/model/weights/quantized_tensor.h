#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/model_files/quantization/quantization_config.h"
#include "common/model_files/safetensors.h"
#include "common/runtime/mutex.h"
#include "kernels/core/bfloat16.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/tensor_checks.h"

namespace lockstep::worker {

class QuantizedTensor;

// The matrices that were decoded last, one byte a weight. Loading reads a matrix in many pieces on
// many threads, and the ranks of a CUDA worker read different matrices at the same time. Any thread
// may call it.
class DecodedMatrices {
 public:
  using Matrix = std::shared_ptr<const kernels::QuantizedMatrix>;

  // Decodes unless the matrix is here. Threads that want the same matrix wait for the first.
  absl::StatusOr<Matrix> Get(const QuantizedTensor& tensor);

 private:
  static constexpr size_t kMaxMatrices = 4;

  struct Entry {
    Mutex mutex;
    std::optional<absl::StatusOr<Matrix>> matrix ABSL_GUARDED_BY(mutex);
  };
  std::shared_ptr<Entry> EntryOf(const QuantizedTensor& tensor);

  Mutex mutex_;
  // The last used entry comes first.
  std::vector<std::pair<const QuantizedTensor*, std::shared_ptr<Entry>>> recent_
      ABSL_GUARDED_BY(mutex_);
};

// A tensor of a module in the checkpoint.
struct StoredPart {
  std::string suffix;               // "weight_scale"
  const SafetensorsTensor* tensor;  // outlives this
};

// The weights of a linear module, which the checkpoint stores as codes in some layout
// (docs/formats.md). Rows become bf16 when they are read. Any thread may read.
class QuantizedTensor {
 public:
  QuantizedTensor(std::string module, const WeightScheme& scheme, std::vector<StoredPart> parts,
                  std::shared_ptr<DecodedMatrices> decoded);

  const WeightScheme& scheme() const { return scheme_; }
  // {N, K}, without decoding. INVALID_ARGUMENT names the tensor that is missing or has no shape of
  // a matrix.
  absl::StatusOr<kernels::MatrixShape> Shape() const;
  // Hashes the scheme, and names, types, shapes and bytes of the parts.
  uint64_t Fingerprint() const;
  absl::StatusOr<kernels::QuantizedMatrix> Decode() const;
  // Whole rows of K values. INVALID_ARGUMENT names the tensor that does not fit the scheme.
  absl::Status ReadRows(int64_t first_row, std::span<kernels::BFloat16> values) const;

 private:
  kernels::ModuleTensors Tensors() const;

  const std::string module_;
  const WeightScheme scheme_;
  const std::vector<StoredPart> parts_;
  const std::shared_ptr<DecodedMatrices> decoded_;
};

}  // namespace lockstep::worker
