// Errors about a model's files show names of the files on one line, without control characters, and
// cut. One table for every place that shows one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/json/json.h"
#include "common/model_files/gguf.h"
#include "common/model_files/model_config.h"
#include "common/model_files/safetensors.h"
#include "common/status.h"
#include "tests/common/gguf_builder.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using nlohmann::json;

const std::string kHostileNames[] = {
    std::string(size_t{1} << 20, 'x'), "two\nlines", "\x1b]0;title\x07", "\xc2\x9b[m",
    std::string("zero\0byte", 9),
};

void ExpectShort(const absl::Status& status, const std::string& what) {
  ASSERT_FALSE(status.ok()) << what;
  const std::string message = Message(status);
  EXPECT_LE(message.size(), 1000u) << what;
  EXPECT_EQ(std::count_if(message.begin(), message.end(),
                          [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }),
            0)
      << what << ": " << message;
  EXPECT_EQ(message.find("\xc2\x9b"), std::string::npos) << what;
}

// A safetensors file with this header and so many bytes of data.
std::string Safetensors(const json& header, size_t num_data_bytes) {
  const std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  const uint64_t size = text.size();
  std::string bytes(sizeof(size), '\0');
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes + text + std::string(num_data_bytes, '\0');
}

absl::Status StatusOfSafetensors(const std::string& bytes) {
  return SafetensorsFile::Parse(std::as_bytes(std::span(bytes)), "model.safetensors").status();
}

// It takes twice the bytes that are there.
std::vector<uint64_t> LongShape() {
  std::vector<uint64_t> shape(100'000, 1);
  shape.back() = 2;
  return shape;
}

TEST(ForeignNamesTest, OfSafetensors) {
  const json good = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {0, 4}}};
  for (const std::string& name : kHostileNames) {
    const auto with = [&](const std::string& key, const json& value) {
      json tensor = good;
      tensor[key] = value;
      return Safetensors({{name, tensor}}, 4);
    };
    ExpectShort(StatusOfSafetensors(Safetensors({{name, 1}}, 4)), "no object");
    ExpectShort(StatusOfSafetensors(with("dtype", 3)), "dtype");
    ExpectShort(StatusOfSafetensors(with("dtype", name)), "unknown dtype");
    ExpectShort(StatusOfSafetensors(with("shape", name)), "shape");
    ExpectShort(StatusOfSafetensors(with("shape", LongShape())), "long shape");
    ExpectShort(StatusOfSafetensors(with("shape", {uint64_t{1} << 63, 8})), "overflow");
    ExpectShort(StatusOfSafetensors(with("data_offsets", std::vector<uint64_t>(100'000, 7))),
                "many offsets");
    ExpectShort(StatusOfSafetensors(with(name, 1)), "unknown key");
    ExpectShort(StatusOfSafetensors(Safetensors({{name, good}, {"other", good}}, 4)), "overlap");
    ExpectShort(StatusOfSafetensors(Safetensors({{"__metadata__", {{name, 1}}}}, 0)), "metadata");
  }
}

TEST(ForeignNamesTest, OfAnIndexOfShards) {
  const json tensor = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {0, 4}}};
  for (const std::string& name : kHostileNames) {
    const auto open = [](const json& map) {
      const TempFolder folder;
      folder.Write("model.safetensors.index.json",
                   json{{"weight_map", map}}.dump(-1, ' ', false, json::error_handler_t::replace));
      folder.Write(
          "a.safetensors",
          Safetensors({{"there", {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {0, 4}}}}},
                      4));
      return SafetensorsCheckpoint::Open(folder.path()).status();
    };
    ExpectShort(open({{name, 1}}), "no file name");
    ExpectShort(open({{name, "../" + name}}), "a folder");
    ExpectShort(open({{name, "a.safetensors"}}), "not in its shard");
  }
}

TEST(ForeignNamesTest, OfGguf) {
  for (std::string name : kHostileNames) {
    name = name.substr(0, 1000);  // longer keys are refused for their length
    const auto refuse = [](const GgufBuilder& builder, const std::string& what) {
      const std::string bytes = builder.Build();
      const auto file = GgufFile::Parse(std::as_bytes(std::span(bytes)), "model.gguf");
      ExpectShort(file.ok() ? ModelConfigFromGguf(*file).status() : file.status(), what);
    };
    refuse(GgufBuilder().Scalar(name, 99, 1), "type of a value");
    refuse(GgufBuilder().String(name, "a").String(name, "b"), "twice");
    refuse(GgufBuilder().String("general.architecture", name), "architecture");
    refuse(GgufBuilder().String("general.architecture", "llama").String("general.type", name),
           "general.type");
    name = name.substr(0, 64);
    refuse(GgufBuilder().TensorEntry(name, 99, {1}, 0), "type of a tensor");
    refuse(GgufBuilder().TensorEntry(name, 0, {0}, 0), "dimension");
    refuse(GgufBuilder().TensorEntry(name, 0, {1}, 7), "offset");
    refuse(GgufBuilder().TensorEntry(name, 0, {uint64_t{1} << 62, 8}, 0), "size");
    refuse(GgufBuilder().TensorEntry(name, 0, {1 << 20}, 0), "too little data");
    const std::string data(4, '\0');
    refuse(GgufBuilder()
               .Tensor(name, GgmlType::kF32, {1}, data)
               .Tensor(name, GgmlType::kF32, {1}, data),
           "two tensors");
  }
}

TEST(ForeignNamesTest, OfConfigs) {
  for (const std::string& name : kHostileNames) {
    const auto parse = [](const json& config) {
      return ModelConfigFromJson(config.dump(-1, ' ', false, json::error_handler_t::replace), "",
                                 "folder")
          .status();
    };
    ExpectShort(parse(name), "no object");
    ExpectShort(parse({{"architectures", {name}}}), "architecture");
    ExpectShort(parse({{"architectures", {{name, 1}}}}), "kind of architecture");
    ExpectShort(parse({{"architectures", {"LlamaForCausalLM"}}, {"model_type", name}}), "type");
    ExpectShort(parse({{"architectures", {"LlamaForCausalLM"}}, {"hidden_size", name}}), "size");
  }
}

TEST(ForeignNamesTest, OfJsonObjects) {
  for (const std::string& name : kHostileNames) {
    const json object = {{name, 1}};
    JsonObjectReader reader(object, "config.json", "rope_scaling");
    ExpectShort(reader.String(name).status(), "kind");
    ExpectShort(
        ParseJson("{" + json(name).dump() + ":1," + json(name).dump() + ":2}", "file").status(),
        "twice");
  }
}

}  // namespace
}  // namespace lockstep
