#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/device/cuda_stream.h"

// Fills and checks the matrices of a test of exchanges on the device, so that many rounds need no
// word from the host. Every word of every round has another value.
namespace lockstep::testing {

struct ExchangeRound {
  uint32_t* round = nullptr;    // device memory: number of the round
  uint32_t* columns = nullptr;  // [num_rows, row_words], of this rank
  uint32_t* output = nullptr;   // [num_rows, degree * row_words]
  int64_t num_rows = 0;
  int64_t row_words = 0;  // of one rank's columns
  int rank = 0;
  int degree = 0;
  uint64_t* num_wrong = nullptr;  // device memory
};

absl::Status FillColumns(const kernels::CudaStream& stream, const ExchangeRound& round);
// Adds the number of wrong words of `output` to num_wrong, and one to the number of the round.
absl::Status CheckOutput(const kernels::CudaStream& stream, const ExchangeRound& round);

}  // namespace lockstep::testing
