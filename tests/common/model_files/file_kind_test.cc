// Files that are not what their names say: each error is one line that says what the file is.
#include "common/model_files/file_kind.h"

#include <gtest/gtest.h>

#include "common/model_files/gguf.h"
#include "common/model_files/model_config.h"
#include "common/model_files/safetensors.h"
#include "common/model_files/tokenizer/tokenizer_files.h"
#include "common/model_files/tokenizer/tokenizer_fingerprint.h"
#include "tests/common/config_json.h"
#include "tests/common/gguf_builder.h"
#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLfsPointer[] =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 988097824\n";

struct WrongFile {
  const char* name;
  std::string content;
  const char* expected;
};

std::vector<WrongFile> WrongFiles() {
  using std::string_literals::operator""s;
  return {
      {"lfs", kLfsPointer, "is a git-lfs pointer, not the file of 988097824 bytes"},
      {"annex", "/annex/objects/SHA256E-s99--4d7a.safetensors\n", "is a git-annex pointer"},
      {"empty", "", "is empty"},
      {"white", " \n\n  ", "nothing but white space"},
      {"html", "<!DOCTYPE html>\n<html class=\"\"><head>", "is a web page"},
      {"html_low", "\n  <html><head><title>Sign in</title>", "is a web page"},
      {"xml", "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "is an XML"},
      {"refusal", "Invalid username or password.\n",
       "a server that refused the download: \"Invalid username or password.\""},
      {"missing", "Entry not found", "refused the download: \"Entry not found\""},
      {"gated", "Access to model meta-llama/X is restricted.", "refused the download"},
      {"zip", "PK\x03\x04\x14\x00\x08\x08archive/data.pkl"s, "is a ZIP archive, as PyTorch"},
      {"pickle", "\x80\x02}q\x00(X\x05"s, "is a Python pickle"},
      {"gzip", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"s, "is compressed with gzip"},
      {"zstd", "\x28\xb5\x2f\xfd\x24\x05"s, "is compressed with zstd"},
      {"hdf5", "\x89HDF\r\n\x1a\n", "is an HDF5 file"},
      {"pdf", "%PDF-1.7\n", "is a PDF document"},
      {"ggml", "tjgg\x03\x00\x00\x00"s, "is a GGML file"},
      {"zeros", std::string(4096, '\0'), "begins with zeros"},
  };
}

// One line, short, with the file's name, without anything of a parser.
auto SaysWhatItIs(const WrongFile& file) {
  return HasError(kInvalid,
                  AllOf(HasSubstr(file.name), HasSubstr(file.expected), Not(HasSubstr("\n")),
                        Not(HasSubstr("header's length")), Not(HasSubstr("byte 1:"))));
}

TEST(FileKindTest, EveryReaderSaysWhatTheFileIs) {
  for (const WrongFile& file : WrongFiles()) {
    SCOPED_TRACE(file.name);
    const TempFolder folder;
    const std::string path = folder.Write(std::string(file.name) + ".gguf", file.content);
    EXPECT_THAT(GgufFile::Open(path), SaysWhatItIs(file));
    EXPECT_THAT(LoadModelConfig(path), SaysWhatItIs(file));
    EXPECT_THAT(
        SafetensorsFile::Open(folder.Write(std::string(file.name) + ".safetensors", file.content)),
        SaysWhatItIs(file));
    EXPECT_THAT(ModelConfigFromJson(file.content, "", file.name), SaysWhatItIs(file));
    if (!file.content.empty()) {  // an empty text stands for no such file
      EXPECT_THAT(ModelConfigFromJson(LlamaJson().dump(), file.content, file.name),
                  SaysWhatItIs(file));
    }
    const TempFolder model;
    model.Write("config.json", LlamaJson().dump());
    model.Write("tokenizer.json", file.content);
    EXPECT_THAT(LoadTokenizerFingerprint(model.path()),
                HasError(kInvalid, HasSubstr(file.expected)));
    const TempFolder sharded;
    sharded.Write("model.safetensors.index.json", file.content);
    EXPECT_THAT(SafetensorsCheckpoint::Open(sharded.path()),
                HasError(kInvalid, HasSubstr(file.expected)));
  }
}

TEST(FileKindTest, FormatsAreToldApart) {
  const TempFolder folder;
  const std::string gguf = GgufBuilder().String("general.architecture", "llama").Build();
  EXPECT_THAT(SafetensorsFile::Open(folder.Write("a.safetensors", gguf)),
              HasError(kInvalid, HasSubstr("the file is a GGUF file; expected a safetensors")));
  const std::string safetensors = std::string("\x02\0\0\0\0\0\0\0{}", 10);
  EXPECT_THAT(GgufFile::Open(folder.Write("a.gguf", safetensors)),
              HasError(kInvalid, HasSubstr("the file is a safetensors file; expected a GGUF")));
  EXPECT_THAT(GgufFile::Open(folder.Write("b.gguf", "{\"error\": \"no such model\"}\nmore")),
              HasError(kInvalid, HasSubstr("the file is a text that begins with \"{\"error\": ")));
  EXPECT_THAT(SafetensorsFile::Open(folder.Write("c.safetensors", "{\"error\": 404}")),
              HasError(kInvalid, HasSubstr("is a text that begins with")));
}

// The length of this header begins as a pickle does.
TEST(FileKindTest, AGoodFileMayBeginAsAnotherKindDoes) {
  const std::string header = "{}" + std::string(0x280 - 2, ' ');
  const std::string file = std::string("\x80\x02\0\0\0\0\0\0", 8) + header;
  const TempFolder folder;
  EXPECT_THAT(SafetensorsFile::Open(folder.Write("model.safetensors", file)), IsOk());
}

TEST(FileKindTest, AFolderOrFileThatIsNoModelIsDescribed) {
  const TempFolder ggufs;
  ggufs.Write("tiny-Q8_0.gguf", "GGUF");
  ggufs.Write("tiny-F16.gguf", "GGUF");
  EXPECT_THAT(LoadModelConfig(ggufs.path()),
              HasError(absl::StatusCode::kNotFound,
                       HasSubstr("config.json: there is no such file; it has tiny-F16.gguf, so "
                                 "give the path of that file")));
  const TempFolder adapter;
  adapter.Write("adapter_config.json", "{}");
  EXPECT_THAT(LoadModelConfig(adapter.path()),
              HasError(absl::StatusCode::kNotFound, HasSubstr("it has an adapter (LoRA)")));
  EXPECT_THAT(LoadModelConfig(adapter.Write("model.bin", "PK\x03\x04")),
              HasError(kInvalid, HasSubstr("the file is a ZIP archive")));
}

TEST(FileKindTest, AFileThatIsCutOffMaySoBeCalled) {
  const TempFolder folder;
  const std::string gguf = GgufBuilder()
                               .String("general.architecture", "llama")
                               .Tensor("t", GgmlType::kF32, {16}, std::string(64, 'x'))
                               .Build();
  EXPECT_THAT(GgufFile::Open(folder.Write("a.gguf", gguf)), IsOk());
  EXPECT_THAT(GgufFile::Open(folder.Write("b.gguf", gguf.substr(0, gguf.size() - 32))),
              HasError(kInvalid, HasSubstr("the file may be cut off")));
  const std::string header = R"({"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})";
  std::string safetensors(8, '\0');
  safetensors[0] = static_cast<char>(header.size());
  safetensors += header + "12345678";
  EXPECT_THAT(SafetensorsFile::Open(folder.Write("a.safetensors", safetensors)), IsOk());
  for (const size_t size : {safetensors.size() - 1, size_t{20}}) {
    EXPECT_THAT(SafetensorsFile::Open(folder.Write("b.safetensors", safetensors.substr(0, size))),
                HasError(kInvalid, HasSubstr("the file may be cut off")));
  }
}

TEST(FileKindTest, OtherKindsOfVocabulariesAreNamed) {
  const TempFolder nothing;
  EXPECT_THAT(ReadTokenizerFiles(nothing.path()),
              HasError(absl::StatusCode::kNotFound, HasSubstr("tokenizer.json: cannot open")));
  for (const char* name : {"tokenizer.model", "tekken.json", "vocab.json"}) {
    const TempFolder folder;
    folder.Write(name, "x");
    EXPECT_THAT(
        ReadTokenizerFiles(folder.path()),
        HasError(absl::StatusCode::kNotFound, HasSubstr(std::string("the folder has ") + name)));
  }
}

TEST(FileKindTest, PartsOfASplitModelAreNamed) {
  const auto part = [](uint32_t index) {
    constexpr uint32_t kUint16 = 2;
    return GgufBuilder()
        .Scalar("split.no", kUint16, static_cast<uint16_t>(index))
        .Scalar("split.count", kUint16, uint16_t{3})
        .Build();
  };
  const TempFolder folder;
  for (const uint32_t index : {0u, 1u, 2u}) {
    const std::string path =
        folder.Write("m-0000" + std::to_string(index + 1) + ".gguf", part(index));
    EXPECT_THAT(LoadModelConfig(path),
                HasError(kInvalid, HasSubstr("this file is part " + std::to_string(index + 1) +
                                             " of 3 of a split model")));
  }
}

TEST(FileKindTest, MissingShardsAreNamedTogether) {
  const TempFolder folder;
  folder.Write("model.safetensors.index.json",
               R"({"weight_map":{"a":"model-00001-of-00003.safetensors",
                   "b":"model-00002-of-00003.safetensors",
                   "c":"model-00003-of-00003.safetensors"}})");
  folder.Write("model-00002-of-00003.safetensors", "x");
  EXPECT_THAT(
      SafetensorsCheckpoint::Open(folder.path()),
      HasError(absl::StatusCode::kNotFound,
               HasSubstr("2 of the 3 files that weight_map names are missing: "
                         "model-00001-of-00003.safetensors, model-00003-of-00003.safetensors")));
  const TempFolder pytorch;
  pytorch.Write("pytorch_model.bin", "x");
  EXPECT_THAT(SafetensorsCheckpoint::Open(pytorch.path()),
              HasError(absl::StatusCode::kNotFound,
                       HasSubstr("it has pytorch_model.bin, which must be converted first")));
}

}  // namespace
}  // namespace lockstep
