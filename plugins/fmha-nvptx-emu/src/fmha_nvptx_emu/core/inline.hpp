// Direct calls of functions that the module holds.
#pragma once

#include "syntax.hpp"

namespace ptx {

// Calls are nested no deeper, also of a function that calls itself. Deeper ones stay calls, which stop the kernel.
constexpr unsigned kDeepestCall = 32;
// Nor does a kernel grow beyond so many instructions.
constexpr size_t kMostInlined = size_t(1) << 17;

// Puts the body of each called function into every kernel in place of the call.
void inline_calls(Module& module);

}  // namespace ptx
