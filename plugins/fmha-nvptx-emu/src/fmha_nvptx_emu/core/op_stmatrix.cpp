// stmatrix: the converse of ldmatrix. Source: PTX ISA 9.1, 9.7.14.5.16.
#include "access.hpp"
#include "binding.hpp"

namespace ptx {

namespace {

// Lane 8j+r gives the address of row r of matrix j. Without .trans lane l holds elements 2(l%4), 2(l%4)+1 of row l/4; with
// it, of column l/4.
template <bool transposed> void store_matrix(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "stmatrix")) return;
  Block& b = *w.block;
  const uint32_t targets = i.count == 4 ? kAll : (1u << 8 * i.count) - 1;
  Lanes a;
  addresses(w, i, i.slots[0], targets, a);
  const uint32_t good = limited_lanes(w, i, targets, a, 16, b.shared.bytes(), "shared");
  count_conflicts(w, targets, a, 16);
  b.counts.shared_written += 128u * i.count;
  each_lane(good, [&](int l) {
    const Slot slot = i.slots[1 + l / 8];
    const uint32_t* data = lanes_of<uint32_t>(w, slot);
    const int row = l % 8;
    uint16_t values[8];
    uint32_t from = 0;  // the lanes that hold the row
    for (int column = 0; column < 8; ++column) {
      const int lane = transposed ? column * 4 + row / 2 : row * 4 + column / 2, half = transposed ? row % 2 : column % 2;
      values[column] = uint16_t(data[lane] >> 16 * half);
      from |= 1u << lane;
    }
    const auto* bytes = reinterpret_cast<const uint8_t*>(values);
    if (b.checks) b.shared.write(w, i, l, uint32_t(a.at[l]), 16, bytes, (w.defined[slot.id] & from & ~w.tainted) == from);
    std::memcpy(b.shared.data() + a.at[l], bytes, 16);
  });
}

Handler bind_stmatrix(Binding& b) {
  if (!b.take("sync") || !b.take("aligned") || !b.take("m8n8")) return nullptr;
  b.out.count = b.take("x4") ? 4 : b.take("x2") ? 2 : b.take("x1") ? 1 : 0;
  const bool transposed = b.take("trans");
  b.any({"shared", "shared::cta"});
  if (!b.out.count || b.type() != Type::B16) return nullptr;
  b.out.space = Space::Shared;
  b.count(2, 2);
  b.address(0);
  const Operand& data = b.operand(1);
  if (data.kind == Operand::Vector) {
    if (data.parts.size() != b.out.count) b.refuse("a vector of another length");
    for (const Operand& part : data.parts) b.source(part, Type::B32);
  } else b.source(data, Type::B32);
  b.out.own_flow = true;
  return transposed ? store_matrix<true> : store_matrix<false>;
}

constexpr Opcode rows[] = {{"stmatrix", "9.7.14.5.16", Class::Shared, bind_stmatrix}};

}  // namespace

extern const Table kStoreMatrixOpcodes{rows, std::size(rows)};

}  // namespace ptx
