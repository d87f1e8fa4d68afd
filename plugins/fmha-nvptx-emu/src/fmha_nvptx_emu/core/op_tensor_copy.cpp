// Bulk copies and reductions, of bytes and of boxes of tensors. Source: PTX ISA 9.1, 9.7.9.25.4 and 9.7.9.27.1. The data arrives at
// once; the books say that it is outstanding until the mbarrier's phase, or the group, has been waited for.
#include <algorithm>

#include "bulk.hpp"
#include "bulk_reduce.hpp"
#include "matrix_tile.hpp"
#include "tensor_map.hpp"

namespace ptx {

namespace {

// Whether global memory has these bytes; `range` keeps the last one that was found.
bool global_place(Warp& w, const Inst& i, int lane, uint64_t at, uint64_t bytes, bool write, Range& range) {
  if (!(at >= range.start && at < range.end)) range = memory().around(at);
  if (at >= range.start && at < range.end && bytes <= range.end - at && (range.writable || !write)) return true;
  w.block->launch->report->add(Finding::OutOfBounds, w, i, lane, [&] {
    return of_lane(lane) + (write ? " writes " : " reads ") + std::to_string(bytes) + " bytes at " + hex(at) +
           (write && range.end && !range.writable ? ", which is read-only: " : ": ") + memory().nearest(at);
  });
  return false;
}

void to_shared(Warp& w, const Inst& i, int lane, Block& to, uint32_t at, const uint8_t* from, uint32_t bytes, uint32_t stamp) {
  if (w.block->checks) to.shared.write_bulk(w, i, lane, at, bytes, stamp, &to != w.block);
  std::memcpy(to.shared.data() + at, from, bytes);
}
void from_shared(Warp& w, const Inst& i, int lane, uint32_t at, uint8_t* to, uint32_t bytes) {
  w.bulk.last = &i, w.bulk.newest = w.bulk.committed + 1;
  if (w.block->checks && !w.block->shared.read_later(w, i, lane, at, bytes, true))
    w.block->launch->report->add(Finding::UninitialisedShared, w, i, lane, [&] {
      return of_lane(lane) + " copies shared bytes at " + hex(at) + ", which were never written, to global memory";
    });
  std::memcpy(to, w.block->shared.data() + at, bytes);
}
// `width`: what becomes of the values that are there. Reductions are atomic operations, so no order of blocks makes them a conflict.
void to_global(Warp& w, const Inst& i, int lane, uint64_t at, const uint8_t* from, uint32_t bytes, Reduce reduce) {
  if (reduce) reduce(reinterpret_cast<uint8_t*>(at), from, bytes);
  else write_global(w, i, lane, at, bytes, from);
}
Reduce reduce_of(const Inst& i, const Warp& w, Type type, bool flushes) {
  if (!i.width) return nullptr;
  if (const Reduce found = reducer(Reduction(i.width), type, flushes)) return found;
  bulk_stop(i, w, "its reduction does not exist for the elements of this tensor map");
}

// ---- Boxes of tensors ----

TensorMap map_at(Warp& w, const Inst& i, uint64_t address) {
  const Placed p = placed(Space::Generic, address);
  TensorMap out{};
  if (p.space == Space::Global && p.at % 64) bulk_stop(i, w, "the tensor map at " + hex(p.at) + " is not at a multiple of 64");
  const std::vector<uint8_t>& parameters = w.block->launch->parameters;
  if (p.space == Space::Param && p.at + sizeof out <= parameters.size()) std::memcpy(&out, parameters.data() + p.at, sizeof out);
  else if (p.space == Space::Global && memory().mapped(p.at, sizeof out)) std::memcpy(&out, reinterpret_cast<void*>(p.at), sizeof out);
  if (out.mark != TensorMap::kMark) bulk_stop(i, w, "there is no tensor map at " + hex(address));
  if (out.rank != i.count) bulk_stop(i, w, "the tensor map has " + std::to_string(out.rank) + " axes");
  return out;
}

void fill_row(const TensorMap& map, uint8_t* row) {
  std::memset(row, 0, map.row_bytes());
  if (!map.fill) return;
  const uint64_t nan = map.type == 6 || map.type == 9 ? 0x7fff : map.element == 4 ? 0x7fffffff : 0x7fffffffffffffff;
  for (uint32_t at = 0; at < map.row_bytes(); at += map.element) std::memcpy(row + at, &nan, map.element);
}

struct Target {
  Block *block, *counts;  // where the data goes, and whose mbarrier counts it: with cta_group::2 it may be the other one of the pair
  Mbarrier* m;
};
constexpr uint32_t kCast = 1, kPair = 2;  // options, in `target`
// Where a load goes: the block of its address, or all of a multicast's. `at` loses its block.
bool targets_of(Warp& w, const Inst& i, int lane, uint64_t& at, uint64_t bar, uint32_t cast, std::vector<Target>& out) {
  at = seen_from(*w.block, at), bar = seen_from(*w.block, bar);
  if (at >> 56) at = placed(Space::Generic, at).at;
  if (bar >> 56) bar = placed(Space::Generic, bar).at;
  Block &to = block_of(w, i, at), &counts = block_of(w, i, bar);
  const bool pair = i.target & kPair;
  if (&to != &counts && !(pair && partners(to, counts))) bulk_stop(i, w, "the data and the mbarrier lie in different blocks");
  if (!shared_place(w, i, lane, bar, 8, 8)) return false;
  const auto add = [&](Block& block) {
    if (!note_signal(w, i, lane, block)) return;
    Block* of = pair ? w.block->cluster->at((block.rank & ~1u) | (counts.rank & 1)) : &block;  // the signal's parity is the mbarrier's
    if (!of) return no_such_block(w, i, lane, block.rank ^ 1);
    if (of != &block && !note_signal(w, i, lane, *of)) return;
    if (Mbarrier* m = of->mbarriers.find(w, i, lane, uint32_t(bar), of != w.block)) out.push_back({&block, of, m});
  };
  if (!cast) add(to);
  for (uint32_t rank = 0; cast >> rank; ++rank) {
    if (!(cast >> rank & 1)) continue;
    Block* block = w.block->cluster->at(rank);
    if (block) add(*block);
    else no_such_block(w, i, lane, rank);
  }
  return !out.empty();
}

// All rows of a box to the warp's own block, some at a time, whose pieces have their books kept together.
void load_rows(Warp& w, const Inst& i, int lane, const TensorMap& map, const int32_t* coordinates, uint32_t at, uint32_t stamp) {
  Block& b = *w.block;
  const uint32_t bytes = map.row_bytes(), rows = map.rows(), some = std::max(1u, 32 * 16 / bytes);
  uint8_t row[256 * 8], *const data = b.shared.data();
  uint32_t chunks[256 * 8 / 16];
  Range range;
  for (uint32_t first = 0; first < rows; first += some) {
    const uint32_t end = std::min(rows, first + some), count = (end - first) * bytes / 16;
    for (uint32_t k = 0; k < count; ++k) chunks[k] = swizzled(at + first * bytes + 16 * k, map.swizzle);
    for (uint32_t r = end; r < std::min(rows, end + 2 * some); ++r) {  // they arrive while the books are kept
      const BoxRow next = row_of(map, coordinates, r);
      for (uint32_t byte = 0; byte < next.bytes; byte += 64) __builtin_prefetch(reinterpret_cast<const uint8_t*>(next.address) + byte);
    }
    if (b.checks) b.shared.write_pieces(w, i, lane, chunks, count, stamp);
    const uint32_t* chunk = chunks;
    for (uint32_t r = first; r < end; ++r) {
      const BoxRow inside = row_of(map, coordinates, r);
      const auto* from = reinterpret_cast<const uint8_t*>(inside.address);
      const bool there = inside.bytes && global_place(w, i, lane, inside.address, inside.bytes, false, range);
      if (!there || inside.bytes < bytes) {
        fill_row(map, row);
        if (there) std::memcpy(row + inside.skipped, from, inside.bytes);
        from = row;
      }
      for (uint32_t byte = 0; byte < bytes; byte += 16) std::memcpy(data + *chunk++, from + byte, 16);
      b.counts.sectors += (inside.bytes + 31) / 32, b.counts.global_read += inside.bytes;
    }
  }
}

// slots: shared address, map, mbarrier, coordinates, [blocks of a multicast]; of a store: map, shared address, coordinates
template <bool load> void tensor_copy(Warp& w, const Inst& i, uint32_t mask) {
  Block& b = *w.block;
  const Slot *s = i.slots, shared = s[load ? 0 : 1], map_slot = s[load ? 1 : 0], *axes = s + (load ? 3 : 2);
  if (b.checks)
    for (unsigned k = 0; k < i.sources; ++k) require_defined(w, i, s[k], mask, "a bulk copy");
  uint64_t before[8] = {};
  bool repeated = false;
  each_lane(mask, [&](int lane) {
    uint64_t at = bulk_place(w, i, shared, load ? 0 : 1, lane), key[8] = {at, bulk_place(w, i, map_slot, load ? 1 : 0, lane)};
    int32_t coordinates[5] = {};
    for (unsigned k = 0; k < i.count; ++k) key[2 + k] = uint32_t(coordinates[k] = int32_t(lanes_of<uint32_t>(w, axes[k])[lane]));
    if (!load && !i.width && repeated && !std::memcmp(key, before, sizeof key)) return;  // the same store by another lane
    std::memcpy(before, key, sizeof key), repeated = true;
    const TensorMap map = map_at(w, i, key[1]);
    const uint32_t bytes = map.row_bytes(), rows = map.rows();
    const Reduce reduce = reduce_of(i, w, type_of_map(map.type), false);
    std::vector<Target> targets;
    if (load && !targets_of(w, i, lane, at, bulk_place(w, i, s[2], 2, lane), i.target & kCast ? lanes_of<uint32_t>(w, axes[i.count])[lane] & 0xffff : 0, targets)) return;
    if (!load) at = seen_from(b, at);
    const bool plain = load && targets.size() == 1 && targets[0].block == &b && targets[0].counts == &b;
    const bool there = shared_place(w, i, lane, at, bytes * rows, 128);
    if (there) (load ? b.counts.shared_written : b.counts.shared_read) += uint64_t(bytes) * rows;
    if (there && plain) load_rows(w, i, lane, map, coordinates, uint32_t(at), b.mbarriers.stamp(*targets[0].m));
    else if (there) {
      Range range;
      uint8_t row[256 * 8];
      for (uint32_t r = 0; r < rows; ++r) {
        const BoxRow inside = row_of(map, coordinates, r);
        if (load) {
          fill_row(map, row);
          if (inside.bytes && global_place(w, i, lane, inside.address, inside.bytes, false, range))
            std::memcpy(row + inside.skipped, reinterpret_cast<const void*>(inside.address), inside.bytes);
        } else if (!inside.bytes) continue;
        for (uint32_t byte = 0; byte < bytes; byte += 16) {
          const uint32_t chunk = swizzled(uint32_t(at) + r * bytes + byte, map.swizzle);
          for (const Target& to : targets) {
            const uint32_t stamp = to.counts->mbarriers.stamp(*to.m);
            to_shared(w, i, lane, *to.block, chunk, row + byte, 16, to.block == to.counts ? stamp : 0);
            if (to.block != to.counts && b.checks) to.block->shared.expect_peer(*to.counts, chunk, 16, stamp);
          }
          if (!load) from_shared(w, i, lane, chunk, row + byte, 16);
        }
        if (!load && global_place(w, i, lane, inside.address, inside.bytes, true, range))
          to_global(w, i, lane, inside.address, row + inside.skipped, inside.bytes, reduce);
        b.counts.sectors += (inside.bytes + 31) / 32;
        (load ? b.counts.global_read : b.counts.global_written) += inside.bytes;
      }
    }
    for (const Target& to : targets) to.counts->mbarriers.expect(w, i, lane, *to.m, -int64_t(bytes) * rows);
  });
}

// ---- Bytes ----

// slots: destination, source, size, [mbarrier]
template <bool load> void bulk_copy(Warp& w, const Inst& i, uint32_t mask) {
  Block& b = *w.block;
  if (b.checks)
    for (unsigned k = 0; k < i.sources; ++k) require_defined(w, i, i.slots[k], mask, "a bulk copy");
  each_lane(mask, [&](int lane) {
    const uint32_t bytes = lanes_of<uint32_t>(w, i.slots[2])[lane];
    uint64_t to = bulk_place(w, i, i.slots[0], 0, lane), from = bulk_place(w, i, i.slots[1], 1, lane);
    (load ? to : from) = seen_from(b, load ? to : from);
    if (bytes % 16) bulk_stop(i, w, "it copies " + std::to_string(bytes) + " bytes, not a multiple of 16");
    Mbarrier* m = nullptr;
    if (load) {
      uint64_t bar = seen_from(b, bulk_place(w, i, i.slots[3], 2, lane));
      if (!shared_place(w, i, lane, bar, 8, 8) || !(m = b.mbarriers.find(w, i, lane, uint32_t(bar)))) return;
    }
    Range range;
    const uint64_t outside = load ? from : to;
    if (outside % 16)
      b.launch->report->add(Finding::Misaligned, w, i, lane, [&] { return of_lane(lane) + ": " + hex(outside) + " is not a multiple of 16"; });
    const bool there = shared_place(w, i, lane, load ? to : from, bytes, 16), global = global_place(w, i, lane, outside, bytes, !load, range);
    (load ? b.counts.global_read : b.counts.global_written) += bytes, (load ? b.counts.shared_written : b.counts.shared_read) += bytes;
    b.counts.sectors += (bytes + 31) / 32;
    if (load) {
      if (there && global) to_shared(w, i, lane, b, uint32_t(to), reinterpret_cast<const uint8_t*>(from), bytes, b.mbarriers.stamp(*m));
      b.mbarriers.expect(w, i, lane, *m, -int64_t(bytes));
    } else if (there && global) {
      std::vector<uint8_t> values(bytes);
      from_shared(w, i, lane, uint32_t(from), values.data(), bytes);
      to_global(w, i, lane, to, values.data(), bytes, reduce_of(i, w, Type(i.target), true));
    }
  });
}

void commit(Warp& w, const Inst&, uint32_t) { ++w.bulk.committed; }
void wait(Warp& w, const Inst& i, uint32_t) {
  const uint32_t left = uint32_t(i.imm), all = w.bulk.committed;
  w.bulk.finish(all > left ? all - left : 0, w.time);
}
void nothing(Warp&, const Inst&, uint32_t) {}

bool shared_destination(Binding& b) {
  return b.any({"shared::cluster", "shared::cta"});
}

Handler bind_tensor(Binding& b) {
  unsigned rank = 0;
  for (const auto& [name, axes] : {std::pair{"1d", 1u}, {"2d", 2u}, {"3d", 3u}, {"4d", 4u}, {"5d", 5u}})
    if (b.take(name)) rank = axes;
  b.take("tile");
  if (!rank) b.refuse("it has no number of axes");
  b.out.count = uint8_t(rank);
  const bool hint = b.take("L2::cache_hint"), load = b.take("mbarrier::complete_tx::bytes");
  if (!b.take("global") || !shared_destination(b) || (!load && !b.take("bulk_group"))) return nullptr;
  if (load && b.out.width) b.refuse("a reduction goes to global memory");
  const size_t tensor = load ? 1 : 0;
  const Operand& o = b.operand(tensor);
  if (o.kind != Operand::Address || o.parts.size() != 1 || o.parts[0].parts.size() != rank) b.refuse("it needs [map, {coordinates}]");
  const bool cast = load && b.take("multicast::cluster");
  b.any({"cta_group::1"});
  b.out.target = (cast ? kCast : 0) | (b.take("cta_group::2") ? kPair : 0);
  b.kernel.tensor_pair |= bool(b.out.target & kPair);
  b.count((load ? 3u : 2u) + hint + cast, (load ? 3u : 2u) + hint + cast);
  bulk_address(b, 0, 0), bulk_address(b, 1, 1);
  if (load) bulk_address(b, 2, 2);
  for (const Operand& axis : o.parts[0].parts) b.source(axis, Type::S32);
  if (cast) b.source(3, Type::U16);
  return load ? tensor_copy<true> : tensor_copy<false>;
}

}  // namespace

Handler bind_bulk(Binding& b, bool reduces) {
  b.out.own_flow = true, b.out.width = 0;
  if (b.take("commit_group")) return b.count(0, 0), commit;
  if (b.take("wait_group")) {
    b.take("read");
    if (b.operand(0).kind != Operand::Integer) b.refuse("the number of groups is a constant");
    return b.out.imm = b.operand(0).value, wait;
  }
  if (b.take("prefetch")) {
    b.any({"tensor", "1d", "2d", "3d", "4d", "5d", "L2", "global", "tile", "L2::cache_hint"});
    return nothing;
  }
  const bool tensor = b.take("tensor");
  if (reduces) {
    for (const auto& [name, op] : {std::pair{"add", Reduction::Add}, {"min", Reduction::Min}, {"max", Reduction::Max}, {"inc", Reduction::Inc},
                                   {"dec", Reduction::Dec}, {"and", Reduction::And}, {"or", Reduction::Or}, {"xor", Reduction::Xor}})
      if (b.take(name)) b.out.width = uint8_t(op);
    if (!b.out.width) b.refuse("it has no reduction");
  }
  if (tensor) return bind_tensor(b);
  const bool hint = b.take("L2::cache_hint"), load = b.take("mbarrier::complete_tx::bytes");
  if (!b.take("global")) return !reduces && load && b.take("shared::cluster") && b.take("shared::cta") ? bind_bulk_between(b) : nullptr;
  if (!shared_destination(b) || (!load && !b.take("bulk_group"))) return nullptr;
  if (b.out.width) {
    if (load) b.refuse("of reductions, those of global memory are implemented");
    const bool exact = b.take("noftz");
    const Type type = b.type();
    const bool half_sum = Reduction(b.out.width) == Reduction::Add && (type == Type::F16 || type == Type::BF16);
    if (half_sum != exact) b.refuse("sums of f16 and bf16 need .noftz, and nothing else has it");
    if (!reducer(Reduction(b.out.width), type, true)) b.refuse("its reduction does not exist for its type");
    b.out.target = uint32_t(type);
  }
  b.count((load ? 4u : 3u) + hint, (load ? 4u : 3u) + hint);
  bulk_address(b, 0, 0), bulk_address(b, 1, 1);
  b.source(2, Type::U32);
  if (load) bulk_address(b, 3, 2);
  return load ? bulk_copy<true> : bulk_copy<false>;
}

}  // namespace ptx
