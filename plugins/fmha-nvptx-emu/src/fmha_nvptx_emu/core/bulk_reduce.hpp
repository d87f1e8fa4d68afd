// Reductions of bulk copies, element by element. Source: PTX ISA 9.1, 9.7.9.25.4.2 (bytes) and 9.7.9.27.1.3 (boxes of tensors).
#pragma once

#include <cstdint>

#include "types.hpp"

namespace ptx {

enum class Reduction : uint8_t { None, Add, Min, Max, Inc, Dec, And, Or, Xor };

// to[k] = to[k] op from[k], each element by one atomic operation. `bytes`: a multiple of the element's.
using Reduce = void (*)(uint8_t* to, const uint8_t* from, uint32_t bytes);
// Null where the document does not have the pair. `flushes`: sums of f32 flush subnormal numbers, as those of bytes do.
Reduce reducer(Reduction op, Type type, bool flushes);

Type type_of_map(uint32_t type);  // CUtensorMapDataType; None: one that has no reductions

}  // namespace ptx
