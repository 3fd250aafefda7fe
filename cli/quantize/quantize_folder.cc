#include "cli/quantize/quantize_folder.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "cli/quantize/quantize_target.h"
#include "common/model_files/model_config.h"
#include "common/model_files/model_family.h"
#include "common/model_files/quantization/module_pattern.h"
#include "common/model_files/safetensors.h"
#include "common/model_files/safetensors_writer.h"
#include "common/runtime/mapped_file.h"
#include "common/status.h"
#include "kernels/formats/checkpoint/quantize_weight.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = 16'000'000;
constexpr std::string_view kWeightEnding = ".weight";
constexpr uint32_t kGroupSizes[] = {128, 64, 32, 16};
// Files with weights and their indices are not copied.
constexpr std::string_view kWeightFileEndings[] = {
    ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".msgpack", ".h5", ".index.json"};

std::string ModuleOf(std::string_view tensor) {
  return std::string(tensor.substr(0, tensor.size() - kWeightEnding.size()));
}

// The matrices of layers. Norms and biases have one dimension; embeddings and the logits' matrix
// are outside of layers.
bool IsMatrixOfLayer(const SafetensorsTensor& tensor, const TensorNames& names) {
  std::string_view name = tensor.name;
  std::string_view prefix = names.layer_prefix;
  if (!name.starts_with(names.optional_prefix)) prefix.remove_prefix(names.optional_prefix.size());
  if (!name.starts_with(prefix) || !name.ends_with(kWeightEnding)) return false;
  name.remove_prefix(prefix.size());
  return !name.empty() && absl::ascii_isdigit(static_cast<unsigned char>(name.front())) &&
         tensor.shape.size() == 2;
}

struct Plan {
  WeightScheme scheme;
  std::vector<const SafetensorsTensor*> tensors, quantized;  // in the order of names
  std::vector<std::string> ignored;  // lm_head, and names of modules that keep their weights

  bool Quantizes(const SafetensorsTensor* tensor) const {
    return std::binary_search(quantized.begin(), quantized.end(), tensor, ByName);
  }
  static bool ByName(const SafetensorsTensor* a, const SafetensorsTensor* b) {
    return a->name < b->name;
  }
};

absl::StatusOr<bool> MatchesAny(const std::vector<ModulePattern>& patterns,
                                const std::string& module) {
  for (const ModulePattern& pattern : patterns) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool matches, pattern.Matches(module));
    if (matches) return true;
  }
  return false;
}

absl::StatusOr<std::vector<ModulePattern>> PatternsOf(const std::vector<std::string>& ignored) {
  std::vector<ModulePattern> patterns;
  for (const std::string& text : ignored) {
    absl::StatusOr<ModulePattern> pattern = ModulePattern::CompressedTensors(text);
    if (!pattern.ok()) return Annotate(pattern.status(), fmt::format("--ignore {}", text));
    patterns.push_back(*std::move(pattern));
  }
  return patterns;
}

// The largest size that fits all matrices, or 0.
uint32_t CommonGroupSize(const std::vector<const SafetensorsTensor*>& matrices) {
  for (const uint32_t size : kGroupSizes) {
    const bool fits = std::all_of(matrices.begin(), matrices.end(), [size](const auto* matrix) {
      return matrix->shape[1] % size == 0;
    });
    if (fits) return size;
  }
  return 0;
}

absl::Status ChooseGroupSize(Plan* plan) {
  WeightScheme& scheme = plan->scheme;
  if (scheme.extent != ScaleExtent::kGroup || scheme.group_size > 0) return absl::OkStatus();
  scheme.group_size = CommonGroupSize(plan->quantized);
  if (scheme.group_size > 0) return absl::OkStatus();
  return InvalidArgument("the columns of some matrix do not divide into groups of {}; name a size",
                         kGroupSizes[std::size(kGroupSizes) - 1]);
}

absl::StatusOr<Plan> MakePlan(const QuantizeJob& job, const SafetensorsCheckpoint& checkpoint,
                              const TensorNames& names) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<ModulePattern> patterns, PatternsOf(job.ignored));
  Plan plan{.scheme = job.scheme, .tensors = {}, .quantized = {}, .ignored = {"lm_head"}};
  for (const std::string_view name : checkpoint.TensorNames()) {
    const SafetensorsTensor* const tensor = checkpoint.Find(name);
    plan.tensors.push_back(tensor);
    if (!IsMatrixOfLayer(*tensor, names)) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const bool ignored, MatchesAny(patterns, ModuleOf(name)));
    if (ignored) {
      plan.ignored.push_back(ModuleOf(name));
    } else {
      plan.quantized.push_back(tensor);
    }
  }
  if (plan.quantized.empty()) return InvalidArgument("{}: no matrix to quantise", job.model);
  LOCKSTEP_RETURN_IF_ERROR(ChooseGroupSize(&plan));
  for (const SafetensorsTensor* const tensor : plan.quantized) {
    LOCKSTEP_RETURN_IF_ERROR(kernels::CheckQuantizableTensor(*tensor, plan.scheme));
  }
  return plan;
}

absl::Status WriteTensors(const Plan& plan, const std::string& path,
                          const QuantizeProgress& progress, QuantizeReport* report) {
  std::vector<TensorSpec> specs;
  for (const SafetensorsTensor* const tensor : plan.tensors) {
    report->bytes_before += tensor->data.size();
    if (!plan.Quantizes(tensor)) {
      specs.push_back({tensor->name, tensor->dtype, tensor->shape});
      continue;
    }
    for (TensorSpec& spec :
         kernels::PlanQuantizedWeight(ModuleOf(tensor->name), *tensor, plan.scheme)) {
      specs.push_back(std::move(spec));
    }
  }
  for (const TensorSpec& spec : specs) report->bytes_after += spec.num_bytes();
  LOCKSTEP_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                            SafetensorsWriter::Create(path, std::move(specs), {{"format", "pt"}}));
  for (const SafetensorsTensor* const tensor : plan.tensors) {
    if (plan.Quantizes(tensor)) {
      LOCKSTEP_ASSIGN_OR_RETURN(const auto parts, kernels::QuantizeWeight(*tensor, plan.scheme));
      for (const kernels::EncodedTensor& part : parts) {
        const SafetensorsTensor view = part.View(ModuleOf(tensor->name));
        LOCKSTEP_RETURN_IF_ERROR(writer.Append({view.name, view.dtype, view.shape}, view.data));
      }
    } else {
      LOCKSTEP_RETURN_IF_ERROR(
          writer.Append({tensor->name, tensor->dtype, tensor->shape}, tensor->data));
    }
    if (progress) progress(++report->num_tensors, plan.tensors.size());
  }
  report->num_tensors = plan.tensors.size();
  report->num_quantized = plan.quantized.size();
  report->scheme = plan.scheme;
  return writer.Finish();
}

bool HasWeights(const std::string& file) {
  return std::any_of(std::begin(kWeightFileEndings), std::end(kWeightFileEndings),
                     [&](std::string_view ending) { return file.ends_with(ending); });
}

// The folder to write, which was empty. Unless it is kept, the destructor removes what was written.
class OutputFolder {
 public:
  explicit OutputFolder(std::string path) : path_(std::move(path)) {}
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder() {
    std::error_code ignored;
    // In reverse order: a folder was added before the files in it.
    for (auto file = written_.rbegin(); file != written_.rend(); ++file) fs::remove(*file, ignored);
    if (is_new_ && !is_kept_) fs::remove(path_, ignored);
  }

  absl::Status Create() {
    std::error_code error;
    is_new_ = fs::create_directories(path_, error);
    if (error) return Internal("{}: cannot create the folder: {}", path_, error.message());
    const bool is_empty = fs::is_empty(path_, error);
    if (error) return Internal("{}: {}", path_, error.message());
    if (!is_empty) return InvalidArgument("{} is not empty", path_);
    return absl::OkStatus();
  }
  std::string PathOf(const std::string& file) const { return fs::path(path_) / file; }

  absl::Status WriteText(const std::string& file, const std::string& text) {
    written_.push_back(PathOf(file));
    std::ofstream stream(written_.back(), std::ios::binary);
    stream << text;
    if (stream.flush().good()) return absl::OkStatus();
    return Internal("{}: cannot write", written_.back().string());
  }
  // Everything but config.json and weights.
  absl::Status CopyOtherFiles(const std::string& from) {
    LOCKSTEP_RETURN_IF_ERROR(CopyFiles(from, ""));
    const fs::path templates = "additional_chat_templates";
    std::error_code none;
    if (!fs::is_directory(fs::path(from) / templates, none)) return absl::OkStatus();
    written_.push_back(PathOf(templates));
    std::error_code error;
    fs::create_directory(written_.back(), error);
    if (error) return Internal("{}: {}", written_.back().string(), error.message());
    return CopyFiles(from, templates);
  }
  void Keep() {
    written_.clear();
    is_kept_ = true;
  }

 private:
  // Copies a folder of the model. Files that this program writes itself are left out.
  absl::Status CopyFiles(const fs::path& from, const fs::path& folder) {
    std::error_code error;
    fs::directory_iterator it(from / folder, error);
    for (; !error && it != fs::directory_iterator(); it.increment(error)) {
      const std::string file = it->path().filename();
      std::error_code dangling;
      if (!it->is_regular_file(dangling) || file == "config.json" || HasWeights(file)) continue;
      written_.push_back(PathOf(folder / file));
      std::error_code failed;
      fs::copy_file(it->path(), written_.back(), failed);
      if (failed) return Internal("{}: cannot copy: {}", it->path().string(), failed.message());
    }
    if (error) return Internal("{}: {}", (from / folder).string(), error.message());
    return absl::OkStatus();
  }

  const std::string path_;
  bool is_new_ = false, is_kept_ = false;
  std::vector<fs::path> written_;
};

}  // namespace

absl::StatusOr<QuantizeReport> QuantizeFolder(const QuantizeJob& job,
                                              const QuantizeProgress& progress) {
  if (IsGgufPath(job.model)) {
    return InvalidArgument("{} is a GGUF file, expected a folder with config.json and safetensors",
                           job.model);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string config_json,
                            ReadTextFile(fs::path(job.model) / "config.json", kMaxConfigBytes));
  LOCKSTEP_ASSIGN_OR_RETURN(const ModelConfig config,
                            ModelConfigFromJson(config_json, "", job.model));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto quantization, LoadQuantizationConfig(job.model));
  if (quantization.has_value()) {
    return InvalidArgument("{}: the weights are quantised already ({})", job.model,
                           quantization->method());
  }
  const TensorNames& names = config.family->hugging_face;
  if (names.transposed_matrices) {
    return InvalidArgument("{}: matrices of {} are [inputs, outputs], which no layout holds",
                           job.model, config.family->name);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const SafetensorsCheckpoint checkpoint,
                            SafetensorsCheckpoint::Open(job.model));
  LOCKSTEP_ASSIGN_OR_RETURN(const Plan plan, MakePlan(job, checkpoint, names));
  OutputFolder output(job.output);
  LOCKSTEP_RETURN_IF_ERROR(output.Create());
  LOCKSTEP_RETURN_IF_ERROR(output.CopyOtherFiles(job.model));
  LOCKSTEP_RETURN_IF_ERROR(output.WriteText(
      "config.json", WithQuantizationConfig(config_json, plan.scheme, plan.ignored)));
  QuantizeReport report;
  LOCKSTEP_RETURN_IF_ERROR(
      WriteTensors(plan, output.PathOf("model.safetensors"), progress, &report));
  output.Keep();
  return report;
}

}  // namespace lockstep::cli
