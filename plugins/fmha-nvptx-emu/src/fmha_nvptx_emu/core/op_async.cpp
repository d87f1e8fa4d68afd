// Asynchronous copies of sm_80. Source: PTX ISA 9.1, 9.7.9.25.3. The data arrives at once; the books say that it is
// outstanding until its thread waits. Groups are counted by warp: the lanes of a warp that commit apart share one count.
#include "access.hpp"
#include "binding.hpp"
#include "cluster.hpp"
#include "together.hpp"

namespace ptx {

namespace {

// All lanes copy 16 bytes between places that are plainly there. False: something is to be reported or looked at by lanes, and nothing
// was done.
bool copy_whole(Warp& w, const Inst& i) {
#ifdef PTX_AVX512
  Block& b = *w.block;
  if (emulation::careful || i.width != 16 || i.sources != 2 || i.wide != 0x80 || b.clustered) return false;
  if (b.checks && (w.defined[i.slots[0].id] & w.defined[i.slots[1].id]) != kAll) return false;
  Lanes from;
  const uint64_t by = uint64_t(i.imm >> 32), *base = lanes_of<uint64_t>(w, i.slots[1]);
  for (int l = 0; l < 32; ++l) from.at[l] = base[l] + by;
  for (int l = 0; l < 32; ++l) __builtin_prefetch(reinterpret_cast<const void*>(from.at[l]));  // they arrive while the books are kept
  Together all;
  bool apart = true;
  if (!all.take_pieces(lanes_of<uint32_t>(w, i.slots[0]), uint32_t(i.imm), b.shared.bytes(), apart)) return false;
  if (!plainly_global(b, kAll, from, 16, false) || (b.checks && !b.shared.write_later(w, all))) return false;
  b.counts.global_read += 512, b.counts.shared_written += 512;
  count_sectors(w, kAll, from, 16);
  auto* to = reinterpret_cast<__m128i*>(b.shared.data());
  for (int l = 0; l < 32; ++l) _mm_storeu_si128(to + all.piece[l], _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.at[l])));
  return true;
#else
  return false;
#endif
}

// slots: shared address, global address, and the source's bytes (imm2 in `target` if there is no register)
void copy(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == kAll && copy_whole(w, i)) return;
  Block& b = *w.block;
  Lanes to, from;
  const uint32_t bytes = i.width;
  const auto gather = [&](Slot slot, bool narrow_base, int32_t by, Lanes& out) {
    for (int l = 0; l < 32; ++l)
      out.at[l] = narrow_base ? uint32_t(reinterpret_cast<const uint32_t*>(w.row(slot))[l] + uint32_t(by))
                              : reinterpret_cast<const uint64_t*>(w.row(slot))[l] + uint64_t(int64_t(by));
    if (b.checks) require_defined(w, i, slot, mask, "an address");
  };
  gather(i.slots[0], i.wide & 0x80, int32_t(i.imm), to);
  gather(i.slots[1], i.wide & 1, int32_t(i.imm >> 32), from);
  each_lane(mask, [&](int l) { __builtin_prefetch(reinterpret_cast<const void*>(from.at[l])); });  // they arrive while the books are kept
  uint32_t sizes[32];
  for (int l = 0; l < 32; ++l) sizes[l] = bytes;
  if (i.sources == 3) {
    const uint32_t* given = reinterpret_cast<const uint32_t*>(w.row(i.slots[2]));
    if (b.checks) require_defined(w, i, i.slots[2], mask, "how much is copied");
    for (int l = 0; l < 32; ++l) sizes[l] = given[l] < bytes ? given[l] : bytes;
  }
  uint32_t whole = mask, some = 0;
  if (i.sources == 3) {
    whole = 0;
    for (int l = 0; l < 32; ++l) whole |= uint32_t(sizes[l] == bytes) << l, some |= uint32_t(sizes[l] && sizes[l] != bytes) << l;
    whole &= mask, some &= mask;
  }
  uint32_t readable = whole ? global_lanes(w, i, whole, from, bytes, false) : 0;
  each_lane(some, [&](int l) {  // a part: byte by byte, because the size need not be a power of two
    bool good = true;
    for (uint32_t k = 0; k < sizes[l] && good; ++k) {
      Lanes one;
      one.at[l] = from.at[l] + k;
      good = global_lanes(w, i, 1u << l, one, 1, false) != 0;
    }
    readable |= uint32_t(good) << l;
  });
  if (b.clustered)
    for (int l = 0; l < 32; ++l) to.at[l] = seen_from(b, to.at[l]);
  const uint32_t good = limited_lanes(w, i, mask, to, bytes, b.shared.bytes(), "shared");
  const uint64_t total = uint64_t(bytes) * unsigned(__builtin_popcount(mask));
  b.counts.global_read += total, b.counts.shared_written += total;
  if (whole) count_sectors(w, whole, from, bytes);
  if (b.checks) b.shared.write_later(w, i, good, to.at, bytes);
  if (bytes == 16 && (whole & readable) == good) return each_lane(good, [&](int l) { std::memcpy(b.shared.data() + to.at[l], reinterpret_cast<const void*>(from.at[l]), 16); });
  each_lane(good, [&](int l) {
    uint8_t* at = b.shared.data() + to.at[l];
    if (readable >> l & 1) {
      std::memcpy(at, reinterpret_cast<const void*>(from.at[l]), sizes[l]);
      if (sizes[l] < bytes) std::memset(at + sizes[l], 0, bytes - sizes[l]);
    } else std::memset(at, 0, bytes);
  });
}

void commit(Warp& w, const Inst&, uint32_t) { w.copies.commit(); }

void wait(Warp& w, const Inst& i, uint32_t) {
  if (i.target) w.copies.commit();  // wait_all: everything before, as if committed
  w.copies.wait(uint32_t(i.imm), w.time);
}

Handler bind_cp(Binding& b) {
  const bool reduces = b.take("reduce");
  if (!b.take("async")) b.refuse("it needs .async");
  if (b.take("bulk")) return bind_bulk(b, reduces);
  if (b.take("mbarrier")) return bind_copies_arrive(b);
  if (b.take("commit_group")) return b.count(0, 0), commit;
  if (b.take("wait_all")) return b.out.target = 1, wait;
  if (b.take("wait_group")) {
    if (b.operand(0).kind != Operand::Integer) b.refuse("the number of groups is a constant");
    return b.out.imm = b.operand(0).value, wait;
  }
  const bool all = b.take("ca"), global = b.take("cg");
  const bool shared = b.take("shared") || b.take("shared::cta");
  if (all == global || !shared || !b.take("global")) return nullptr;
  b.any({"L2::64B", "L2::128B", "L2::256B"});
  b.count(3, 4);
  if (b.operand(2).kind != Operand::Integer) b.refuse("the number of bytes is a constant");
  const int64_t bytes = b.operand(2).value;
  if (bytes != 16 && (global || (bytes != 4 && bytes != 8))) b.refuse("it copies 4, 8 or 16 bytes, with .cg 16");
  b.out.width = uint8_t(bytes);
  b.out.space = Space::Shared;
  b.address(0);
  const int64_t to = b.out.imm;
  const uint8_t narrow_base = b.out.wide;
  b.out.wide = 0, b.out.space = Space::Global;
  b.address(1);
  b.out.imm = int64_t(uint64_t(uint32_t(to)) | uint64_t(b.out.imm) << 32);
  b.out.wide = uint8_t(narrow_base | (b.out.wide ? 1 : 0));
  if (b.s.operands.size() == 4) b.source(3, Type::U32);
  b.out.own_flow = true;
  return copy;
}

constexpr Opcode rows[] = {{"cp", "9.7.9.25.3", Class::Async, bind_cp}};

}  // namespace

extern const Table kAsyncOpcodes{rows, std::size(rows)};

}  // namespace ptx
