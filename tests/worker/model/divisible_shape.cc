#include "tests/worker/model/divisible_shape.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::worker {

void WriteDivisibleShape(const std::string& name, const std::string& folder) {
  const std::filesystem::path golden = "tests/golden/" + name;
  for (const char* const file : {"tokenizer.json", "tokenizer_config.json"}) {
    if (!std::filesystem::exists(golden / file)) continue;
    std::filesystem::copy(golden / file, std::filesystem::path(folder) / file);
  }
  nlohmann::json config = nlohmann::json::parse(std::ifstream(golden / "config.json"));
  if (config.at("model_type") == "gpt2") {
    config.update({{"n_head", 12}, {"n_embd", 96}, {"n_inner", 192}});
  } else {
    config.update({{"num_attention_heads", 12},
                   {"num_key_value_heads", 6},
                   {"head_dim", 16},
                   {"hidden_size", 96},
                   {"intermediate_size", 192}});
  }
  config["vocab_size"] = 384;
  std::ofstream(std::filesystem::path(folder) / "config.json") << config;
}

}  // namespace lockstep::worker
