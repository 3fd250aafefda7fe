#pragma once

#include "common/model_files/model_family.h"

namespace lockstep::worker {

// Pebble: a family that nobody publishes, as an example for docs/adding/model-family.md. Its
// tensors have names of their own, q and k have norms, and layers are of two kinds: the even ones
// read a window and rotate with another base. A test adds it with RegisterModelFamily.
const ModelFamily& PebbleFamily();

}  // namespace lockstep::worker
