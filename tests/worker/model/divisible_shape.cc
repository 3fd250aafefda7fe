#include "tests/worker/model/divisible_shape.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::worker {

namespace {

struct Sizes {
  int num_heads;
  int num_kv_heads;
  int head_dim;
  int hidden_size;
  int intermediate_size;
};

void WriteShape(const std::string& name, const std::string& folder, const Sizes& sizes) {
  const std::filesystem::path golden = "tests/golden/" + name;
  for (const char* const file : {"tokenizer.json", "tokenizer_config.json"}) {
    if (!std::filesystem::exists(golden / file)) continue;
    std::filesystem::copy(golden / file, std::filesystem::path(folder) / file);
  }
  nlohmann::json config = nlohmann::json::parse(std::ifstream(golden / "config.json"));
  if (config.at("model_type") == "gpt2") {
    config.update({{"n_head", sizes.num_heads},
                   {"n_embd", sizes.hidden_size},
                   {"n_inner", sizes.intermediate_size}});
  } else {
    config.update({{"num_attention_heads", sizes.num_heads},
                   {"num_key_value_heads", sizes.num_kv_heads},
                   {"head_dim", sizes.head_dim},
                   {"hidden_size", sizes.hidden_size},
                   {"intermediate_size", sizes.intermediate_size}});
  }
  config["vocab_size"] = 384;
  std::ofstream(std::filesystem::path(folder) / "config.json") << config;
}

}  // namespace

void WriteDivisibleShape(const std::string& name, const std::string& folder) {
  WriteShape(name, folder,
             {.num_heads = 12,
              .num_kv_heads = 6,
              .head_dim = 16,
              .hidden_size = 96,
              .intermediate_size = 192});
}

void WriteShapeForGpus(const std::string& name, const std::string& folder) {
  WriteShape(name, folder,
             {.num_heads = 8,
              .num_kv_heads = 4,
              .head_dim = 16,
              .hidden_size = 128,
              .intermediate_size = 256});
}

}  // namespace lockstep::worker
