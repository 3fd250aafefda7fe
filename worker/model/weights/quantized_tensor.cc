#include "worker/model/weights/quantized_tensor.h"

#include <algorithm>

#include "common/hash.h"
#include "common/status.h"
#include "kernels/formats/checkpoint/decode_weight.h"

namespace lockstep::worker {
namespace {

// Everything that alters the values.
std::string TextOf(const WeightScheme& scheme) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", WeightFormatName(scheme.format), scheme.bits,
                     scheme.symmetric, static_cast<int>(scheme.extent), scheme.group_size,
                     scheme.block_rows, scheme.block_columns, scheme.act_order,
                     scheme.zeros_minus_one);
}

}  // namespace

std::shared_ptr<DecodedMatrices::Entry> DecodedMatrices::EntryOf(const QuantizedTensor& tensor) {
  const MutexLock lock(mutex_);
  auto found = std::ranges::find_if(recent_, [&](const auto& e) { return e.first == &tensor; });
  if (found == recent_.end()) {
    if (recent_.size() == kMaxMatrices) recent_.pop_back();
    found = recent_.insert(recent_.end(), {&tensor, std::make_shared<Entry>()});
  }
  std::rotate(recent_.begin(), found, found + 1);
  return recent_.front().second;
}

absl::StatusOr<DecodedMatrices::Matrix> DecodedMatrices::Get(const QuantizedTensor& tensor) {
  const std::shared_ptr<Entry> entry = EntryOf(tensor);
  const MutexLock lock(entry->mutex);
  if (!entry->matrix.has_value()) {
    absl::StatusOr<kernels::QuantizedMatrix> matrix = tensor.Decode();
    if (matrix.ok()) {
      entry->matrix = std::make_shared<const kernels::QuantizedMatrix>(*std::move(matrix));
    } else {
      entry->matrix = matrix.status();
    }
  }
  return *entry->matrix;
}

QuantizedTensor::QuantizedTensor(std::string module, const WeightScheme& scheme,
                                 std::vector<StoredPart> parts,
                                 std::shared_ptr<DecodedMatrices> decoded)
    : module_(std::move(module)),
      scheme_(scheme),
      parts_(std::move(parts)),
      decoded_(std::move(decoded)) {}

kernels::ModuleTensors QuantizedTensor::Tensors() const {
  return {.module = module_, .find = [this](std::string_view suffix) -> const SafetensorsTensor* {
            const auto found = std::ranges::find(parts_, suffix, &StoredPart::suffix);
            return found == parts_.end() ? nullptr : found->tensor;
          }};
}

absl::StatusOr<kernels::MatrixShape> QuantizedTensor::Shape() const {
  return kernels::ReadShapeOfWeight(Tensors(), scheme_);
}

uint64_t QuantizedTensor::Fingerprint() const {
  uint64_t fingerprint = Hash64(TextOf(scheme_));
  for (const StoredPart& part : parts_) {
    const SafetensorsTensor& tensor = *part.tensor;
    uint64_t label = Hash64(kernels::DescribeTensor(tensor), Hash64(tensor.name));
    fingerprint = CombineHashes(fingerprint, Hash64(tensor.data, label));
  }
  return fingerprint;
}

absl::StatusOr<kernels::QuantizedMatrix> QuantizedTensor::Decode() const {
  LOCKSTEP_ASSIGN_OR_RETURN(const kernels::MatrixShape shape, Shape());
  LOCKSTEP_ASSIGN_OR_RETURN(kernels::QuantizedMatrix matrix,
                            kernels::DecodeWeight(Tensors(), scheme_));
  if (matrix.n == shape.rows && matrix.k == shape.columns) return matrix;
  return InvalidArgument("module {}: the codes are [{}, {}], expected [{}, {}]", module_, matrix.n,
                         matrix.k, shape.rows, shape.columns);
}

absl::Status QuantizedTensor::ReadRows(int64_t first_row,
                                       std::span<kernels::BFloat16> values) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const DecodedMatrices::Matrix matrix, decoded_->Get(*this));
  const auto k = static_cast<size_t>(matrix->k);
  for (size_t at = 0; at + k <= values.size(); at += k, ++first_row) {
    kernels::DequantizeRow(*matrix, first_row, values.data() + at);
  }
  return absl::OkStatus();
}

}  // namespace lockstep::worker
