#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/attention/paged_attention_problem.h"

// What attention over a Problem must give, in fp64.
namespace lockstep::kernels {

struct Reference {
  std::vector<double> values;
  std::vector<double> tolerance;
};

// One query row in fp64. The tolerance follows the roundings: head_dim products per score, a
// relative error of the weights of twice that, as many additions as keys, one rounding to bf16.
inline void AppendReferenceRow(const Problem& problem, int64_t token, int64_t head,
                               int64_t window_tokens, Reference& reference) {
  const Shape& shape = problem.shape();
  int64_t first_key = token / shape.num_tokens * shape.num_tokens;
  if (window_tokens > 0) first_key = std::max(first_key, token - window_tokens + 1);
  const int64_t kv_head = head / (shape.num_heads / shape.num_kv_heads);
  std::vector<double> scores;
  double score_error = 0.0;
  for (int64_t key = first_key; key <= token; ++key) {
    double score = 0.0;
    double magnitude = 0.0;
    for (int64_t dim = 0; dim < shape.head_dim; ++dim) {
      const double product = problem.Query(token, head, dim) * problem.Key(key, kv_head, dim);
      score += product;
      magnitude += std::abs(product);
    }
    scores.push_back(score * problem.scale());
    score_error = std::max(score_error, static_cast<double>(shape.head_dim + 2) * 0x1p-24 *
                                            magnitude * problem.scale());
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - max);
  const double relative = 2.0 * score_error + static_cast<double>(scores.size() + 16) * 0x1p-23;
  for (int64_t dim = 0; dim < shape.head_dim; ++dim) {
    double value = 0.0;
    double magnitude = 0.0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double v = problem.Value(first_key + static_cast<int64_t>(i), kv_head, dim);
      value += scores[i] / sum * v;
      magnitude += scores[i] / sum * std::abs(v);
    }
    reference.values.push_back(value);
    reference.tolerance.push_back(std::abs(value) * 0x1p-8 + magnitude * relative * 1.01);
  }
}

// Of the tokens of all sequences from `first_token` on. window_tokens = 0: no window.
inline Reference ComputeReference(const Problem& problem, int64_t window_tokens = 0,
                                  int64_t first_token = 0) {
  Reference reference;
  const Shape& shape = problem.shape();
  for (int64_t token = first_token; token < shape.num_sequences * shape.num_tokens; ++token) {
    for (int64_t head = 0; head < shape.num_heads; ++head) {
      AppendReferenceRow(problem, token, head, window_tokens, reference);
    }
  }
  return reference;
}

}  // namespace lockstep::kernels
