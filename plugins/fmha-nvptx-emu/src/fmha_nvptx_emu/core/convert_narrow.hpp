// cvt to and from pairs of 8-bit floats. Source: PTX ISA 9.1, 9.7.9.21.
#pragma once

#include "binding.hpp"

namespace ptx {

// The handler of a conversion whose types are known; nullptr if it is not one of these.
Handler bind_narrow(Binding& b, Type to, Type from, bool finite, bool relu);

}  // namespace ptx
