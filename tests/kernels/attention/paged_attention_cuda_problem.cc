#include "tests/kernels/attention/paged_attention_cuda_problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "tests/common/status_matchers.h"
#include "tests/kernels/kv_cache/round_to_codes.h"

namespace lockstep::kernels::attention_test {
namespace {

void WriteCodes(std::span<const BFloat16> head, int token, uint8_t* codes, uint8_t* scales) {
  const uint32_t scale = KvScaleOfHead(head);
  const auto head_dim = static_cast<int>(head.size());
  for (int dim = 0; dim < head_dim; ++dim) {
    codes[DeviceKvCodeOffset(token, dim, head_dim)] = KvCode(head[Size(dim)], scale);
  }
  scales[token] = static_cast<uint8_t>(scale);
}

}  // namespace

Problem::Problem(const Shape& shape, std::vector<int64_t> lengths, Distribution distribution,
                 const std::vector<SharedPrefix>& prefixes)
    : shape_(shape), lengths_(std::move(lengths)) {
  int64_t num_blocks = 3;
  for (const int64_t length : lengths_) {
    first_tokens_.push_back(num_tokens_);
    num_tokens_ += length;
    num_blocks += Blocks(length);
    max_blocks_ = std::max(max_blocks_, Blocks(length));
  }
  query_ = RandomBFloat16s(Size(num_tokens_ * RowElements()), 1, distribution);
  const int64_t kv_elements = num_tokens_ * shape.num_kv_heads * shape.head_dim;
  keys_ = RandomBFloat16s(Size(kv_elements), 2, distribution);
  values_ = RandomBFloat16s(Size(kv_elements), 3, distribution);
  std::vector<BlockId> blocks(Size(num_blocks));
  std::iota(blocks.begin(), blocks.end(), BlockId{0});
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(4));
  tables_.resize(lengths_.size() * Size(max_blocks_), 0xFFFFFFFFu);
  size_t next = 0;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    for (int64_t j = 0; j < Blocks(lengths_[i]); ++j) {
      tables_[i * Size(max_blocks_) + Size(j)] = blocks[next++];
    }
  }
  for (const SharedPrefix& prefix : prefixes) Share(prefix);
  pool_.resize(Size(num_blocks * shape.num_kv_heads * HeadBytes()));
  device_pool_ = std::make_unique<DeviceArray<uint8_t>>(pool_.size());
  device_query_ = std::make_unique<DeviceArray<BFloat16>>(query_);
  FillWhole();
}

void Problem::FillWhole() {
  if (shape_.type == KvType::kFp8) {
    RoundToCodes();
  } else {
    Fill(std::numeric_limits<int64_t>::max());
  }
}

void Problem::RoundToCodes() {
  RoundHeadsToCodes(keys_, Size(shape_.head_dim));
  RoundHeadsToCodes(values_, Size(shape_.head_dim));
  Fill(std::numeric_limits<int64_t>::max());
}

void Problem::RaiseScores(float exponent) {
  for (int64_t i = 0; i < num_tokens_ * shape_.num_heads; ++i) {
    query_[Size(i * shape_.head_dim)] = ToBFloat16(1.0f);
  }
  const float key_of_one_power = 1.0f / (scale() * 1.44269504f);
  for (int64_t sequence = 0; sequence < std::ssize(lengths_); ++sequence) {
    for (int64_t i = 0; i < length(sequence) * shape_.num_kv_heads; ++i) {
      const float tile = static_cast<float>(i / shape_.num_kv_heads / kKeyTile);
      const int64_t row = Token(sequence, 0) * shape_.num_kv_heads + i;
      keys_[Size(row * shape_.head_dim)] = ToBFloat16(exponent * tile * key_of_one_power);
    }
  }
  device_query_->Write(query_);
  FillWhole();
}

void Problem::Fill(int64_t max_tokens) {
  std::ranges::fill(pool_, uint8_t{0xFF});
  for (size_t sequence = 0; sequence < lengths_.size(); ++sequence) {
    for (int64_t i = 0; i < std::min(lengths_[sequence], max_tokens); ++i) {
      WriteToken(static_cast<int64_t>(sequence), i);
    }
  }
  device_pool_->Write(pool_);
}

std::unique_ptr<Problem::DecodeCall> Problem::MakeDecodeCall(size_t num_rows) const {
  const auto rows = static_cast<int64_t>(num_rows);
  const int64_t max_keys = max_blocks_ * kKvBlockTokens;
  auto call = std::make_unique<DecodeCall>(
      DecodeCall{.rows = {},
                 .query = DeviceArray<BFloat16>(Size(rows * RowElements())),
                 .output = DeviceArray<BFloat16>(Size(rows * RowElements())),
                 .positions = DeviceArray<uint32_t>(num_rows),
                 .tables = DeviceArray<BlockId>(Size(rows * max_blocks_)),
                 .plan = DeviceArray<int32_t>(Size(DecodePlanElements(rows))),
                 .partials = DeviceArray<float>(Size(DecodePartialElements(
                     rows, shape_.num_heads, shape_.num_kv_heads, shape_.head_dim, max_keys))),
                 .arrivals = DeviceArray<uint32_t>(std::vector<uint32_t>(
                     Size(DecodeArrivalElements(rows, shape_.num_kv_heads)), 0)),
                 .params = {}});
  call->params = {.query = call->query.data(),
                  .query_stride = RowElements(),
                  .output = call->output.data(),
                  .output_stride = RowElements(),
                  .kv = Kv(),
                  .num_heads = shape_.num_heads,
                  .scale = scale(),
                  .num_rows = rows,
                  .positions = call->positions.data(),
                  .block_tables = call->tables.data(),
                  .block_table_stride = max_blocks_,
                  .max_keys = max_keys,
                  .may_share = true,
                  .plan = call->plan.data(),
                  .partials = call->partials.data(),
                  .arrivals = call->arrivals.data()};
  return call;
}

void Problem::SetRows(const std::vector<Row>& rows, DecodeCall& call) const {
  std::vector<uint32_t> positions;
  std::vector<BlockId> tables;
  std::vector<BFloat16> query;
  for (const Row& row : rows) {
    if (row.sequence < 0) {
      positions.push_back(kNoPosition);
      tables.insert(tables.end(), Size(max_blocks_), 0xFFFFFFFFu);
      query.insert(query.end(), Size(RowElements()), ToBFloat16(kNaN));
      continue;
    }
    positions.push_back(static_cast<uint32_t>(row.position));
    const auto table = tables_.begin() + row.sequence * max_blocks_;
    tables.insert(tables.end(), table, table + max_blocks_);
    const auto from = query_.begin() + Token(row.sequence, row.position) * RowElements();
    query.insert(query.end(), from, from + RowElements());
  }
  call.rows = rows;
  call.positions.Write(positions);
  call.tables.Write(tables);
  call.query.Write(query);
}

std::vector<BFloat16> Problem::ReadOutputs(const DecodeCall& call) const {
  const std::vector<BFloat16> output = call.output.Read();
  call.output.ExpectGuardsIntact();
  call.plan.ExpectGuardsIntact();
  call.partials.ExpectGuardsIntact();
  for (const uint32_t count : call.arrivals.Read()) EXPECT_EQ(count, 0u);
  std::vector<BFloat16> by_token(query_.size(), ToBFloat16(kNaN));
  for (size_t i = 0; i < call.rows.size(); ++i) {
    const Row& row = call.rows[i];
    const auto from = output.begin() + static_cast<int64_t>(i) * RowElements();
    if (row.sequence < 0) {
      EXPECT_TRUE(
          std::all_of(from, from + RowElements(), [](BFloat16 value) { return value.bits == 0; }));
      continue;
    }
    std::copy(from, from + RowElements(),
              by_token.begin() + Token(row.sequence, row.position) * RowElements());
  }
  return by_token;
}

std::vector<BFloat16> Problem::Decode(const CudaStream& stream,
                                      const std::vector<Row>& rows) const {
  std::vector<BFloat16> outputs[2];
  for (const bool may_share : {false, true}) {
    const auto call = MakeDecodeCall(rows.size());
    SetRows(rows, *call);
    call->params.may_share = may_share;
    EXPECT_THAT(PlanPagedDecode(stream, call->params), IsOk());
    EXPECT_THAT(PagedDecodeAttention(stream, call->params), IsOk());
    outputs[may_share] = ReadOutputs(*call);
  }
  EXPECT_TRUE(IsSameBits(outputs[1], outputs[0])) << "rows that share keys";
  return outputs[0];
}

std::unique_ptr<Problem::PrefillCall> Problem::MakePrefillCall(
    const CudaStream& stream, const std::vector<Part>& parts) const {
  std::vector<AttentionChunk> chunks;
  for (const Part& part : parts) {
    chunks.push_back({.first_token = static_cast<uint32_t>(Token(part.sequence, part.begin)),
                      .num_tokens = static_cast<uint32_t>(part.end - part.begin),
                      .first_position = static_cast<uint32_t>(part.begin),
                      .block_table_row = static_cast<uint32_t>(part.sequence)});
  }
  const PrefillPlanner planner(shape_.num_heads, shape_.num_kv_heads, shape_.head_dim,
                               stream.num_multiprocessors);
  std::vector<PrefillTile> tiles(Size(planner.MaxTiles(num_tokens_, std::ssize(chunks))));
  const PrefillPlan plan = planner.Plan(chunks, tiles);
  auto call = std::make_unique<PrefillCall>(
      PrefillCall{.chunks = DeviceArray<AttentionChunk>(chunks),
                  .tiles = DeviceArray<PrefillTile>(tiles),
                  .tables = DeviceArray<BlockId>(tables_),
                  .output = DeviceArray<BFloat16>(query_.size()),
                  .scratch = DeviceArray<float>(Size(planner.ScratchElements())),
                  .params = {}});
  call->params = {.query = device_query_->data(),
                  .query_stride = RowElements(),
                  .output = call->output.data(),
                  .output_stride = RowElements(),
                  .kv = Kv(),
                  .num_heads = shape_.num_heads,
                  .scale = scale(),
                  .chunks = call->chunks.data(),
                  .tiles = call->tiles.data(),
                  .num_tiles = plan.num_tiles,
                  .tile_rows = plan.tile_rows,
                  .block_tables = call->tables.data(),
                  .block_table_stride = max_blocks_,
                  .scratch = call->scratch.data()};
  return call;
}

std::vector<BFloat16> Problem::ReadOutputs(const PrefillCall& call) {
  std::vector<BFloat16> output = call.output.Read();
  call.output.ExpectGuardsIntact();
  call.scratch.ExpectGuardsIntact();
  return output;
}

std::vector<BFloat16> Problem::Prefill(const CudaStream& stream,
                                       const std::vector<Part>& parts) const {
  const auto call = MakePrefillCall(stream, parts);
  EXPECT_THAT(PagedPrefillAttention(stream, call->params), IsOk());
  return ReadOutputs(*call);
}

std::vector<BFloat16> Problem::PrefillAll(const CudaStream& stream) const {
  std::vector<Part> parts;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    parts.push_back({static_cast<int64_t>(i), 0, lengths_[i]});
  }
  return Prefill(stream, parts);
}

::testing::AssertionResult Problem::IsSameAt(const std::vector<BFloat16>& actual,
                                             const std::vector<BFloat16>& expected,
                                             const Part& part) const {
  const size_t first = Size(Token(part.sequence, part.begin) * RowElements());
  const size_t count = Size((part.end - part.begin) * RowElements());
  return IsSameBits(std::span(actual).subspan(first, count),
                    std::span(expected).subspan(first, count));
}

// The tolerance follows the roundings: head_dim products per score, each truncated by the matrix
// unit; a relative error of the weights of twice that of the scores, and one of 2^-8 because they
// are rounded to bf16; as many additions as keys; one rounding to bf16.
::testing::AssertionResult Problem::IsClose(const std::vector<BFloat16>& output,
                                            const Row& row) const {
  const int64_t dims = shape_.head_dim;
  const int64_t token = Token(row.sequence, row.position);
  std::vector<double> expected;
  std::vector<double> tolerance;
  for (int64_t head = 0; head < shape_.num_heads; ++head) {
    const int64_t kv_head = head / (shape_.num_heads / shape_.num_kv_heads);
    const auto kv_row = [&](const std::vector<BFloat16>& tensor, int64_t key) {
      return tensor.data() + (Token(row.sequence, key) * shape_.num_kv_heads + kv_head) * dims;
    };
    const BFloat16* query = query_.data() + (token * shape_.num_heads + head) * dims;
    std::vector<double> weights;
    double error = 0.0;
    for (int64_t key = 0; key <= row.position; ++key) {
      double score = 0.0;
      double magnitude = 0.0;
      for (int64_t i = 0; i < dims; ++i) {
        const double product =
            static_cast<double>(ToFloat(query[i])) * ToFloat(kv_row(keys_, key)[i]);
        score += product;
        magnitude += std::abs(product);
      }
      weights.push_back(score * scale());
      error = std::max(error, static_cast<double>(dims + 16) * 0x1p-23 * magnitude * scale());
    }
    const double max = *std::max_element(weights.begin(), weights.end());
    double sum = 0.0;
    for (double& weight : weights) sum += weight = std::exp(weight - max);
    const double relative =
        2.0 * error + 0x1p-8 + static_cast<double>(weights.size() + 16) * 0x1p-23;
    for (int64_t i = 0; i < dims; ++i) {
      double value = 0.0;
      double magnitude = 0.0;
      for (size_t key = 0; key < weights.size(); ++key) {
        const double term =
            weights[key] / sum * ToFloat(kv_row(values_, static_cast<int64_t>(key))[i]);
        value += term;
        magnitude += std::abs(term);
      }
      expected.push_back(value);
      // What fp32 has no normal number for may be lost.
      tolerance.push_back(std::abs(value) * 0x1p-8 + magnitude * relative * 1.01 + 0x1p-126);
    }
  }
  const std::vector<float> actual =
      ToFloats(std::span(output).subspan(Size(token * RowElements()), Size(RowElements())));
  return IsWithin(actual, expected, tolerance);
}

void Problem::Share(const SharedPrefix& prefix) {
  const int64_t token_elements = shape_.num_kv_heads * shape_.head_dim;
  for (std::vector<BFloat16>* tensor : {&keys_, &values_}) {
    std::copy_n(tensor->begin() + Token(prefix.of, 0) * token_elements,
                prefix.num_tokens * token_elements,
                tensor->begin() + Token(prefix.sequence, 0) * token_elements);
  }
  std::copy_n(tables_.begin() + prefix.of * max_blocks_, prefix.num_tokens / kKvBlockTokens,
              tables_.begin() + prefix.sequence * max_blocks_);
}

PagedKv Problem::Kv() const {
  return {.data = device_pool_->data(),
          .num_blocks = static_cast<int64_t>(pool_.size()) / (shape_.num_kv_heads * HeadBytes()),
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .type = shape_.type};
}

int64_t Problem::HeadBytes() const { return DeviceKvHeadBytes(shape_.type, shape_.head_dim); }

void Problem::WriteToken(int64_t sequence, int64_t position) {
  PagedKv kv = Kv();
  kv.data = pool_.data();
  const BlockId block = tables_[Size(sequence * max_blocks_ + position / kKvBlockTokens)];
  for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
    const int64_t from = (Token(sequence, position) * shape_.num_kv_heads + head) * shape_.head_dim;
    const auto token = static_cast<int>(position % kKvBlockTokens);
    if (shape_.type == KvType::kFp8) {
      const auto head_of = [&](const std::vector<BFloat16>& tensor) {
        return std::span(tensor).subspan(Size(from), Size(shape_.head_dim));
      };
      WriteCodes(head_of(keys_), token, DeviceKeyCodes(kv, block, head),
                 DeviceKeyScales(kv, block, head));
      WriteCodes(head_of(values_), token, DeviceValueCodes(kv, block, head),
                 DeviceValueScales(kv, block, head));
      continue;
    }
    for (int64_t dim = 0; dim < shape_.head_dim; ++dim) {
      const int offset =
          DeviceKvOffset(token, static_cast<int>(dim), static_cast<int>(shape_.head_dim));
      DeviceKeys(kv, block, head)[offset] = keys_[Size(from + dim)];
      DeviceValues(kv, block, head)[offset] = values_[Size(from + dim)];
    }
  }
}

}  // namespace lockstep::kernels::attention_test
