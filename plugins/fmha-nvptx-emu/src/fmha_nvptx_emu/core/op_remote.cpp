// Asynchronous stores, reductions and copies to shared memory of a block of the cluster, whose mbarrier counts the bytes.
// Source: PTX ISA 9.1, 9.7.9.12 (st.async), 9.7.13.7 (red.async), 9.7.9.25.4 (cp.async.bulk.shared::cluster.shared::cta).
//
// The data arrives at once and is outstanding for the other block's warps until they have waited for the mbarrier's phase.
// Whether the source of a copy is written again before that is not checked.
#include "bulk.hpp"

#include "atomic_change.hpp"

namespace ptx {

void bulk_stop(const Inst& i, const Warp& w, const std::string& why) {
  throw Fault{"line " + std::to_string(i.at->line) + ": " + std::string(i.at->text) + " in " + w.block->kernel->name + ": " + why};
}

void bulk_address(Binding& b, size_t k, unsigned which) {
  const Operand& o = b.operand(k);
  if (o.kind != Operand::Address) b.refuse("operand " + std::to_string(k) + " is not address");
  if (o.variable) return b.sources.push_back(b.layout.address(*o.variable, o.value, true));
  if (!o.reg || bits_of(o.reg->type) < 32) b.refuse("an address has a register of 32 or 64 bits");
  if (bits_of(o.reg->type) == 32) b.out.wide |= uint8_t(1u << which);
  if (which == 2 && o.value) b.refuse("an offset of the mbarrier's address is not implemented");
  if (which < 2) b.out.imm |= int64_t(uint64_t(uint32_t(o.value)) << 32 * which);
  b.sources.push_back(b.layout.reg(*o.reg));
}

uint64_t bulk_place(const Warp& w, const Inst& i, Slot slot, unsigned which, int lane) {
  const int64_t by = which == 2 ? 0 : int64_t(int32_t(uint64_t(i.imm) >> 32 * which));
  if (i.wide >> which & 1) return uint32_t(reinterpret_cast<const uint32_t*>(w.row(slot))[lane] + uint32_t(by));
  return reinterpret_cast<const uint64_t*>(w.row(slot))[lane] + uint64_t(by);
}

bool shared_place(Warp& w, const Inst& i, int lane, uint64_t& at, uint32_t bytes, uint32_t align) {
  const Placed p = at >> 56 ? placed(Space::Generic, at) : Placed{Space::Shared, at};
  Lanes a;
  a.at[lane] = at = p.space == Space::Shared ? p.at : ~uint64_t(0) - align + 1;
  return limited_lanes(w, i, 1u << lane, a, bytes, w.block->shared.bytes(), "shared", align) != 0;
}

bool counted_place(Warp& w, const Inst& i, int lane, uint64_t at, uint64_t bar, uint32_t bytes, uint32_t align, Counted& out) {
  at = seen_from(*w.block, at), bar = seen_from(*w.block, bar);
  if (at >> 56) at = placed(Space::Generic, at).at;
  if (bar >> 56) bar = placed(Space::Generic, bar).at;
  Block &to = block_of(w, i, at), &counts = block_of(w, i, bar);
  if (&to != &counts) bulk_stop(i, w, "the data and the mbarrier lie in different blocks");
  if (!shared_place(w, i, lane, at, bytes, align) || !shared_place(w, i, lane, bar, 8, 8) || !note_signal(w, i, lane, to)) return false;
  out = {&to, uint32_t(at), to.mbarriers.find(w, i, lane, uint32_t(bar), &to != w.block)};
  return out.m != nullptr;
}

namespace {

void all_defined(Warp& w, const Inst& i, uint32_t mask, const char* what) {
  for (unsigned k = 0; w.block->checks && k < i.sources; ++k) require_defined(w, i, i.slots[k], mask, what);
}

// slots: destination, mbarrier, values
void store(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t bytes = uint32_t(i.width) * i.count;
  all_defined(w, i, mask, "an asynchronous store");
  each_lane(mask, [&](int l) {
    Counted to;
    if (!counted_place(w, i, l, bulk_place(w, i, i.slots[0], 0, l), bulk_place(w, i, i.slots[1], 2, l), bytes, bytes, to)) return;
    if (w.block->checks) to.block->shared.write_bulk(w, i, l, to.at, bytes, to.stamp(), to.block != w.block);
    for (unsigned k = 0; k < i.count; ++k) std::memcpy(to.block->shared.data() + to.at + k * i.width, w.row(i.slots[2 + k]) + l * i.width, i.width);
    w.block->counts.shared_written += bytes;
    to.block->mbarriers.expect(w, i, l, *to.m, -int64_t(bytes));
  });
}

// slots: destination, mbarrier, value
template <unsigned size> void reduce_by(Warp& w, const Inst& i, uint32_t mask, Change change_word) {
  using Word = std::conditional_t<size == 8, uint64_t, uint32_t>;
  all_defined(w, i, mask, "an asynchronous reduction");
  each_lane(mask, [&](int l) {
    Counted to;
    if (!counted_place(w, i, l, bulk_place(w, i, i.slots[0], 0, l), bulk_place(w, i, i.slots[1], 2, l), size, size, to)) return;
    if (w.block->checks && to.block->shared.update_remote(to.at, size, to.stamp()) == SharedMemory::Held::Nothing)
      w.block->launch->report->add(Finding::UninitialisedShared, w, i, l, [&] {
        return of_lane(l) + " updates shared word " + hex(to.at) + ", which was never written";
      });
    change_word(to.block->shared.data() + to.at, lanes_of<Word>(w, i.slots[2])[l], 0, true);
    w.block->counts.shared_read += size, w.block->counts.shared_written += size;
    to.block->mbarriers.expect(w, i, l, *to.m, -int64_t(size));
  });
}
template <class T, class Op> void reduce(Warp& w, const Inst& i, uint32_t mask) { reduce_by<sizeof(T)>(w, i, mask, change<T, Op>); }

// slots: destination, source, mbarrier, size
void copy(Warp& w, const Inst& i, uint32_t mask) {
  all_defined(w, i, mask, "a bulk copy");
  each_lane(mask, [&](int l) {
    const uint32_t bytes = lanes_of<uint32_t>(w, i.slots[3])[l];
    if (bytes % 16) bulk_stop(i, w, "it copies " + std::to_string(bytes) + " bytes, not a multiple of 16");
    Counted to;
    uint64_t from = seen_from(*w.block, bulk_place(w, i, i.slots[1], 1, l));
    if (!counted_place(w, i, l, bulk_place(w, i, i.slots[0], 0, l), bulk_place(w, i, i.slots[2], 2, l), bytes, 16, to)) return;
    if (!shared_place(w, i, l, from, bytes, 16)) return;
    if (w.block->checks) {
      if (!w.block->shared.read(w, i, l, uint32_t(from), bytes))
        w.block->launch->report->add(Finding::UninitialisedShared, w, i, l, [&] {
          return of_lane(l) + " copies shared bytes at " + hex(from) + ", which were never written";
        });
      to.block->shared.write_bulk(w, i, l, to.at, bytes, to.stamp(), to.block != w.block);
    }
    std::memmove(to.block->shared.data() + to.at, w.block->shared.data() + from, bytes);
    w.block->counts.shared_read += bytes, w.block->counts.shared_written += bytes;
    to.block->mbarriers.expect(w, i, l, *to.m, -int64_t(bytes));
  });
}

bool counted_by_mbarrier(Binding& b) {
  b.out.own_flow = true, b.out.space = Space::Shared;
  return b.take("mbarrier::complete_tx::bytes");
}

}  // namespace

// `st.async [a], b, [mbar]`
Handler bind_store_async(Binding& b) {
  b.any({"weak", "relaxed", "cluster"});
  b.take("shared::cluster");  // the default
  if (!counted_by_mbarrier(b)) b.refuse("only stores that an mbarrier counts are implemented");
  const unsigned n = b.take("v2") ? 2 : b.take("v4") ? 4 : 1;
  const Type type = b.type();
  b.count(3, 3);
  b.out.width = uint8_t(bits_of(type) / 8), b.out.count = uint8_t(n);
  if (b.out.width != 4 && b.out.width != 8) return nullptr;
  const Operand& data = b.operand(1);
  if (n > 1 && (data.kind != Operand::Vector || data.parts.size() != n)) b.refuse("it needs a vector of " + std::to_string(n) + " registers");
  bulk_address(b, 0, 0), bulk_address(b, 2, 2);
  for (unsigned k = 0; k < n; ++k) b.source(n > 1 ? data.parts[k] : data, type);
  return store;
}

// `red.async.op [a], b, [mbar]`
Handler bind_reduce_async(Binding& b) {
  b.any({"relaxed", "cluster"});
  b.take("shared::cluster");
  if (!counted_by_mbarrier(b)) b.refuse("only reductions that an mbarrier counts are implemented");
  std::string op;
  for (const char* one : {"add", "min", "max", "and", "or", "xor", "inc", "dec"})
    if (op.empty() && b.take(one)) op = one;
  const Type type = b.type();
  b.count(3, 3);
  bulk_address(b, 0, 0), bulk_address(b, 2, 2), b.source(1, type);
  const auto of = [&]<class T>(T) { return of_operation(op, [](auto change) -> Handler { return reduce<T, decltype(change)>; }); };
  switch (type) {
    case Type::U32: case Type::B32: return of(uint32_t{});
    case Type::S32: return of(int32_t{});
    case Type::U64: return op == "add" ? of(uint64_t{}) : nullptr;
    default: return nullptr;
  }
}

Handler bind_bulk_between(Binding& b) {
  b.count(4, 4);
  bulk_address(b, 0, 0), bulk_address(b, 1, 1), bulk_address(b, 3, 2);
  b.source(2, Type::U32);
  return copy;
}

}  // namespace ptx
