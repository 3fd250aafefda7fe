#include <cstring>

#include "common/check.h"
#include "kernels/embedding/gather_rows.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kMinRowsToShare = 64;

}  // namespace

absl::Status GatherRows(const Stream& stream, const GatherRowsParams& params) {
  const size_t row_bytes = static_cast<size_t>(params.size) * sizeof(BFloat16);
  ParallelRanges(stream, params.num_rows, kMinRowsToShare, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = params.indices[i];
      if (index == kNoRow) {
        std::memset(params.output + i * params.size, 0, row_bytes);
        continue;
      }
      LOCKSTEP_CHECK(index < params.num_table_rows, "gather: index {} of a table of {} rows", index,
                     params.num_table_rows);
      std::memcpy(params.output + i * params.size, params.table + index * params.size, row_bytes);
    }
  });
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
