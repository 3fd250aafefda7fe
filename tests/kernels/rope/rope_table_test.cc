#include "kernels/rope/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lockstep::kernels {
namespace {

// Expected frequencies and factors: transformers 5.23, LlamaRotaryEmbedding.inv_freq and
// attention_scaling for the same parameters.
void ExpectFrequencies(const RopeConfig& config, const std::vector<float>& expected,
                       float attention_factor) {
  const RopeFrequencies frequencies =
      ComputeRopeFrequencies(config, static_cast<uint32_t>(2 * expected.size()));
  ASSERT_EQ(frequencies.inverse.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(frequencies.inverse[i], expected[i], expected[i] * 1e-6) << i;
  }
  EXPECT_FLOAT_EQ(frequencies.attention_factor, attention_factor);
}

TEST(RopeFrequenciesTest, Default) {
  ExpectFrequencies({.theta = 10000.0},
                    {1.0f, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00999999978f,
                     0.00316227786f, 0.00100000005f, 0.000316227786f},
                    1.0f);
}

TEST(RopeFrequenciesTest, Linear) {
  RopeConfig config;
  config.scaling = RopeScalingKind::kLinear;
  config.factor = 4.0;
  ExpectFrequencies(config,
                    {0.25f, 0.079056941f, 0.0250000004f, 0.00790569466f, 0.00249999994f,
                     0.000790569466f, 0.000250000012f, 7.90569466e-05f},
                    1.0f);
}

TEST(RopeFrequenciesTest, Llama3KeepsBlendsAndDivides) {
  RopeConfig config;
  config.theta = 500000.0;
  config.scaling = RopeScalingKind::kLlama3;
  config.factor = 8.0;
  config.original_max_positions = 8192;
  ExpectFrequencies(
      config,
      {1.0f, 0.440366626f, 0.193922758f, 0.0853971019f, 0.0376060307f, 0.0165604409f,
       0.00729266508f, 0.00321144611f, 0.000524846022f, 7.78465546e-05f, 3.42810235e-05f,
       1.50962178e-05f, 6.64786967e-06f, 2.92749974e-06f, 1.28917316e-06f, 5.6770881e-07f},
      1.0f);
}

TEST(RopeFrequenciesTest, DivisorsReplaceTheLlama3Formula) {
  RopeConfig config;
  config.scaling = RopeScalingKind::kLlama3;
  config.frequency_divisors = {1.0f, 2.0f, 8.0f, 8.0f};
  ExpectFrequencies(config, {1.0f, 0.05f, 0.00125f, 0.000125f}, 1.0f);
}

TEST(RopeFrequenciesTest, Yarn) {
  RopeConfig config;
  config.scaling = RopeScalingKind::kYarn;
  config.factor = 4.0;
  config.original_max_positions = 2048;
  ExpectFrequencies(config,
                    {1.0f, 0.316227764f, 0.100000001f, 0.025693506f, 0.00624999963f, 0.00138349656f,
                     0.000250000012f, 7.90569466e-05f},
                    1.138629436f);
}

TEST(RopeFrequenciesTest, YarnWithEveryParameterGiven) {
  RopeConfig config;
  config.theta = 1000000.0;
  config.scaling = RopeScalingKind::kYarn;
  config.factor = 4.0;
  config.original_max_positions = 2048;
  config.yarn_beta_fast = 16.0;
  config.yarn_beta_slow = 2.0;
  config.yarn_attention_factor = 1.25;
  config.yarn_truncate = false;
  ExpectFrequencies(config,
                    {1.0f, 0.177827939f, 0.0266074985f, 0.00140585331f, 0.000250000012f,
                     4.44569851e-05f, 7.90569356e-06f, 1.40585337e-06f},
                    1.25f);
}

TEST(RopeFrequenciesTest, YarnWithTwoMagnitudeScales) {
  RopeConfig config;
  config.scaling = RopeScalingKind::kYarn;
  config.factor = 40.0;
  config.original_max_positions = 4096;
  config.yarn_mscale = 0.707;
  config.yarn_mscale_all_dim = 1.3;
  ExpectFrequencies(config,
                    {1.0f, 0.316227764f, 0.100000001f, 0.0239147246f, 0.00512499968f,
                     0.000849862176f, 2.49999994e-05f, 7.90569447e-06f},
                    0.8521510516f);
}

TEST(RopeTableTest, HoldsCosAndSinTimesTheFactor) {
  const RopeFrequencies frequencies = {.inverse = {1.0f, 0.25f}, .attention_factor = 1.5f};
  const RopeTable table = MakeRopeTable(frequencies, 40);
  ASSERT_EQ(table.cos.size(), 80u);
  ASSERT_EQ(table.sin.size(), 80u);
  for (uint32_t position = 0; position < 40; ++position) {
    EXPECT_NEAR(table.cos[2 * position], 1.5 * std::cos(position), 1e-6);
    EXPECT_NEAR(table.sin[2 * position], 1.5 * std::sin(position), 1e-6);
    EXPECT_NEAR(table.cos[2 * position + 1], 1.5 * std::cos(position * 0.25), 1e-6);
    EXPECT_NEAR(table.sin[2 * position + 1], 1.5 * std::sin(position * 0.25), 1e-6);
  }
}

}  // namespace
}  // namespace lockstep::kernels
