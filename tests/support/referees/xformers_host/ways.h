// The two passes, each in a unit of its own.
#pragma once
#include "host/call.h"

namespace host {
Tensors forward(const Call &call);
std::string forward_kernels(const Call &call);
std::string forward_examine(const Call &call);
std::string forward_layout();
Tensors backward(const Call &call);
std::string backward_kernels(const Call &call);
std::string backward_examine(const Call &call);
std::string backward_layout();
}  // namespace host
