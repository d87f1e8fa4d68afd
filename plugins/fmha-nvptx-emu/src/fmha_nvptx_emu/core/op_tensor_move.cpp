// tcgen05.ld, st and wait: registers of a warp and its quarter of tensor memory. Source: PTX ISA 9.1, 9.7.16.8; the places of
// each shape: CUTLASS, include/cute/atom/copy_traits_sm100.hpp.
#include <algorithm>

#include "access.hpp"
#include "binding.hpp"
#include "floats.hpp"
#include "tensor_memory.hpp"

namespace ptx {

namespace {

enum class Shape : uint8_t { L32x32, L16x64, L16x128, L16x256, L16x32x2, Count };
constexpr const char* kNames[] = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"};
constexpr unsigned kRegisters[] = {1, 1, 2, 4, 1};  // of x1

struct Cell {
  uint32_t lane, column;
};
Cell cell(Shape shape, uint32_t thread, uint32_t r) {
  switch (shape) {
    case Shape::L32x32: return {thread, r};
    case Shape::L16x64: return {thread / 4 + 8 * (thread % 2), 2 * r + thread / 2 % 2};
    case Shape::L16x128: return {thread / 4 + 8 * (r % 2), 4 * (r / 2) + thread % 4};
    case Shape::L16x256: return {thread / 4 + 8 * (r / 2 % 2), 8 * (r / 4) + 2 * (thread % 4) + r % 2};
    default: return {thread % 16, r};
  }
}

// Whether the warp may use the lanes of the address: its own quarter, and the shape's first lane in it. A lane of the first
// quarter stands for the same lane of the warp's own: cuDNN's kernels leave the quarter out.
bool own_quarter(Warp& w, const Inst& i, Shape shape, uint32_t& lane) {
  const uint32_t quarter = w.index % 4;
  if ((lane / 32 == quarter || lane < 32) && (lane % 32 == 0 || (shape != Shape::L32x32 && lane % 32 == 16))) return lane = 32 * quarter + lane % 32, true;
  w.block->launch->report->add(Finding::TensorMemoryMisuse, w, i, -1, [&] {
    return "it begins at lane " + std::to_string(lane) + " of tensor memory, and the quarter of warp " + std::to_string(w.index) + " is lanes " +
           std::to_string(32 * quarter) + " to " + std::to_string(32 * quarter + 31);
  });
  return lane < TensorMemory::kLanes && lane % 16 == 0 && (shape != Shape::L32x32 || lane % 32 == 0);
}

// What tcgen05.ld.red makes of a thread's columns; bits of `target`. NaN is left out where no .NaN asks for it (as of min and max).
constexpr uint32_t kReduces = 1, kLargest = 2, kAbsolute = 4, kKeepsNan = 8, kUnsigned = 16, kSigned = 32;

uint32_t reduced(uint32_t how, uint32_t a, uint32_t b) {
  const bool largest = how & kLargest;
  if (how & kUnsigned) return largest ? std::max(a, b) : std::min(a, b);
  if (how & kSigned) return uint32_t(largest ? std::max(int32_t(a), int32_t(b)) : std::min(int32_t(a), int32_t(b)));
  const float x = float_of(a), y = float_of(b);
  if (x != x || y != y) return how & kKeepsNan || (x != x && y != y) ? kNan : x != x ? b : a;
  if (x == y) return largest ? a & b : a | b;  // zeros differ by their sign, and -0 is the smaller one
  return (x < y) == largest ? b : a;
}
void reduce(Warp& w, const Inst& i, unsigned registers, uint32_t mask) {
  const Slot to = i.slots[registers];
  uint32_t* out = lanes_of<uint32_t>(w, to);
  const uint32_t sign = i.target & kAbsolute ? 0x7fffffff : kAll;
  uint32_t known = kAll;
  for (unsigned r = 0; r < registers; ++r) {
    const uint32_t* values = lanes_of<uint32_t>(w, i.slots[r]);
    known &= w.defined[i.slots[r].id];
    each_lane(mask, [&](int l) { out[l] = r ? reduced(i.target, out[l], values[l] & sign) : values[l] & sign; });
  }
  w.define(to, w.block->checks ? known : kAll, mask);
  if (w.block->checks) w.hold({to.id, kLoadGroup, false});
}

// slots of a load: registers, [what is made of them], address; of a store: address, registers. `count`: the shape; `width`: 2 where 16-bit halves of
// two columns share a register; imm: the offset of the address, and above it that of the second half of 16x32bx2.
template <bool load> void move(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, load ? "tcgen05.ld" : "tcgen05.st")) return;
  const Shape shape = Shape(i.count);
  const unsigned registers = load ? i.dests - (i.target & kReduces) : i.sources - 1u;
  const Slot base = load ? i.slots[i.dests] : i.slots[0], *regs = load ? i.slots : i.slots + 1;
  const int first = __builtin_ctz(mask);
  if (w.block->checks) require_defined(w, i, base, mask, "an address in tensor memory");
  const uint32_t* addresses = lanes_of<uint32_t>(w, base);
  each_lane(mask, [&](int l) {
    if (addresses[l] != addresses[first])
      w.block->launch->report->add(Finding::TensorMemoryMisuse, w, i, l, [&] { return of_lane(l) + " has another address in tensor memory than lane " + std::to_string(first); });
  });
  const uint32_t address = addresses[first] + uint32_t(i.imm), split = uint32_t(uint64_t(i.imm) >> 32), column0 = address & 0xffff;
  uint32_t lane0 = address >> 16;
  const unsigned packed = i.width == 2 ? 2 : 1;
  TensorMemory& memory = *w.block->tensor;
  const bool reaches = own_quarter(w, i, shape, lane0);
  uint32_t last = 0;
  for (uint32_t t = 0; t < 32; t += 1) last = std::max(last, cell(shape, t, registers - 1).column);
  const uint32_t span = (last + 1) * packed;
  bool there = reaches && memory.inside(w, i, lane0, column0, span);
  if (there && shape == Shape::L16x32x2) there = memory.inside(w, i, lane0, column0 + split, span);
  if (!there) {
    if (load)
      for (unsigned r = 0; r < i.dests; ++r) w.define(regs[r], 0, mask);
    return;
  }
  const bool checks = w.block->checks;
  if (checks)
    for (uint32_t lane = lane0; lane < lane0 + (shape == Shape::L32x32 ? 32 : 16); ++lane)
      for (uint32_t half = 0; half < (shape == Shape::L16x32x2 ? 2u : 1u); ++half) {
        const uint32_t column = column0 + half * split;
        load ? void(memory.read(w, i, lane, column, span, TensorMemory::By::Warp)) : memory.write(w, i, lane, column, span, TensorMemory::By::Warp);
      }
  for (unsigned r = 0; r < registers; ++r) {
    uint32_t* values = lanes_of<uint32_t>(w, regs[r]);
    uint32_t known = load ? 0 : w.defined[regs[r].id];
    for (uint32_t t = 0; t < 32; ++t) {
      if (!(mask >> t & 1)) continue;
      const Cell c = cell(shape, t, r);
      const uint32_t lane = lane0 + c.lane, column = column0 + c.column * packed + (shape == Shape::L16x32x2 && t >= 16 ? split : 0);
      uint32_t* at = memory.row(lane) + column;
      if (load) {
        values[t] = packed == 2 ? (at[0] & 0xffff) | at[1] << 16 : at[0];
        known |= uint32_t(memory.defined(lane, column) && (packed == 1 || memory.defined(lane, column + 1))) << t;
      } else {
        if (packed == 2) at[0] = values[t] & 0xffff, at[1] = values[t] >> 16;
        else at[0] = values[t];
        if (checks)
          for (unsigned h = 0; h < packed; ++h) memory.define(lane, column + h, known >> t & 1);
      }
    }
    if (load) {
      w.define(regs[r], checks ? known : kAll, mask);
      if (checks) w.hold({regs[r].id, kLoadGroup, false});
    }
  }
  if (load && i.target & kReduces) reduce(w, i, registers, mask);
}

void wait_load(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "tcgen05.wait::ld")) return;
  w.release([](const Outstanding& one) { return one.group == kLoadGroup; });
  w.block->tensor->waited(w, true);
}
void wait_store(Warp& w, const Inst& i, uint32_t mask) {
  if (together(w, i, mask, w.alive, "tcgen05.wait::st")) w.block->tensor->waited(w, false);
}

}  // namespace

Handler bind_tensor_move(Binding& b) {
  if (!b.take("sync") || !b.take("aligned")) return nullptr;
  if (b.take("wait::ld")) return b.count(0, 0), wait_load;
  if (b.take("wait::st")) return b.count(0, 0), wait_store;
  b.out.cls = Class::Move;
  const bool load = b.take("ld");
  if (!load && !b.take("st")) return nullptr;
  const bool reduces = load && b.take("red");
  unsigned shape = 0, times = 1;
  while (shape < unsigned(Shape::Count) && !b.take(kNames[shape])) ++shape;
  if (shape == unsigned(Shape::Count)) b.refuse("its shape is not implemented");
  while (times <= 128 && !b.take(("x" + std::to_string(times)).c_str())) times *= 2;
  const unsigned registers = times * kRegisters[shape];
  if (registers > 128) b.refuse("its shape is not implemented");
  b.out.count = uint8_t(shape), b.out.width = b.any({"pack::16b", "unpack::16b"}) ? 2 : 4;
  const bool split = shape == unsigned(Shape::L16x32x2);
  if (reduces) {
    if (shape != unsigned(Shape::L32x32) || times < 2 || b.out.width == 2) b.refuse("of tcgen05.ld.red, 32x32b from .x2 on is implemented");
    const bool largest = b.take("max"), absolute = b.take("abs"), keeps = b.take("NaN");
    if (!largest && !b.take("min")) b.refuse("it needs .min or .max");
    const Type type = b.type();
    if (type != Type::F32 && (absolute || keeps || (type != Type::U32 && type != Type::S32))) return nullptr;
    b.out.target = kReduces | (largest ? kLargest : 0) | (absolute ? kAbsolute : 0) | (keeps ? kKeepsNan : 0) |
                   (type == Type::U32 ? kUnsigned : type == Type::S32 ? kSigned : 0);
  } else if (b.type() != Type::B32) return nullptr;
  b.count(split || reduces ? 3 : 2, split || reduces ? 3 : 2);
  const Operand& values = b.operand(load ? 0 : split ? 2 : 1);
  const std::vector<Operand> single{values};
  const std::vector<Operand>& parts = values.kind == Operand::Vector ? values.parts : single;
  if (parts.size() != registers) b.refuse("its vector has not " + std::to_string(registers) + " registers");
  if (load)
    for (const Operand& part : parts) b.dest(part, Type::B32);
  if (reduces) {
    const Operand& result = b.operand(1);  // Triton writes it as a vector of one
    b.dest(result.kind == Operand::Vector && result.parts.size() == 1 ? result.parts[0] : result, Type::B32);
  }
  b.address(reduces ? 2 : load ? 1 : 0);
  if (!(b.out.wide & 0x80)) b.refuse("an address in tensor memory has 32 bits");
  b.out.imm = int64_t(uint32_t(b.out.imm));
  if (split) {
    const Operand& by = b.operand(load ? 2 : 1);
    if (by.kind != Operand::Integer) b.refuse("the offset of the second half is a constant");
    b.out.imm |= int64_t(uint64_t(by.value) << 32);
  }
  if (!load)
    for (const Operand& part : parts) b.source(part, Type::B32);
  return load ? move<true> : move<false>;
}

}  // namespace ptx
