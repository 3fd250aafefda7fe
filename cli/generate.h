#pragma once

#include <span>
#include <string>

#include "cli/common/verb.h"

namespace lockstep::cli {

// Becomes lockstep-generate, which is installed beside this program; returns only if that fails.
int RunGenerate(const Verb& verb, std::span<const std::string> words);

}  // namespace lockstep::cli
