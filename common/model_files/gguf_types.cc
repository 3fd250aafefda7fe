#include <fmt/format.h>

#include "common/model_files/gguf.h"

namespace lockstep {
namespace {

struct TypeInfo {
  GgmlType type;
  const char* name;
  GgmlBlockSize block;
};

// Block layouts: ggml-common.h of ggml.
constexpr TypeInfo kTypes[] = {
    {GgmlType::kF32, "F32", {1, 4}},       {GgmlType::kF16, "F16", {1, 2}},
    {GgmlType::kQ4_0, "Q4_0", {32, 18}},   {GgmlType::kQ4_1, "Q4_1", {32, 20}},
    {GgmlType::kQ5_0, "Q5_0", {32, 22}},   {GgmlType::kQ5_1, "Q5_1", {32, 24}},
    {GgmlType::kQ8_0, "Q8_0", {32, 34}},   {GgmlType::kQ8_1, "Q8_1", {32, 36}},
    {GgmlType::kQ2_K, "Q2_K", {256, 84}},  {GgmlType::kQ3_K, "Q3_K", {256, 110}},
    {GgmlType::kQ4_K, "Q4_K", {256, 144}}, {GgmlType::kQ5_K, "Q5_K", {256, 176}},
    {GgmlType::kQ6_K, "Q6_K", {256, 210}}, {GgmlType::kQ8_K, "Q8_K", {256, 292}},
    {GgmlType::kBF16, "BF16", {1, 2}},
};

const TypeInfo* FindType(GgmlType type) {
  for (const TypeInfo& info : kTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

}  // namespace

std::string GgmlTypeName(GgmlType type) {
  const TypeInfo* info = FindType(type);
  return info != nullptr ? info->name : fmt::format("type {}", static_cast<uint32_t>(type));
}

std::optional<GgmlBlockSize> GgmlTypeBlockSize(GgmlType type) {
  const TypeInfo* info = FindType(type);
  if (info == nullptr) return std::nullopt;
  return info->block;
}

}  // namespace lockstep
