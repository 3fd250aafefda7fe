#pragma once

#include "kernels/formats/quantized_matrix.h"

namespace lockstep::kernels {

// A kind of codes as a type.
template <CodeKind kind>
struct CodeKindType {
  static constexpr CodeKind kKind = kind;
};

// Calls body(CodeKindType<kind>()), for a kind that only the matrix knows.
template <typename Body>
auto WithCodeKind(CodeKind kind, const Body& body) {
  switch (kind) {
    case CodeKind::kInt4:
      return body(CodeKindType<CodeKind::kInt4>());
    case CodeKind::kInt8:
      return body(CodeKindType<CodeKind::kInt8>());
    case CodeKind::kFp8E4M3:
      return body(CodeKindType<CodeKind::kFp8E4M3>());
    case CodeKind::kFp4E2M1:
      return body(CodeKindType<CodeKind::kFp4E2M1>());
    case CodeKind::kInt4Min:
      return body(CodeKindType<CodeKind::kInt4Min>());
    case CodeKind::kInt5:
      return body(CodeKindType<CodeKind::kInt5>());
    case CodeKind::kInt5Min:
      return body(CodeKindType<CodeKind::kInt5Min>());
    case CodeKind::kInt6:
      break;
  }
  return body(CodeKindType<CodeKind::kInt6>());
}

}  // namespace lockstep::kernels
