#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "common/ids.h"
#include "common/sampling_numbers.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/slots/draft_rows.h"
#include "kernels/slots/slot_state.h"

// The sampler on the device. A row's result depends on its logits and its slot's parameters alone.
// sample.h, log_softmax.h and row_reduce.h define it, including the order of operations, ties, NaN
// and infinities. Sums of probabilities, which top_p needs, are integers (multiples of 2^-44), so
// any order of additions gives the same sum. The noise and the scores that it is added to have the
// same bits as on the CPU.
//
// A cluster of 8 blocks works on a row and keeps it in shared memory. So the row is read once, and
// no workspace is needed. All ops here need vocabularies of at most kMaxDeviceVocab tokens
// (INVALID_ARGUMENT otherwise), only enqueue, and are fastest when `logits` is aligned to 16 bytes
// and `row_stride` is a multiple of 4.
namespace lockstep::kernels {

inline constexpr int64_t kMaxDeviceVocab = 393'216;
inline constexpr int64_t kMaxDeviceRows = 65'535;  // of a call: CUDA's limit for the grid
inline constexpr uint32_t kNoCountRow = UINT32_MAX;
inline constexpr uint32_t kMaxDescribedTokens = 20;  // best tokens per row, at most

// SampleParams of one slot. Lists are [begin, begin + count) of SamplerTables' pools; the ids of a
// list are distinct and below the vocabulary size.
struct alignas(16) DeviceSampleParams : SamplingNumbers {
  uint32_t sample_index = 0;
  uint64_t seed = 0;
  uint32_t bias_begin = 0;  // in list_ids and list_values
  uint32_t num_bias = 0;
  uint32_t allowed_begin = 0;
  uint32_t num_allowed = 0;
  uint32_t stop_begin = 0;
  uint32_t num_stop = 0;
  uint32_t count_row = kNoCountRow;  // of token_counts, if the slot has penalties
  uint32_t min_total_tokens = 0;     // stop ids are masked while fewer tokens are known
  uint32_t max_total_tokens = 0;     // the sequence stops once this many tokens are known
  int32_t num_logprobs = -1;         // -1: none, 0: of the sampled token, k: also of the k best
};

struct SamplerTables {
  const DeviceSampleParams* params = nullptr;  // [num_slots]
  const TokenId* list_ids = nullptr;           // pool
  const float* list_values = nullptr;          // pool, beside list_ids
  // 0: the token does not occur in the sequence; n: it does, generated n - 1 times.
  uint32_t* token_counts =
      nullptr;  // [num_count_rows, vocab_size]; null when no slot has penalties
};

enum SampleStatus : uint32_t {
  kSampled = 0,
  kNoTokenLeft = 1,  // every logit is NaN, -inf or masked
  kNotSampled = 2,   // padding, or the slot is not active
  kNotKept = 3,      // only of FinishStep: sampled behind a wrong draft, or behind the end
};

struct SampleRowsParams {
  const float* logits = nullptr;  // [num_rows, vocab_size], not changed
  int64_t row_stride = 0;         // elements
  int64_t num_rows = 0;           // <= kMaxDeviceRows
  int64_t vocab_size = 0;
  const uint32_t* row_slots = nullptr;  // [num_rows], kNoSlot for padding
  DraftRows draft_rows = {};            // of the rows
  // A promise: every active slot among the rows has temperature 0, has no lists except stop ids and
  // no penalties, and masks no stop ids. Gives the same tokens faster.
  bool all_plain_greedy = false;
  // The sampled token's position is position[slot] + 1, and one more for each draft before it.
  // Penalties count these drafts as generated tokens.
  SlotState state = {};
  SamplerTables tables = {};
  TokenId* tokens = nullptr;     // out: [num_rows]; 0 where nothing was sampled
  uint32_t* statuses = nullptr;  // out: [num_rows], SampleStatus
  int32_t* num_best = nullptr;   // out: [num_rows], the slot's num_logprobs, -1 where nothing was
                                 // sampled: what DescribeRows takes. Null: not wanted
};
absl::Status SampleRows(const CudaStream& stream, const SampleRowsParams& params);

// Log-probabilities over the raw logits of a row.
struct RowDescription {
  float logprob = 0.0f;   // of the given token
  uint32_t rank = 0;      // of the given token, from 1; 0: the row was not described
  uint32_t num_best = 0;  // how many of the following are valid
  uint32_t status = 0;    // kSampled, or kNoTokenLeft when every logit is NaN or -inf
  TokenId best_tokens[kMaxDescribedTokens] = {};
  float best_logprobs[kMaxDescribedTokens] = {};
};

struct DescribeRowsParams {
  const float* logits = nullptr;  // [num_rows, vocab_size]
  int64_t row_stride = 0;         // elements
  int64_t num_rows = 0;           // <= kMaxDeviceRows
  int64_t vocab_size = 0;
  const TokenId* tokens = nullptr;  // [num_rows]
  // How many of the best tokens are wanted, at most kMaxDescribedTokens; -1: not even the token's
  // own log-probability (then only rank = 0 is written).
  const int32_t* num_best = nullptr;       // [num_rows]
  RowDescription* descriptions = nullptr;  // out: [num_rows]; device or pinned host memory
};
absl::Status DescribeRows(const CudaStream& stream, const DescribeRowsParams& params);

// Fills a row of token_counts for a sequence that starts in a slot with penalties.
struct CountUpdate {
  uint32_t count_row = 0;
  uint32_t num_known = 0;
  uint32_t num_prompt = 0;    // of the known tokens
  uint32_t token_offset = 0;  // of the first known token in `tokens`
};
struct CountTokensParams {
  const CountUpdate* updates = nullptr;  // [num_updates], distinct rows; device or pinned memory
  const TokenId* tokens = nullptr;       // device or pinned memory
  int64_t num_updates = 0;
  int64_t vocab_size = 0;
  uint32_t* token_counts = nullptr;  // [num_count_rows, vocab_size]
};
absl::Status CountTokens(const CudaStream& stream, const CountTokensParams& params);

}  // namespace lockstep::kernels
