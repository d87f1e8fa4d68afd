// tcgen05.cp: copies from shared memory, and tcgen05.shift. Source: PTX ISA 9.1, 9.7.16.9.
#include <algorithm>

#include "access.hpp"
#include "binding.hpp"
#include "cluster.hpp"
#include "matrix_tile.hpp"
#include "tensor_form.hpp"
#include "tensor_memory.hpp"

namespace ptx {

namespace {

constexpr uint32_t kPair = 1;  // options, in `target`
constexpr uint32_t kRows = 32, kWords = 8;  // of a shift

uint32_t value(const Warp& w, Slot slot, int lane) { return lanes_of<uint32_t>(w, slot)[lane]; }

struct Shape {
  const char *name, *cast;
  uint32_t rows, bytes;
};
constexpr Shape kShapes[] = {{"128x256b", nullptr, 128, 32}, {"4x256b", nullptr, 4, 32},       {"128x128b", nullptr, 128, 16},
                             {"64x128b", "warpx2::02_13", 64, 16}, {"64x128b", "warpx2::01_23", 64, 16}, {"32x128b", "warpx4", 32, 16}};

// The lanes that receive a row: of all four quarters, those in `quarters`.
uint32_t quarters_of(unsigned shape, uint32_t row) {
  switch (shape) {
    case 3: return row < 32 ? 0b0101 : 0b1010;
    case 4: return row < 32 ? 0b0011 : 0b1100;
    case 5: return 0b1111;
    default: return 0;
  }
}

// Sixteen bytes of shared memory with 16 elements of `bits` bits, as 16 elements of a byte.
void unpack(unsigned bits, uint8_t* chunk) {
  uint8_t out[16];
  for (unsigned e = 0; e < 16; ++e) {
    const unsigned at = bits * e;
    const uint32_t two = chunk[at / 8] | uint32_t(chunk[at / 8 + 1]) << 8;
    const uint32_t code = two >> at % 8 & ((1u << bits) - 1);
    out[e] = uint8_t(bits == 4 ? code << 2 : code);
  }
  std::memcpy(chunk, out, 16);
}

// slots: address in tensor memory, descriptor; imm: the offset, `count`: the shape, `width`: the bits of an element that becomes a byte
void copy(Warp& w, const Inst& i, uint32_t mask) {
  const Shape& shape = kShapes[i.count];
  const uint32_t needed = i.width ? 2 * i.width : 16;  // bytes of a chunk; the others are padding
  each_lane(mask, [&](int lane) {
    if (w.block->checks) require_defined(w, i, i.slots[0], 1u << lane, "an address in tensor memory"), require_defined(w, i, i.slots[1], 1u << lane, "a matrix descriptor");
    const uint32_t to = value(w, i.slots[0], lane) + uint32_t(i.imm);
    const Descriptor d(lanes_of<uint64_t>(w, i.slots[1])[lane]);
    if (d.based) stop(i, w, "a matrix descriptor with a base offset is not implemented");
    for (uint32_t rank = w.block->rank & ~1u, k = 0; k < (i.target & kPair ? 2u : 1u); ++k) {
      Block* block = i.target & kPair ? w.block->cluster->at(rank + k) : w.block;
      if (!block) stop(i, w, "the block has no other of its pair");
      if (!block->tensor->inside(w, i, 0, to & 0xffff, shape.bytes / 4)) return;
      const auto by = block == w.block ? TensorMemory::By::Pipe : TensorMemory::By::Peer;
      for (uint32_t row = 0; row < shape.rows; ++row) {
        uint8_t bytes[32];
        bool whole = true;
        for (uint32_t byte = 0; byte < shape.bytes; byte += 16) {
          const uint32_t at = place_along_k(d, row, byte);
          if (at + 16 > block->shared.bytes()) {
            w.block->launch->report->add(Finding::OutOfBounds, w, i, lane, [&] { return "a matrix descriptor leads to " + hex(at) + " of " + std::to_string(block->shared.bytes()) + " bytes of shared memory"; });
            return;
          }
          if (w.block->checks) whole &= block == w.block ? w.block->shared.read_later(w, i, lane, at, needed, false) : block->shared.read_peer(w, i, lane, at, needed);
          std::memcpy(bytes + byte, block->shared.data() + at, 16);
          if (i.width) unpack(i.width, bytes + byte);
        }
        const auto put = [&](uint32_t tensor_lane) {
          const uint32_t column = to & 0xffff;
          if (w.block->checks) block->tensor->write(w, i, tensor_lane, column, shape.bytes / 4, by);
          std::memcpy(block->tensor->row(tensor_lane) + column, bytes, shape.bytes);
          for (uint32_t c = 0; !whole && c < shape.bytes / 4; ++c) block->tensor->define(tensor_lane, column + c, false);
        };
        if (const uint32_t quarters = quarters_of(i.count, row)) {
          for (uint32_t q = 0; q < 4; ++q)
            if (quarters >> q & 1) put(32 * q + row % 32);
        } else put(shape.rows == 4 ? 32 * row : row);
      }
    }
  });
}

}  // namespace

Handler bind_tensor_fill(Binding& b) {
  unsigned found = unsigned(std::size(kShapes));
  for (unsigned k = 0; k < std::size(kShapes); ++k) {
    const auto has = [&](const char* name) { return std::find(b.s.mods.begin(), b.s.mods.end(), name) != b.s.mods.end(); };
    if (has(kShapes[k].name) && (!kShapes[k].cast || has(kShapes[k].cast))) found = k;
  }
  if (found == std::size(kShapes)) b.refuse("its shape is not implemented");
  b.take(kShapes[found].name);
  if (kShapes[found].cast) b.take(kShapes[found].cast);
  b.out.count = uint8_t(found), b.out.width = 0;
  if (b.take("b8x16")) {
    b.out.width = b.take("b6x16_p32") ? 6 : b.take("b4x16_p64") ? 4 : 0;
    if (!b.out.width) b.refuse("it needs .b6x16_p32 or .b4x16_p64");
  }
  b.count(2, 2);
  b.address(0), b.source(1, Type::B64);
  return copy;
}

namespace {
// slots: address in tensor memory; imm: the offset. Each of the first 31 rows goes one row down, so the first one stays twice.
void shift(Warp& w, const Inst& i, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    if (w.block->checks) require_defined(w, i, i.slots[0], 1u << lane, "an address in tensor memory");
    const uint32_t at = value(w, i.slots[0], lane) + uint32_t(i.imm), first = at >> 16, column = at & 0xffff;
    if (first % kRows) stop(i, w, "the lane " + std::to_string(first) + " of its address is not a multiple of 32");
    for (uint32_t k = 0; k < (i.target & kPair ? 2u : 1u); ++k) {
      Block* block = i.target & kPair ? w.block->cluster->at((w.block->rank & ~1u) + k) : w.block;
      if (!block) stop(i, w, "the block has no other of its pair");
      TensorMemory& memory = *block->tensor;
      if (!memory.inside(w, i, first, column, kWords)) return;
      const auto by = block == w.block ? TensorMemory::By::Pipe : TensorMemory::By::Peer;
      for (uint32_t row = first + kRows - 1; row > first; --row) {
        bool known[kWords];
        for (uint32_t c = 0; c < kWords; ++c) known[c] = memory.defined(row - 1, column + c);
        if (w.block->checks) memory.read(w, i, row - 1, column, kWords, by), memory.write(w, i, row, column, kWords, by);
        std::copy_n(memory.row(row - 1) + column, kWords, memory.row(row) + column);
        for (uint32_t c = 0; w.block->checks && c < kWords; ++c) memory.define(row, column + c, known[c]);
      }
    }
  });
}
}  // namespace

Handler bind_tensor_shift(Binding& b) {
  if (!b.take("down")) return nullptr;
  b.count(1, 1);
  b.address(0);
  return shift;
}

}  // namespace ptx
