#pragma once

#include <span>
#include <string>

#include "cli/common/verb.h"

namespace lockstep::cli {

// `lockstep quantize MODEL --to FORMAT --output FOLDER`
int RunQuantize(const Verb& verb, std::span<const std::string> words);

}  // namespace lockstep::cli
