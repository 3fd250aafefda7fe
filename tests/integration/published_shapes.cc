#include "tests/integration/published_shapes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::testing {

ModelCase Qwen3Shape(const std::string& name, int hidden_size, int intermediate_size, int num_heads,
                     int head_dim) {
  const nlohmann::json config = {{"architectures", {"Qwen3ForCausalLM"}},
                                 {"model_type", "qwen3"},
                                 {"dtype", "bfloat16"},
                                 {"vocab_size", 151936},
                                 {"hidden_size", hidden_size},
                                 {"intermediate_size", intermediate_size},
                                 {"num_hidden_layers", 3},
                                 {"num_attention_heads", num_heads},
                                 {"num_key_value_heads", 8},
                                 {"head_dim", head_dim},
                                 {"max_position_embeddings", 4096},
                                 {"rms_norm_eps", 1e-6},
                                 {"rope_theta", 1e6},
                                 {"tie_word_embeddings", hidden_size == 1024},
                                 {"attention_bias", false},
                                 {"hidden_act", "silu"},
                                 {"eos_token_id", 151645}};
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / name;
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config;
  ModelCase test;
  test.random_weights = true;
  test.name = name;
  test.path = folder;
  test.num_blocks = 2048;
  test.shape.num_requests = 120;
  test.shape.max_prompt_tokens = 60;
  test.shape.max_new_tokens = 40;
  // Past three attention borders (every 128 keys at first), with hits and chunks on both sides.
  test.shape.num_long_requests = 12;
  test.shape.long_prompt_tokens = 1100;
  test.num_restarts = 2;
  test.min_blocks = 80;
  test.expect_pressure = false;
  return test;
}

}  // namespace lockstep::testing
