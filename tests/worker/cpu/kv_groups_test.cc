// Models whose layers differ: each KV group has a pool and block tables of its own, and each kind
// of layers its rotation.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/small_config.h"
#include "worker/cpu/model.h"
#include "worker/model/rotation.h"
#include "worker/model/weights/load_weights.h"
#include "worker/model/weights/weight_plan.h"
#include "worker/model/weights/weight_source.h"

namespace lockstep::worker {
namespace {

constexpr uint32_t kMaxTokens = 64;
constexpr BlockId kNoBlock = std::numeric_limits<BlockId>::max();
using BlockTables = std::vector<std::vector<BlockId>>;

// With random weights, which depend on names and sizes only, and pools that hold NaN.
std::unique_ptr<CpuModel> MakeModel(const ModelConfig& config, std::vector<KvGroupInfo> kv_groups) {
  const ModelPlan plan = PlanOf(config);
  const WeightSource source = WeightSource::Random("a shape", *config.family, plan, /*seed=*/5);
  auto weights = PlanWeights(plan, source);
  EXPECT_THAT(weights, IsOk());
  kernels::ThreadPool threads(2);
  EXPECT_THAT(RunLoadTasks(weights->tasks, threads, nullptr), IsOk());
  auto pool = CpuKvPool::Create(plan.kv_groups, kv_groups);
  EXPECT_THAT(pool, IsOk());
  std::ranges::fill(pool->bytes(), std::byte{0xFF});
  auto workspace = Workspace::Create(plan, {}, kMaxTokens, kMaxTokens);
  EXPECT_THAT(workspace, IsOk());
  ForwardModelInfo info;
  info.vocab_size = config.vocab_size;
  info.max_context_tokens = config.max_context_tokens;
  info.max_step_tokens = kMaxTokens;
  info.max_logits_rows = kMaxTokens;
  info.kv_groups = std::move(kv_groups);
  CpuModelParts parts = {.plan = plan,
                         .ropes = MakeRotations(plan),
                         .instruction_set = kernels::BestInstructionSet(),
                         .info = std::move(info)};
  parts.ranks.push_back({.rank = {},
                         .share = plan,
                         .weights = std::move(weights->weights),
                         .kv_pool = *std::move(pool),
                         .workspace = *std::move(workspace),
                         .threads = std::make_unique<kernels::ThreadPool>(2)});
  return std::make_unique<CpuModel>(std::move(parts));
}

// Logits of all tokens of one sequence, fed in steps of `step_length`. `tables_at` gives the tables
// of the step that begins at a position.
std::vector<float> LogitsOf(CpuModel& model, uint32_t num_tokens,
                            const std::function<BlockTables(uint32_t position)>& tables_at,
                            uint32_t step_length) {
  const uint32_t vocab_size = model.info().vocab_size;
  std::vector<TokenId> tokens(num_tokens);
  for (uint32_t i = 0; i < num_tokens; ++i) tokens[i] = (7 + 31 * i) % vocab_size;
  std::vector<float> logits(size_t{num_tokens} * vocab_size);
  for (uint32_t position = 0; position < num_tokens; position += step_length) {
    const uint32_t length = std::min(step_length, num_tokens - position);
    std::vector<uint32_t> wanted(length);
    std::iota(wanted.begin(), wanted.end(), 0u);
    const BlockTables block_tables = tables_at(position);
    const ForwardRow row = {
        .num_tokens = length, .first_position = position, .block_tables = block_tables};
    model.Forward(
        {.token_ids = std::span(tokens).subspan(position, length),
         .rows = {&row, 1},
         .logits_tokens = wanted},
        std::span(logits).subspan(size_t{position} * vocab_size, size_t{length} * vocab_size));
  }
  return logits;
}

std::vector<float> LogitsOf(CpuModel& model, uint32_t num_tokens, const BlockTables& block_tables,
                            uint32_t step_length) {
  return LogitsOf(model, num_tokens, [&](uint32_t) { return block_tables; }, step_length);
}

// Layers 0 and 2 have a window, layers 1 and 3 read all tokens.
ModelConfig LocalAndGlobalLayers(uint32_t window_tokens) {
  ModelConfig config = SmallConfig();
  config.num_layers = 4;
  config.layer_kinds = {{.window_tokens = window_tokens, .rope = {}},
                        {.window_tokens = 0, .rope = {}}};
  config.kind_of_layer = {0, 1, 0, 1};
  return config;
}

std::vector<KvGroupInfo> OneGroup() { return {{.num_blocks = 6, .dtype = "bf16"}}; }

std::vector<KvGroupInfo> TwoGroups(uint32_t window_tokens) {
  return {{.num_blocks = 6, .dtype = "bf16"},
          {.num_blocks = 3, .window_tokens = window_tokens, .dtype = "bf16"}};
}

TEST(KvGroupsTest, WithinTheWindowGroupsGiveTheBitsOfOneGroup) {
  ModelConfig alike = LocalAndGlobalLayers(40);
  alike.layer_kinds.clear();
  alike.kind_of_layer.clear();
  const auto one = MakeModel(alike, OneGroup());
  const std::vector<float> expected = LogitsOf(*one, 40, {{5, 0, 3}}, 40);
  ASSERT_TRUE(IsFinite(expected));
  const auto two = MakeModel(LocalAndGlobalLayers(40), TwoGroups(40));
  const BlockTables tables = {{1, 5, 2}, {2, 0, 1}};
  EXPECT_TRUE(IsSameBits(LogitsOf(*two, 40, tables, 40), expected));
  EXPECT_TRUE(IsSameBits(LogitsOf(*two, 40, tables, 7), expected));
  EXPECT_TRUE(IsSameBits(LogitsOf(*two, 40, tables, 1), expected));
}

// A table whose blocks come back once they lie behind the window, from a pool of three.
std::vector<BlockId> RecycledTable(uint32_t num_tokens, uint32_t position, uint32_t window_tokens) {
  std::vector<BlockId> table;
  for (uint32_t end = 16; end < num_tokens + 16; end += 16) {
    const bool is_behind = position >= window_tokens && end <= position + 1 - window_tokens;
    table.push_back(is_behind ? kNoBlock : (end / 16) % 3);
  }
  return table;
}

TEST(KvGroupsTest, APoolNeedsNoMoreThanTheWindow) {
  constexpr uint32_t kWindow = 16, kTokens = 60;
  std::vector<KvGroupInfo> all = TwoGroups(kWindow);
  all[1].num_blocks = 4;
  const auto roomy = MakeModel(LocalAndGlobalLayers(kWindow), all);
  const std::vector<float> expected =
      LogitsOf(*roomy, kTokens, {{5, 0, 3, 2}, {3, 0, 1, 2}}, kTokens);
  ASSERT_TRUE(IsFinite(expected));
  const auto model = MakeModel(LocalAndGlobalLayers(kWindow), TwoGroups(kWindow));
  for (const uint32_t step_length : {16u, 7u, 1u}) {
    const auto tables_at = [](uint32_t position) -> BlockTables {
      return {{1, 5, 2, 4}, RecycledTable(kTokens, position, kWindow)};
    };
    EXPECT_TRUE(IsSameBits(LogitsOf(*model, kTokens, tables_at, step_length), expected))
        << step_length;
  }
}

// Whichever group the layers are in.
TEST(KvGroupsTest, ATokenReadsTheWindowAndNoMore) {
  constexpr uint32_t kWindow = 16, kTokens = 40;
  ModelConfig config = LocalAndGlobalLayers(0);
  const std::vector<float> unlimited =
      LogitsOf(*MakeModel(config, OneGroup()), kTokens, {{0, 1, 2}}, kTokens);
  config = LocalAndGlobalLayers(kWindow);
  const std::vector<float> mixed =
      LogitsOf(*MakeModel(config, TwoGroups(kWindow)), kTokens, {{0, 1, 2}, {2, 1, 0}}, kTokens);
  config.kind_of_layer.clear();
  const std::vector<float> windows_only =
      LogitsOf(*MakeModel(config, OneGroup()), kTokens, {{0, 1, 2}}, kTokens);
  const size_t within = size_t{kWindow} * config.vocab_size;
  for (const std::vector<float>& logits : {mixed, windows_only}) {
    ASSERT_TRUE(IsFinite(logits));
    EXPECT_TRUE(IsSameBits(std::span(logits).first(within), std::span(unlimited).first(within)));
    EXPECT_FALSE(IsSameBits(std::span(logits).subspan(within, config.vocab_size),
                            std::span(unlimited).subspan(within, config.vocab_size)));
  }
  EXPECT_FALSE(IsSameBits(mixed, windows_only));
}

TEST(KvGroupsTest, RowsOfABatchHaveTablesInEveryGroup) {
  const auto model = MakeModel(LocalAndGlobalLayers(40), TwoGroups(40));
  const std::vector<TokenId> tokens = {3, 9, 4, 11, 2, 30};
  const BlockTables first = {{4}, {1}}, second = {{0}, {2}};
  const std::vector<ForwardRow> rows = {
      {.first_token = 0, .num_tokens = 2, .block_tables = first},
      {.first_token = 2, .num_tokens = 4, .block_tables = second}};
  const std::vector<uint32_t> wanted = {1, 5};
  std::vector<float> together(2 * 70), alone(2 * 70);
  model->Forward({.token_ids = tokens, .rows = rows, .logits_tokens = wanted}, together);
  const auto run_alone = [&](const ForwardRow& row, std::span<float> logits) {
    ForwardRow moved = row;
    moved.first_token = 0;
    const uint32_t last = row.num_tokens - 1;
    model->Forward({.token_ids = std::span(tokens).subspan(row.first_token, row.num_tokens),
                    .rows = {&moved, 1},
                    .logits_tokens = {&last, 1}},
                   logits);
  };
  run_alone(rows[0], std::span(alone).first(70));
  run_alone(rows[1], std::span(alone).last(70));
  EXPECT_TRUE(IsFinite(together));
  EXPECT_TRUE(IsSameBits(together, alone));
}

TEST(KvGroupsTest, EveryKindOfLayersHasItsRotation) {
  const auto logits_with = [](double first_theta, double second_theta) {
    ModelConfig config = LocalAndGlobalLayers(0);
    config.layer_kinds[0].rope.theta = first_theta;
    config.layer_kinds[1].rope.theta = second_theta;
    const auto model = MakeModel(config, OneGroup());
    const std::vector<float> logits = LogitsOf(*model, 40, {{0, 1, 2}}, 40);
    EXPECT_TRUE(IsSameBits(LogitsOf(*model, 40, {{3, 4, 5}}, 9), logits));
    return logits;
  };
  const std::vector<float> mixed = logits_with(1e4, 1e2);
  EXPECT_FALSE(IsSameBits(mixed, logits_with(1e4, 1e4)));
  EXPECT_FALSE(IsSameBits(mixed, logits_with(1e2, 1e2)));
  EXPECT_FALSE(IsSameBits(mixed, logits_with(1e2, 1e4)));
}

}  // namespace
}  // namespace lockstep::worker
