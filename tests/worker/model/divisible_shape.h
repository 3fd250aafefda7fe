#pragma once

#include <string>

namespace lockstep::worker {

// Writes the tokenizer and the configuration of tests/golden/NAME to `folder`, with 12 heads, 6 KV
// heads (GPT-2: 12) and other sizes that 2, 3 and 6 divide. There are no weights: load it with
// random ones.
void WriteDivisibleShape(const std::string& name, const std::string& folder);

// The same for the CUDA kernels: 8 heads, 4 KV heads (GPT-2: 8) and other sizes that 2 and 4
// divide.
void WriteShapeForGpus(const std::string& name, const std::string& folder);

}  // namespace lockstep::worker
