#include "tests/worker/model/golden_logits.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace lockstep::worker {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

nlohmann::json ReadDescription(const std::string& path, const std::string& format) {
  nlohmann::json description = nlohmann::json::parse(ReadFile(path));
  if (description.at("format") != format) {
    throw std::runtime_error(path + " is not of format " + format);
  }
  return description;
}

// A little-endian array of `num_rows` rows of 4-byte elements.
std::string ReadTable(const std::string& path, size_t num_rows, size_t num_columns) {
  std::string bytes = ReadFile(path);
  if (bytes.size() != num_rows * num_columns * 4) {
    throw std::runtime_error(path + " has an unexpected size");
  }
  return bytes;
}

template <typename T>
T ElementAt(const std::string& table, size_t index) {
  static_assert(sizeof(T) == 4);
  T element;
  std::memcpy(&element, table.data() + index * sizeof(T), sizeof(T));
  return element;
}

ReferencePosition ReadPosition(const std::string& table, size_t first_element, size_t subset_size) {
  ReferencePosition position;
  position.best = ElementAt<TokenId>(table, first_element);
  position.second = ElementAt<TokenId>(table, first_element + 1);
  position.best_logit = ElementAt<float>(table, first_element + 2);
  position.second_logit = ElementAt<float>(table, first_element + 3);
  position.bf16_max_error = ElementAt<float>(table, first_element + 5);
  position.bf16_rms_error = ElementAt<float>(table, first_element + 6);
  for (size_t i = 0; i < subset_size; ++i) {
    position.subset_logits.push_back(ElementAt<float>(table, first_element + 7 + i));
  }
  return position;
}

}  // namespace

std::vector<GoldenPrompt> ReadGoldenPrompts(const std::string& folder) {
  const nlohmann::json description =
      ReadDescription(folder + "/golden.json", "lockstep-golden-logits-1");
  const size_t vocab_size = description.at("vocab_size");
  const std::string table = ReadTable(folder + "/" + std::string(description.at("data_file")),
                                      description.at("num_rows"), vocab_size);
  std::vector<GoldenPrompt> prompts;
  for (const nlohmann::json& entry : description.at("prompts")) {
    GoldenPrompt prompt;
    prompt.name = entry.at("name");
    prompt.tokens = entry.at("prompt_ids").get<std::vector<TokenId>>();
    for (const TokenId token : entry.at("continuation_ids")) prompt.tokens.push_back(token);
    const size_t first_row = entry.at("first_row");
    for (size_t i = 0; i < prompt.tokens.size() * vocab_size; ++i) {
      prompt.logits.push_back(ElementAt<float>(table, first_row * vocab_size + i));
    }
    prompt.bf16_max_error = entry.at("bf16_max_error").get<std::vector<double>>();
    prompt.bf16_rms_error = entry.at("bf16_rms_error").get<std::vector<double>>();
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

SmolLm2Reference ReadSmolLm2Reference(const std::string& folder) {
  const nlohmann::json description =
      ReadDescription(folder + "/reference.json", "lockstep-golden-top-1");
  const size_t num_columns = description.at("num_columns");
  const std::string table = ReadTable(folder + "/" + std::string(description.at("data_file")),
                                      description.at("num_rows"), num_columns);
  SmolLm2Reference reference;
  reference.subset_ids = description.at("subset_ids").get<std::vector<TokenId>>();
  for (const nlohmann::json& entry : description.at("prompts")) {
    ReferencePrompt prompt;
    prompt.name = entry.at("name");
    prompt.prompt = entry.at("prompt_ids").get<std::vector<TokenId>>();
    prompt.continuation = entry.at("continuation_ids").get<std::vector<TokenId>>();
    const size_t first_row = entry.at("first_row");
    for (size_t i = 0; i < prompt.continuation.size(); ++i) {
      prompt.positions.push_back(
          ReadPosition(table, (first_row + i) * num_columns, reference.subset_ids.size()));
    }
    reference.prompts.push_back(std::move(prompt));
  }
  return reference;
}

ReferenceLogprobs ReadReferenceLogprobs(const std::string& path) {
  const nlohmann::json description = ReadDescription(path, "lockstep-golden-logprobs-1");
  ReferenceLogprobs reference;
  reference.bf16_mean_error = description.at("bf16_mean_error");
  for (const nlohmann::json& entry : description.at("prompts")) {
    reference.prompts.push_back({.name = entry.at("name"),
                                 .tokens = entry.at("ids").get<std::vector<TokenId>>(),
                                 .logprobs = entry.at("logprobs").get<std::vector<double>>()});
    const ReferenceLogprobs::Prompt& prompt = reference.prompts.back();
    if (prompt.logprobs.size() + 1 != prompt.tokens.size()) {
      throw std::runtime_error(path + ": " + prompt.name + " has a wrong number of logprobs");
    }
  }
  return reference;
}

}  // namespace lockstep::worker
