#include "tensor_map.hpp"

#include <algorithm>

namespace ptx {

BoxRow row_of(const TensorMap& map, const int32_t* at, uint32_t row) {
  uint64_t address = map.address;
  for (unsigned axis = 1; axis < map.rank; ++axis) {
    const int64_t here = int64_t(at[axis]) + row % map.box[axis];
    row /= map.box[axis];
    if (here < 0 || here > int64_t(map.last[axis])) return {0, 0, 0};
    address += uint64_t(here) * map.strides[axis - 1];
  }
  const int64_t first = at[0], size = int64_t(map.last[0]) + 1, low = std::clamp<int64_t>(first, 0, size);
  const int64_t high = std::clamp<int64_t>(first + map.box[0], 0, size);
  if (low >= high) return {0, 0, 0};
  return {address + uint64_t(low) * map.element, uint32_t(low - first) * map.element, uint32_t(high - low) * map.element};
}

std::string encode(const TensorMapRequest& r, TensorMap& out) {
  constexpr uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};  // of UINT8 to TFLOAT32_FTZ
  const auto number = [](uint64_t value) { return std::to_string(value); };
  if (r.type < 0 || r.type >= int(sizeof bytes)) return "the element type " + std::to_string(r.type) + " is not emulated";
  if (r.rank < 1 || r.rank > 5) return "a tensor of " + number(r.rank) + " axes";
  if (r.interleave) return "interleaved tensors are not emulated";
  if (r.swizzle < 0 || r.swizzle > 3) return "the swizzle " + std::to_string(r.swizzle) + " is not emulated";
  if (r.promotion < 0 || r.promotion > 3 || r.fill < 0 || r.fill > 1) return "no such promotion or fill";
  if (r.address % 16) return "its address is not a multiple of 16";
  out = {};
  out.mark = TensorMap::kMark, out.address = r.address, out.rank = uint8_t(r.rank), out.type = uint8_t(r.type);
  out.element = bytes[r.type], out.swizzle = uint8_t(16 << r.swizzle), out.fill = uint8_t(r.fill), out.promotion = uint8_t(r.promotion);
  for (unsigned axis = 0; axis < 5; ++axis) out.box[axis] = 1;
  for (unsigned axis = 0; axis < r.rank; ++axis) {
    const std::string which = " along axis " + number(axis);
    if (!r.sizes[axis] || r.sizes[axis] > uint64_t(1) << 32) return number(r.sizes[axis]) + " elements" + which;
    if (!r.box[axis] || r.box[axis] > 256) return "a box of " + number(r.box[axis]) + " elements" + which;
    if (r.steps && r.steps[axis] != 1) return "steps other than 1 are not emulated";
    out.last[axis] = uint32_t(r.sizes[axis] - 1), out.box[axis] = uint16_t(r.box[axis]);
    if (!axis) continue;
    const uint64_t stride = r.strides[axis - 1];
    if (stride % 16 || stride >= uint64_t(1) << 40) return "a stride of " + number(stride) + " bytes" + which;
    out.strides[axis - 1] = stride;
  }
  if (out.row_bytes() % 16) return "rows of " + number(out.row_bytes()) + " bytes in the box, not a multiple of 16";
  if (r.swizzle && out.row_bytes() > out.swizzle) return "rows of " + number(out.row_bytes()) + " bytes in the box, more than the swizzle's " + number(out.swizzle);
  if (r.fill && r.type < 6) return "a fill of NaN for integers";
  return "";
}

}  // namespace ptx
