// wgmma: products of a warpgroup. Source: PTX ISA 9.1, 9.7.15. Each warp owns 16 of the 64 rows, so the warps of a warpgroup
// execute it one after another. Sums: exact products, binary32 fma in ascending k, or those of tensor_sum.hpp. The result is
// there at once; the books say that registers and shared memory are in use until a wait_group.
#include <algorithm>

#include "access.hpp"
#include "binding.hpp"
#include "floats.hpp"
#include "matrix_tile.hpp"
#include "pieces.hpp"
#include "tensor_memory.hpp"
#include "wgmma_lanes.hpp"

namespace ptx {

namespace {

constexpr unsigned bytes_of(Element kind) { return 4 / elements_of(kind); }
constexpr unsigned kRowK = 32;  // bytes of an instruction's k

// Options of an instruction, in `target`.
constexpr uint32_t kFromRegisters = 1, kNegateA = 2, kNegateB = 4, kAcrossA = 8, kAcrossB = 16, kHalfSums = 32, kAlwaysAdds = 64, kNeverAdds = 128;

template <Element kind> float element(const uint8_t* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, bytes_of(kind));
  return element_of<kind>(bits, 0);
}

// `rows` rows of 32 bytes along k, as bytes, from row `first` of a tile. Rows that are not whole are in `missing`.
struct Tile {
  alignas(64) uint8_t at[256][kRowK];
  std::vector<bool> missing;
  bool whole = true;
};

void read_tile(Warp& w, const Inst& i, const Descriptor& d, bool across, uint32_t first, uint32_t rows, Tile& out, Pieces& pieces) {
  out.missing.assign(rows, false), out.whole = true;
  const uint32_t blocks = rows / 8;  // of eight rows, which are a piece across k
  pieces.count = 2 * rows;
  uint32_t* const at = pieces.at;
  if (across) {
    uint32_t places[32];
    for (uint32_t block = 0; block < blocks; ++block) places[block] = block_across_k(d, 2 * (first + 8 * block));
    for (uint32_t k = 0; k < 16; ++k)
      for (uint32_t block = 0, step = step_across_k(d, k); block < blocks; ++block) at[k * blocks + block] = swizzled(places[block] + step, d.span);
  } else
    for (uint32_t n = 0; n < 2 * rows; ++n) at[n] = place_along_k(d, first + n / 2, n % 2 * 16);
  pieces.read(w, i, -1, *w.block, 16, across ? pieces.data : reinterpret_cast<uint8_t (*)[16]>(out.at));
  if (across)
    for (uint32_t half = 0; half < 2; ++half)  // eight k of a block
      for (uint32_t block = 0; block < blocks; ++block)
        turn_eight(pieces.data + half * 8 * blocks + block, blocks, reinterpret_cast<uint8_t (*)[32]>(out.at[block * 8] + half * 16));
  w.block->counts.shared_read += uint64_t(rows) * kRowK;
  if (!std::memchr(pieces.whole, 0, pieces.count)) return;
  for (uint32_t n = 0; n < 2 * rows; ++n) {
    if (pieces.whole[n]) continue;
    out.whole = false;
    for (uint32_t r = 0; r < (across ? 8u : 1u); ++r) out.missing[across ? n % blocks * 8 + r : n / 2] = true;
  }
}

// A fragment: register r has row g + 8(r%2), bytes 4t + 16(r/2) to 4t + 16(r/2) + 3 of k; g = lane / 4, t = lane % 4.
void fragment(const Warp& w, const Slot* a, Tile& out) {
  out.missing.assign(16, false), out.whole = true;
  for (unsigned r = 0; r < 4; ++r) {
    const uint32_t* from = lanes_of<uint32_t>(w, a[r]);
    for (unsigned g = 0; g < 8; ++g) {
      const unsigned row = g + 8 * (r % 2);
      std::memcpy(out.at[row] + 16 * (r / 2), from + 4 * g, 16);
      if ((w.defined[a[r].id] >> 4 * g & 0xf) != 0xf) out.missing[row] = true, out.whole = false;
    }
  }
}

// Register r of D: row g + 8(r%4/2), column 8(r/4) + 2t + r%2; of two halves: row g + 8(r%2), columns 8(r/2) + 2t, + 1.
template <bool half, class F> inline void each_sum(unsigned n, F f) {
  for (unsigned tile = 0; tile < n / 8; ++tile)
    for (unsigned side = 0; side < 2; ++side)
      for (unsigned h = 0; h < 2; ++h)
        for (unsigned l = 0; l < 32; ++l)
          f(half ? 2 * tile + side : 4 * tile + 2 * side + h, l, half ? h : 0, l / 4 + 8 * side, 8 * tile + 2 * (l % 4) + h);
}

constexpr unsigned kColumns = 256 + 16;  // of a row of floats; the rest keeps rows apart in the cache
struct Work {
  Tile a, b;
  Pieces pieces;
  alignas(64) float sums[16][kColumns], left[kRowK][16], right[kRowK][kColumns];
  uint32_t* d[128];  // rows of the registers of D
};
// The same for whole registers of binary32: eight columns of a row are four lanes of two registers.
using Four = uint32_t __attribute__((vector_size(16), aligned(4), may_alias));
using Eight = uint32_t __attribute__((vector_size(32), aligned(4), may_alias));
template <class F> inline void each_row(unsigned n, float (*sums)[kColumns], uint32_t* const* d, F f) {
  for (unsigned tile = 0; tile < n / 8; ++tile)
    for (unsigned side = 0; side < 2; ++side)
      for (unsigned g = 0; g < 8; ++g)
        f(*reinterpret_cast<Eight*>(sums[g + 8 * side] + 8 * tile), *reinterpret_cast<Four*>(d[4 * tile + 2 * side] + 4 * g),
          *reinterpret_cast<Four*>(d[4 * tile + 2 * side + 1] + 4 * g));
}
[[gnu::noinline]] Work& work() {  // to find it takes a call, which inlined copies would repeat
  static thread_local Work it;
  return it;
}

void note_registers(Warp& w, const Inst& i, const Slot* a, bool adds) {
  const uint32_t *written_at = w.written_at.data(), fence_at = w.fence_at;
  const auto late = [&](Slot slot) {
    if (written_at[slot.id] <= fence_at) return;
    w.block->launch->report->add(Finding::MissingFence, w, i, -1, [] {
      return std::string("a register of it was written before, and there is no wgmma.fence between");
    });
  };
  for (unsigned k = 0; adds && k < i.dests; ++k) late(i.slots[k]);
  const bool fenced = w.fence_at != 0;
  if (!fenced)
    w.block->launch->report->add(Finding::MissingFence, w, i, -1, [] { return std::string("no wgmma.fence lies before the first wgmma"); });
  const uint32_t group = w.wgmma_committed + 1;
  size_t next = 0;
  const auto hold = [&](Slot slot, bool read_only) {
    const size_t count = w.held[slot.id] ? w.outstanding.size() : 0;
    for (size_t k = 0; k < count; ++k, ++next) {
      Outstanding& one = w.outstanding[next < count ? next : next = 0];
      if (one.id == slot.id) return void((one.group = group, one.read_only &= read_only, ++next));
    }
    w.hold({slot.id, group, read_only});
  };
  // Products of one group have the same registers in the same order.
  while (next < w.outstanding.size() && w.outstanding[next].id != i.slots[0].id) ++next;
  uint32_t apart = next + i.dests > w.outstanding.size();
  Outstanding* const held = w.outstanding.data() + next;
  for (unsigned k = 0; !apart && k < i.dests; ++k) apart = held[k].id ^ i.slots[k].id;
  if (!apart) {
    for (unsigned k = 0; k < i.dests; ++k) held[k].group = group, held[k].read_only = false;
    next += i.dests;
  } else
    for (unsigned k = next = 0; k < i.dests; ++k) hold(i.slots[k], false);
  for (unsigned k = 0; a && k < 4; ++k) late(a[k]), hold(a[k], true);
}

template <bool half> void sum_truncating(Element kind, Element kind_b, unsigned n, Work& at) {
  const unsigned depth = 8 * elements_of(kind);
  for (unsigned first = 0; first < n; first += 8) {
    float b[8 * kRowK], sums[8][16];
    for (unsigned c = 0; c < 8; ++c) {
      for (unsigned k = 0; k < depth; ++k) b[c * depth + k] = at.right[k][first + c];
      for (unsigned r = 0; r < 16; ++r) sums[c][r] = at.sums[r][first + c];
    }
    truncating_tile<half>(kind, kind_b, depth, at.left, b, sums, wgmma_sums(kind));
    for (unsigned c = 0; c < 8; ++c)
      for (unsigned r = 0; r < 16; ++r) at.sums[r][first + c] = sums[c][r];
  }
}

template <unsigned K> void sum_exactly(unsigned n, Work& at) {
  auto& sums = at.sums;
  for (unsigned r = 0; r < 16; ++r)
    for (unsigned k = 0; k < K; ++k) {
      const float by = at.left[k][r];
#pragma GCC ivdep
      for (unsigned c = 0; c < n; ++c) sums[r][c] = __builtin_fmaf(by, at.right[k][c], sums[r][c]);
    }
}

// Reads A and B. True where C is added.
bool begin(Warp& w, const Inst& i, uint32_t mask, Work& at) {
  const uint32_t options = i.target;
  const unsigned n = uint32_t(i.imm);
  const bool from_registers = options & kFromRegisters;
  const Slot* s = i.slots + i.dests;
  const Slot *a = s, *b = s + (from_registers ? 4 : 1), *scale = b + 1;
  const int lane = __builtin_ctz(mask);
  const auto descriptor = [&](Slot slot) {
    if (w.block->checks) require_defined(w, i, slot, mask, "a matrix descriptor");
    const Descriptor d(lanes_of<uint64_t>(w, slot)[lane]);
    if (d.based) throw Fault{"line " + std::to_string(i.at->line) + ": a matrix descriptor with a base offset is not implemented"};
    return d;
  };
  if (from_registers) fragment(w, a, at.a);
  else read_tile(w, i, descriptor(*a), options & kAcrossA, w.index % 4 * 16, 16, at.a, at.pieces);
  read_tile(w, i, descriptor(*b), options & kAcrossB, 0, n, at.b, at.pieces);
  const bool adds = options & kAlwaysAdds || (!(options & kNeverAdds) && (w.predicate(*scale) >> lane & 1));
  if (w.block->checks) {
    if (!(options & (kAlwaysAdds | kNeverAdds))) require_defined(w, i, *scale, mask, "whether a wgmma adds");
    note_registers(w, i, from_registers ? a : nullptr, adds);
  }
  for (unsigned r = 0; r < i.dests; ++r) at.d[r] = lanes_of<uint32_t>(w, i.slots[r]);
  return adds;
}

// C by rows.
void read_sums(const Inst& i, bool adds, Work& at) {
  const unsigned n = uint32_t(i.imm);
  auto& sums = at.sums;
  uint32_t** d = at.d;
  if (!adds) std::memset(sums, 0, sizeof sums);
  else if (i.target & kHalfSums)
    each_sum<true>(n, [&](unsigned r, unsigned l, unsigned h, unsigned row, unsigned column) {
      sums[row][column] = float(narrow<f16>(d[r][l] >> 16 * h & 0xffff));
    });
  else each_row(n, sums, d, [](Eight& row, Four& even, Four& odd) { row = __builtin_shufflevector(even, odd, 0, 4, 1, 5, 2, 6, 3, 7); });
}

void write_sums(const Inst& i, Work& at) {
  const unsigned n = uint32_t(i.imm);
  auto& sums = at.sums;
  uint32_t** d = at.d;
  if (i.target & kHalfSums)
    each_sum<true>(n, [&](unsigned r, unsigned l, unsigned h, unsigned row, unsigned column) {
      d[r][l] = (h ? d[r][l] & 0xffff : 0) | widen<f16>(f16(sums[row][column])) << 16 * h;
    });
  else
    each_row(n, sums, d, [](Eight& row, Four& even, Four& odd) {
      even = __builtin_shufflevector(row, row, 0, 2, 4, 6), odd = __builtin_shufflevector(row, row, 1, 3, 5, 7);
    });
}

// Which lanes of D hold a value.
void define_sums(Warp& w, const Inst& i, bool adds, const Work& at) {
  const unsigned n = uint32_t(i.imm);
  const bool half = i.target & kHalfSums;
  const Tile &ta = at.a, &tb = at.b;
  if (ta.whole && tb.whole) {
    if (!adds)
      for (unsigned r = 0; r < i.dests; ++r) w.define(i.slots[r], kAll, kAll);
    return;
  }
  uint32_t holes[128] = {};
  const auto hole = [&](unsigned r, unsigned l, unsigned, unsigned row, unsigned column) {
    if (ta.missing[row] || tb.missing[column]) holes[r] |= 1u << l;
  };
  half ? each_sum<true>(n, hole) : each_sum<false>(n, hole);
  for (unsigned r = 0; r < i.dests; ++r) w.define(i.slots[r], (adds ? w.defined[i.slots[r].id] : kAll) & ~holes[r], kAll);
}

template <Element kind, Element kind_b = kind> void multiply(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "wgmma")) return;
  constexpr unsigned K = kRowK / bytes_of(kind);
  const uint32_t options = i.target;
  const unsigned n = uint32_t(i.imm);
  Work& at = work();
  const bool adds = begin(w, i, mask, at);
  const float sign_a = options & kNegateA ? -1.0f : 1.0f, sign_b = options & kNegateB ? -1.0f : 1.0f;
#ifdef PTX_AVX512
  const bool by_lanes = !emulation::careful && !w.block->launch->options.hardware && !(options & kHalfSums);
  if (by_lanes) multiply_by_lanes<kind, kind_b>(at.a.at, at.b.at, sign_a, sign_b, at.d, n, adds);
#else
  constexpr bool by_lanes = false;
#endif
  if (!by_lanes) {
    for (unsigned r = 0; r < 16; ++r)
      for (unsigned k = 0; k < K; ++k) at.left[k][r] = sign_a * element<kind>(at.a.at[r] + k * bytes_of(kind));
    for (unsigned c = 0; c < n; ++c)
      for (unsigned k = 0; k < K; ++k) at.right[k][c] = sign_b * element<kind_b>(at.b.at[c] + k * bytes_of(kind));
    read_sums(i, adds, at);
    if (!w.block->launch->options.hardware) sum_exactly<K>(n, at);
    else if (options & kHalfSums) sum_truncating<true>(kind, kind_b, n, at);
    else sum_truncating<false>(kind, kind_b, n, at);
    write_sums(i, at);
  }
  if (w.block->checks) define_sums(w, i, adds, at);
}

void fence(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "wgmma.fence")) return;
  w.fence_at = ++w.instruction;
}
void commit(Warp& w, const Inst& i, uint32_t mask) {
  if (together(w, i, mask, w.alive, "wgmma.commit_group")) ++w.wgmma_committed, ++w.block->events;
}
void wait(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "wgmma.wait_group")) return;
  const uint32_t left = uint32_t(i.imm), all = w.wgmma_committed, done = all > left ? all - left : 0;
  const auto& warps = w.block->warps;
  for (size_t k = w.index / 4 * 4; k < warps.size() && k < w.index / 4 * 4 + 4; ++k) {
    if (warps[k]->going == Going::Done || warps[k]->wgmma_committed >= done) continue;
    --w.block->executed[--w.pc];  // the warpgroup's product is one operation: it is over when all four warps came to it
    w.polled = kForWarpgroup;
    return yield_to_others(w);
  }
  w.recent_poll = 0;
  w.wgmma_complete = std::max(w.wgmma_complete, done);
  uint32_t &known = w.known[kWarps + w.index / 4], &fenced = w.fenced[kWarps + w.index / 4];
  known = std::max(known, done), fenced = std::max(fenced, done);
  set_floor(w);
  w.release([&](const Outstanding& one) { return one.group <= w.wgmma_complete; });
}

unsigned columns_of(Binding& b, unsigned k) {
  for (unsigned n = 8; n <= 256; n += 8)
    if (b.take(("m64n" + std::to_string(n) + "k" + std::to_string(k)).c_str())) return n;
  b.refuse("its shape is not m64nNk" + std::to_string(k));
}

bool one(Binding& b, size_t k, int64_t least) {  // an immediate of 1; else it is `least`
  const Operand& o = b.operand(k);
  if (o.kind != Operand::Integer || (o.value != 1 && o.value != least)) b.refuse("operand " + std::to_string(k) + " is 1 or " + std::to_string(least));
  return o.value == 1;
}

Handler bind_wgmma(Binding& b) {
  b.out.own_flow = true;
  const bool begins = b.take("fence"), commits = b.take("commit_group"), waits = b.take("wait_group"), multiplies = b.take("mma_async");
  if (!b.take("sync") || !b.take("aligned")) return nullptr;
  b.kernel.asynchronous_matrix = true;
  if (begins) return fence;
  if (commits) return commit;
  if (waits) {
    b.count(1, 1);
    if (b.operand(0).kind != Operand::Integer) b.refuse("the number of groups is a constant");
    b.out.imm = b.operand(0).value;
    return wait;
  }
  if (!multiplies) return nullptr;
  const Type d = b.type(), a = b.type(), bt = b.type();
  const bool eight = a == Type::E4M3 || a == Type::E5M2, sixteen = a == Type::F16 || a == Type::BF16;
  const bool eight_b = bt == Type::E4M3 || bt == Type::E5M2;
  if ((bt != a && !(eight && eight_b)) || (!eight && !sixteen && a != Type::TF32)) b.refuse("its types are not implemented");
  const bool half = d == Type::F16;
  if (d != Type::F32 && (!half || a == Type::BF16 || a == Type::TF32)) return nullptr;
  const unsigned n = columns_of(b, eight ? 32 : sixteen ? 16 : 8);
  const bool registers = b.operand(1).kind == Operand::Vector;
  b.count(4, sixteen ? (registers ? 7 : 8) : 6);
  const Operand& sums = b.operand(0);
  if (sums.kind != Operand::Vector || sums.parts.size() != n / (half ? 4 : 2)) b.refuse("a vector of another length");
  for (const Operand& part : sums.parts) b.dest(part, Type::B32);
  if (registers) {
    if (b.operand(1).parts.size() != 4) b.refuse("a fragment of another length");
    for (const Operand& part : b.operand(1).parts) b.source(part, Type::B32);
  } else b.source(1, Type::B64);
  b.source(2, Type::B64);
  uint32_t options = (registers ? kFromRegisters : 0) | (half ? kHalfSums : 0);
  if (b.operand(3).kind == Operand::Integer) options |= b.operand(3).value ? kAlwaysAdds : kNeverAdds;
  else {
    b.source(3, Type::Pred);
    if (b.operand(3).negated) b.refuse("a negated scale-d");
  }
  const size_t given = b.s.operands.size();
  if (given > 4) {
    if (given < 6) b.refuse("it has " + std::to_string(given) + " operands");
    options |= (one(b, 4, -1) ? 0 : kNegateA) | (one(b, 5, -1) ? 0 : kNegateB);
  }
  if (given > 6) {
    if (!registers && given != 8) b.refuse("it has " + std::to_string(given) + " operands");
    if (!registers && one(b, 6, 0)) options |= kAcrossA;
    if (one(b, given - 1, 0)) options |= kAcrossB;
  }
  b.out.target = options, b.out.imm = n;
  b.out.flops = 2 * 16 * n * (kRowK / (eight ? 1 : sixteen ? 2 : 4));
  switch (a) {
    case Type::F16: return multiply<Element::F16>;
    case Type::BF16: return multiply<Element::BF16>;
    case Type::TF32: return multiply<Element::TF32>;
    case Type::E4M3: return bt == a ? multiply<Element::E4M3> : multiply<Element::E4M3, Element::E5M2>;
    default: return bt == a ? multiply<Element::E5M2> : multiply<Element::E5M2, Element::E4M3>;
  }
}

constexpr Opcode rows[] = {{"wgmma", "9.7.15", Class::Matrix, bind_wgmma}};

}  // namespace

// A mov of an outstanding register is a copy that compilers place; its copy is then outstanding too.
void touch_outstanding(Warp& w, const Inst& i) {
  if (i.cls == Class::Matrix && i.at->root == "wgmma") return;
  uint32_t any = 0;
  for (unsigned k = 0; k < unsigned(i.dests + i.sources); ++k) any |= w.held[i.slots[k].id];
  if (!any) return;
  const auto of = [&](Slot slot) {
    return slot.id ? std::find_if(w.outstanding.begin(), w.outstanding.end(), [&](const Outstanding& one) { return one.id == slot.id; }) : w.outstanding.end();
  };
  for (unsigned k = 0; k < unsigned(i.dests + i.sources); ++k) {
    const auto found = of(i.slots[k]);
    if (found == w.outstanding.end() || (k >= i.dests && found->read_only)) continue;
    if (k >= i.dests && found->group == kLoadGroup) {  // a true dependency is kept (9.7.16.6.4.5), so the value has arrived
      w.release([&](const Outstanding& one) { return one.id == i.slots[k].id && one.group == kLoadGroup; });
      continue;
    }
    if (k >= i.dests && i.cls == Class::Move && i.dests == 1) {
      const Outstanding copy{i.slots[0].id, found->group, false};
      w.hold(copy);
      continue;
    }
    w.block->launch->report->add(Finding::MissingWait, w, i, -1, [&] {
      return std::string(k < i.dests ? "it writes" : "it reads") + (found->group == kLoadGroup ? " a register of a tcgen05.ld that no tcgen05.wait::ld has waited for" : " a register of a wgmma that no wgmma.wait_group has waited for");
    });
  }
}

extern const Table kWgmmaOpcodes{rows, std::size(rows)};

}  // namespace ptx
