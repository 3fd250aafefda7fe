#include "kernels/formats/packed_pieces.h"

#include "common/status.h"
#include "kernels/formats/stack_rows.h"

namespace lockstep::kernels {
namespace {

// The first parts that have codes of one kind, and scales of the same levels.
std::span<const QuantizedMatrix> FirstRun(std::span<const QuantizedMatrix> parts) {
  size_t count = 1;
  while (count < parts.size() && parts[count].kind == parts[0].kind &&
         HasSameLevels(parts[count], parts[0])) {
    ++count;
  }
  return parts.first(count);
}

}  // namespace

absl::Status AddPieces(std::span<const QuantizedMatrix> parts,
                       absl::FunctionRef<absl::Status(const QuantizedMatrix&)> add) {
  while (!parts.empty()) {
    const std::span<const QuantizedMatrix> run = FirstRun(parts);
    parts = parts.subspan(run.size());
    if (run.size() > 1) {
      const absl::StatusOr<QuantizedMatrix> stacked = StackRows(run);
      const absl::Status status = stacked.ok() ? add(*stacked) : stacked.status();
      if (status.ok()) continue;
      if (!absl::IsInvalidArgument(status)) return status;
    }
    for (const QuantizedMatrix& part : run) LOCKSTEP_RETURN_IF_ERROR(add(part));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
