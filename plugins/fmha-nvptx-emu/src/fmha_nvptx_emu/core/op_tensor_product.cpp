// tcgen05.mma. Source: PTX ISA 9.1, 9.7.16.10: descriptors, shapes and the places of D. One thread issues it for its block, or
// for both blocks of a pair (cta_group::2). Sums as in op_wgmma.cpp: exact products, binary32 fma in ascending k, or those of
// tensor_sum.hpp; with block scales, those of tensor_scale.hpp. The result is there at once; the books say that it is outstanding until a commit has been waited for.
#include <algorithm>

#include "access.hpp"
#include "binding.hpp"
#include "cluster.hpp"
#include "floats.hpp"
#include "matrix_tile.hpp"
#include "pieces.hpp"
#include "tensor_scale.hpp"
#include "widened.hpp"

namespace ptx {

namespace {

constexpr uint32_t kPair = 1, kFromTensorMemory = 2, kAlwaysAdds = 4, kNeverAdds = 8, kScaled = 16, kMasked = 32, kStationary = 64,
                   kZeroColumns = 128;  // options, in `target`
constexpr unsigned kScaleShift = 8, kKindShift = 12, kScalesShift = 16;  // above them: scale-input-d, the kind, block scales of a row
constexpr unsigned kRowBytesOfK = 32, kDepth = 64, kColumns = 256;

struct Tile {  // rows along k
  float at[kColumns][kDepth];
  bool missing[kColumns];
};
struct Work {
  Tile a, b;
  Pieces pieces;
  float right[kDepth][kColumns], sums[16][kColumns];
  int64_t whole[16][kColumns];
  Scales scales;
};
[[gnu::noinline]] Work& work() {  // to find it takes a call, which inlined copies would repeat
  static thread_local Work it;
  return it;
}

Descriptor descriptor_of(const Inst& i, Warp& w, Slot slot, int lane) {
  if (w.block->checks) require_defined(w, i, slot, 1u << lane, "a matrix descriptor");
  const uint64_t bits = lanes_of<uint64_t>(w, slot)[lane];
  const Descriptor d(bits);  // bits 62 and 63 say the same as on Hopper
  if (d.based || (bits >> 52 & 1)) stop(i, w, "a matrix descriptor with a base offset or absolute strides is not implemented");
  if (bits >> 61 & 1) stop(i, w, "a matrix descriptor whose swizzle has atoms of 32 bytes is not implemented");
  if ((bits >> 46 & 7) != 1) stop(i, w, "bits 46 to 48 of a matrix descriptor are " + std::to_string(bits >> 46 & 7) + " and not 1");
  return d;
}

void read_tile(Warp& w, const Inst& i, int lane, Block& block, const Descriptor& d, const TensorForm& f, bool of_a, unsigned first, unsigned rows, Tile& out, Pieces& pieces) {
  const Element kind = of_a ? f.a : f.b;
  const float sign = of_a ? f.sign_a : f.sign_b;
  const unsigned chunk = elements_of_chunk(kind, f.packed), needed = bytes_of_chunk(kind, f.packed);
  const bool across = of_a ? f.across_a : f.across_b;
  const unsigned inner = across ? (rows + chunk - 1) / chunk : f.k / chunk;  // pieces of a k, or of a row
  pieces.count = across ? f.k * inner : rows * inner;
  for (unsigned n = 0; n < pieces.count; ++n)
    pieces.at[n] = across ? place_across_k(d, 16 * (n % inner), n / inner) : place_along_k(d, n / inner, n % inner * 16);
  pieces.read(w, i, lane, block, needed, pieces.data);
  std::fill_n(out.missing + first, rows, false);
  for (unsigned n = 0; n < pieces.count; ++n) {
    const uint8_t* from = pieces.data[n];
    if (!across) {
      read_chunk(kind, f.packed, from, sign, out.at[first + n / inner] + n % inner * chunk);
      if (!pieces.whole[n]) out.missing[first + n / inner] = true;
      continue;
    }
    float elements[32];
    read_chunk(kind, f.packed, from, sign, elements);
    const unsigned row = n % inner * chunk, k = n / inner;
    for (unsigned e = 0; e < chunk && row + e < rows; ++e) {
      if (!pieces.whole[n]) out.missing[first + row + e] = true;
      out.at[first + row + e][k] = elements[e];
    }
  }
  block.counts.shared_read += uint64_t(rows) * kRowBytesOfK;
}

// sums[r][c] += left[rows[r]][k] * right[k][c] for 16 rows, each a fused multiply and add, in ascending k.
#ifdef PTX_AVX512
void add_by_vectors(const float (*left)[kDepth], const unsigned* rows, const float (*right)[kColumns], unsigned n0, unsigned n, unsigned K, float (*sums)[kColumns]) {
  for (unsigned c = 0; c < n; c += 32) {
    const uint32_t left_over = n - c < 32 ? (1u << (n - c)) - 1 : ~0u;
    const __mmask16 masks[2] = {__mmask16(left_over), __mmask16(left_over >> 16)};
    for (unsigned first = 0; first < 16; first += 8) {
      __m512 at[8][2];
      for (unsigned r = 0; r < 8; ++r)
        for (unsigned z = 0; z < 2; ++z) at[r][z] = _mm512_maskz_loadu_ps(masks[z], sums[first + r] + c + 16 * z);
      for (unsigned k = 0; k < K; ++k) {
        __m512 b[2];
        for (unsigned z = 0; z < 2; ++z) b[z] = _mm512_maskz_loadu_ps(masks[z], right[k] + n0 + c + 16 * z);
        for (unsigned r = 0; r < 8; ++r) {
          const __m512 a = _mm512_set1_ps(left[rows[first + r]][k]);
          for (unsigned z = 0; z < 2; ++z) at[r][z] = _mm512_fmadd_ps(a, b[z], at[r][z]);
        }
      }
      for (unsigned r = 0; r < 8; ++r)
        for (unsigned z = 0; z < 2; ++z) _mm512_mask_storeu_ps(sums[first + r] + c + 16 * z, masks[z], at[r][z]);
    }
  }
}
#endif
void add_products(const float (*left)[kDepth], const unsigned* rows, const float (*right)[kColumns], unsigned n0, unsigned n, unsigned K, float (*sums)[kColumns]) {
#ifdef PTX_AVX512
  if (!emulation::careful) return add_by_vectors(left, rows, right, n0, n, K, sums);
#endif
  for (unsigned r = 0; r < 16; ++r)
    for (unsigned k = 0; k < K; ++k) {
      const float a = left[rows[r]][k];
      const float* b = right[k] + n0;
#pragma GCC ivdep
      for (unsigned c = 0; c < n; ++c) sums[r][c] = __builtin_fmaf(a, b[c], sums[r][c]);
    }
}

// B by columns: right[k][c] of its rows along k.
void turn(const Tile& b, unsigned n, unsigned K, float (*right)[kColumns]) {
#ifdef PTX_AVX512
  if (!emulation::careful) {
    for (unsigned c = 0; c < n; c += 16)
      for (unsigned k = 0; k < K; k += 16) turn_sixteen(b.at[c] + k, kDepth, right[k] + c, kColumns);
    return;
  }
#endif
  for (unsigned k = 0; k < K; ++k)
    for (unsigned c = 0; c < n; ++c) right[k][c] = b.at[c][k];
}

template <bool half> void truncate(const TensorForm& f, Work& at, const unsigned* rows, unsigned n0, unsigned n) {
  const unsigned depth = kRowBytesOfK / 4 * elements_of(f.a);
  for (unsigned first = 0; first < n; first += 8) {
    float a[kRowBytesOfK][16], b[8 * kRowBytesOfK], sums[8][16];
    for (unsigned k = 0; k < depth; ++k)
      for (unsigned r = 0; r < 16; ++r) a[k][r] = at.a.at[rows[r]][k];
    for (unsigned c = 0; c < 8; ++c) {
      for (unsigned k = 0; k < depth; ++k) b[c * depth + k] = at.right[k][n0 + first + c];
      for (unsigned r = 0; r < 16; ++r) sums[c][r] = at.sums[r][first + c];
    }
    truncating_tile<half>(f.a, f.b, depth, a, b, sums, tcgen05_sums());
    for (unsigned c = 0; c < 8; ++c)
      for (unsigned r = 0; r < 16; ++r) at.sums[r][first + c] = sums[c][r];
  }
}

// Where the rows of D lie in a block: 16 rows at a time, in 16 neighbouring lanes, `n` columns of B from `n0`.
struct Group {
  unsigned lane, row, n0, n;
};
std::vector<Group> groups_of(const TensorForm& f, bool pair, bool stationary) {
  std::vector<Group> out;
  if (stationary)  // all lanes: the next part of the columns in the lanes behind the rows
    for (unsigned g = 0; g < 8; ++g) out.push_back({16 * g, 16 * g % f.m, 16 * g / f.m * (f.n * f.m / 128), f.n * f.m / 128});
  else if (pair && f.m == 128)  // 64 rows a block; the second half of the columns in lanes 64 and up
    for (unsigned g = 0; g < 8; ++g) out.push_back({16 * g, 16 * (g % 4), g / 4 * (f.n / 2), f.n / 2});
  else if (f.m == 64)  // the first (or second) half of each quarter
    for (unsigned g = 0; g < 4; ++g) out.push_back({32 * g, 16 * g, 0, f.n});
  else
    for (unsigned g = 0; g < 8; ++g) out.push_back({16 * g, 16 * g, 0, f.n});
  return out;
}

struct Issued {
  TensorForm form;
  uint32_t d, a;  // addresses in tensor memory
  ScalePlaces scales;
  bool adds, pair, stationary, from_tensor_memory;
  float scale;
  uint32_t left_out[8];  // lanes of D that keep their values, of both blocks
};

// A sum of integers as s32. The products of an instruction are added exactly, so that it leaves the range once or never.
uint32_t whole_sum(int64_t sum, bool saturates) {
  return uint32_t(saturates ? std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()) : sum);
}

void multiply_in(Warp& w, const Inst& i, Block& block, const Issued& it, Work& at) {
  const TensorForm& f = it.form;
  const auto by = &block == w.block ? TensorMemory::By::Pipe : TensorMemory::By::Peer;
  const bool checks = w.block->checks;
  const bool hardware = w.block->launch->options.hardware;
  const unsigned column = it.d & 0xffff, lane0 = it.d >> 16;
  TensorMemory& memory = *block.tensor;
  if (lane0 != 0 && !(f.m == 64 && lane0 == 16 && !it.stationary)) stop(i, w, "D begins at lane " + std::to_string(lane0) + " of tensor memory");
  const unsigned columns = it.stationary ? f.n * f.m / 128 : it.pair && f.m == 128 ? f.n / 2 : f.n;
  if (!memory.inside(w, i, lane0, column, columns)) return;
  if (it.from_tensor_memory && !memory.inside(w, i, it.a >> 16, it.a & 0xffff, kRowBytesOfK / 4)) return;
  if (f.scales && !check_scales(w, i, memory, f, it.scales, by)) return;
  const bool holes = std::memchr(at.b.missing, 1, f.n);
  for (const Group& g : groups_of(f, it.pair, it.stationary)) {
    unsigned rows[16];
    for (unsigned r = 0; r < 16; ++r) {
      const unsigned lane = lane0 + g.lane + r;
      rows[r] = it.from_tensor_memory ? lane : g.row + r;
      if (it.from_tensor_memory) {
        const uint32_t* words = memory.row(lane) + (it.a & 0xffff);
        at.a.missing[lane] = checks && !memory.read(w, i, lane, it.a & 0xffff, kRowBytesOfK / 4, by);
        read_row(f.a, f.packed, reinterpret_cast<const uint8_t*>(words), f.k, f.sign_a, at.a.at[lane]);
      }
      const uint32_t* d = memory.row(lane) + column;
      if (!f.whole && !f.half && it.adds && it.scale == 1.0f) std::memcpy(at.sums[r], d, size_t(g.n) * 4);
      else if (f.whole)
        for (unsigned c = 0; c < g.n; ++c) at.whole[r][c] = it.adds ? int32_t(d[c]) : 0;
      else
        for (unsigned c = 0; c < g.n; ++c)
          at.sums[r][c] = !it.adds ? 0.0f : it.scale * (f.half ? float(narrow<f16>(uint16_t(d[c]))) : float_of(d[c]));
    }
    if (f.whole) {
      for (unsigned r = 0; r < 16; ++r)
        for (unsigned k = 0; k < f.k; ++k)
          for (unsigned c = 0; c < g.n; ++c) at.whole[r][c] += int64_t(at.a.at[rows[r]][k] * at.right[k][g.n0 + c]);
    } else if (f.scales) {
      read_scales(memory, f, it.scales, g.lane, g.row, g.n, at.scales);
      add_scaled(f, at.scales, at.a.at, rows, at.right, g.n0, g.n, at.sums, hardware);
    } else if (hardware) f.half ? truncate<true>(f, at, rows, g.n0, g.n) : truncate<false>(f, at, rows, g.n0, g.n);
    else
      add_products(at.a.at, rows, at.right, g.n0, g.n, f.k, at.sums);
    for (unsigned r = 0; r < 16; ++r) {
      const unsigned lane = lane0 + g.lane + r;
      if (it.left_out[(it.pair ? block.rank % 2 * 4 : 0) + lane / 32] >> lane % 32 & 1) continue;
      uint32_t* d = memory.row(lane) + column;
      const bool had = !checks || !it.adds || memory.defined_row(lane, column, g.n);
      bool before[kColumns];
      for (unsigned c = 0; !had && c < g.n; ++c) before[c] = memory.defined(lane, column + c);
      if (checks) memory.write(w, i, lane, column, g.n, by);
      if (f.whole)
        for (unsigned c = 0; c < g.n; ++c) d[c] = whole_sum(at.whole[r][c], f.saturates);
      else if (f.half)
        for (unsigned c = 0; c < g.n; ++c) d[c] = widen<f16>(f16(at.sums[r][c]));
      else std::memcpy(d, at.sums[r], size_t(g.n) * 4);
      const bool lost = at.a.missing[rows[r]] || (f.scales && at.scales.missing_a[r]);
      if (!checks || (had && !lost && !holes && !f.scales)) continue;
      for (unsigned c = 0; c < g.n; ++c)
        if ((!had && !before[c]) || lost || at.b.missing[g.n0 + c] || (f.scales && at.scales.missing_b[c])) memory.define(lane, column + c, false);
    }
  }
}

// 9.7.16.4.3: which columns of B count as zeros. As the examples there have it, the spans' names are those of the mask's bits.
void zero_columns(const Inst& i, const Warp& w, uint64_t bits, const TensorForm& f, Work& at) {
  if (bits >> 56 & 63) stop(i, w, "its zero-column mask shifts columns, which is not implemented");
  if (!(bits >> 39 & 1)) return;
  const unsigned zeros = unsigned(bits >> 40 & 255) + 1, used = unsigned(bits >> 48 & 255) + 1, part = f.n * f.m / 128;
  for (unsigned c = 0; c < f.n; ++c) {
    const unsigned mask = c / part, start = unsigned(bits >> 8 * mask & 255), first = bits >> (32 + mask) & 1 ? 0 : zeros;
    if ((first + start + c % part) % (zeros + used) >= zeros) continue;
    for (unsigned k = 0; k < f.k; ++k) at.right[k][c] = 0;
    at.b.missing[c] = false;
  }
}

// slots: D, A (a descriptor or an address in tensor memory), descriptor of B, instruction descriptor, [whether it adds],
// [lanes that are left out, by 32], [addresses of the scales of A and of B, and their offsets], [mask of columns that are zeros]
void multiply(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t options = i.target;
  const unsigned scales = options >> kScalesShift;
  const bool pair = options & kPair;
  const TensorMode mode{TensorKind(options >> kKindShift & 15), pair, bool(options & kStationary), scales};
  Work& at = work();
  each_lane(mask, [&](int lane) {
    if (w.block->checks) {
      require_defined(w, i, i.slots[0], 1u << lane, "an address in tensor memory");
      require_defined(w, i, i.slots[3], 1u << lane, "an instruction descriptor");
      if (!(options & (kAlwaysAdds | kNeverAdds))) require_defined(w, i, i.slots[4], 1u << lane, "whether a tcgen05.mma adds");
    }
    Issued it{};
    it.form = form_of(i, w, mode, lanes_of<uint32_t>(w, i.slots[3])[lane]);
    it.pair = pair, it.stationary = mode.stationary, it.from_tensor_memory = options & kFromTensorMemory;
    it.d = lanes_of<uint32_t>(w, i.slots[0])[lane] + uint32_t(i.imm);
    it.adds = options & kAlwaysAdds || (!(options & kNeverAdds) && (w.predicate(i.slots[4]) >> lane & 1));
    it.scale = options & kScaled ? std::ldexp(1.0f, -int(options >> kScaleShift & 15)) : 1.0f;
    const auto scale_address = [&](unsigned which) {
      const Slot* slots = i.slots + i.sources - 4;
      if (w.block->checks) require_defined(w, i, slots[which], 1u << lane, "an address in tensor memory");
      return lanes_of<uint32_t>(w, slots[which])[lane] + lanes_of<uint32_t>(w, slots[2 + which])[lane];
    };
    if (scales) it.scales = {scale_address(0), scale_address(1), pair && it.form.m == 128};
    for (unsigned k = 0; options & kMasked && k < (pair ? 8u : 4u); ++k) {
      const Slot slot = i.slots[i.sources - (pair ? 8u : 4u) + k];
      if (w.block->checks) require_defined(w, i, slot, 1u << lane, "the lanes of D that are left out");
      it.left_out[k] = lanes_of<uint32_t>(w, slot)[lane];
    }
    const TensorForm& f = it.form;
    if (it.stationary && it.from_tensor_memory && f.m < 128) stop(i, w, "A in tensor memory of .ws with fewer than 128 rows is not implemented");
    Descriptor a(0);
    if (it.from_tensor_memory) {
      if (w.block->checks) require_defined(w, i, i.slots[1], 1u << lane, "an address in tensor memory");
      it.a = lanes_of<uint32_t>(w, i.slots[1])[lane] + uint32_t(uint64_t(i.imm) >> 32);
    } else a = descriptor_of(i, w, i.slots[1], lane);
    const Descriptor b = descriptor_of(i, w, i.slots[2], lane);
    Block* blocks[2] = {w.block, nullptr};
    if (pair)
      for (uint32_t k = 0; k < 2; ++k)
        if (!(blocks[k] = w.block->cluster->at((w.block->rank & ~1u) + k))) stop(i, w, "the block has no other of its pair");
    if (pair && !note_signal(w, i, lane, *w.block->cluster->at(w.block->rank ^ 1))) return;
    w.block->counts.matrix_flops += 2ull * f.m * f.n * f.k;
    const unsigned part = pair ? f.n / 2 : f.n;
    for (unsigned k = 0; k < (pair ? 2u : 1u); ++k) read_tile(w, i, lane, *blocks[k], b, f, false, k * part, part, at.b, at.pieces);
    turn(at.b, f.n, f.k, at.right);
    if (options & kZeroColumns) {
      const Slot slot = i.slots[i.sources - 1];
      if (w.block->checks) require_defined(w, i, slot, 1u << lane, "a zero-column mask");
      zero_columns(i, w, lanes_of<uint64_t>(w, slot)[lane], f, at);
    }
    for (unsigned k = 0; k < (pair ? 2u : 1u); ++k) {
      if (!it.from_tensor_memory) read_tile(w, i, lane, *blocks[k], a, f, true, 0, pair ? f.m / 2 : f.m, at.a, at.pieces);
      multiply_in(w, i, *blocks[k], it, at);
    }
  });
}

}  // namespace

namespace {
// The block scales of a row that the modifiers ask for; 0: none.
unsigned scales_named(Binding& b, TensorKind kind) {
  if (kind < TensorKind::MXF8F6F4) return 0;
  if (!b.take("block_scale")) b.refuse("its kind needs .block_scale");
  const bool sixteen = b.any({"block16"}), of_four = sixteen || b.take("scale_vec::4X");
  const bool of_two = !of_four && b.take("scale_vec::2X"), of_one = !of_four && !of_two && b.take("scale_vec::1X");
  const bool any = !of_four && !of_two && !of_one && b.take("block32");
  if (kind == TensorKind::MXF8F6F4 && !of_two && !of_four) return 1;
  if (kind == TensorKind::MXF4 && !of_one && !of_four) return 2;
  if (kind == TensorKind::MXF4NVF4 && of_four) return 4;
  if (kind == TensorKind::MXF4NVF4 && (of_two || any)) return 2;
  b.refuse("its kind does not have scales of this size");
}
}  // namespace

Handler bind_tensor_product(Binding& b) {
  constexpr const char* kinds[] = {"kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"};
  unsigned found = 0;
  while (found < std::size(kinds) && !b.take(kinds[found])) ++found;
  if (found == std::size(kinds)) b.refuse("its kind is not implemented");
  const TensorKind kind = TensorKind(found);
  const unsigned scales = scales_named(b, kind);
  b.out.target |= uint32_t(found) << kKindShift | scales << kScalesShift;
  const bool stationary = b.take("ws");
  if (stationary && (scales || b.out.target & kPair)) b.refuse(".ws has neither block scales nor .cta_group::2");
  if (stationary) b.out.target |= kStationary;
  for (const char* which : {"a", "b", "b0", "b1", "b2", "b3"})  // what the collector keeps between instructions has no effect here
    for (const char* use : {"fill", "use", "lastuse", "discard"}) b.take((std::string("collector::") + which + "::" + use).c_str());
  b.count(5, 7);
  const auto base = [&](size_t k) {
    const Operand& o = b.operand(k);
    if (o.kind != Operand::Address || !o.reg || bits_of(o.reg->type) != 32) b.refuse("operand " + std::to_string(k) + " is not address in tensor memory");
    b.sources.push_back(b.layout.reg(*o.reg));
    return uint32_t(o.value);
  };
  const auto tensor_address = [&](size_t k, unsigned which) { b.out.imm |= int64_t(uint64_t(base(k)) << 32 * which); };
  tensor_address(0, 0);
  if (b.operand(1).kind == Operand::Address) b.out.target |= kFromTensorMemory, tensor_address(1, 1);
  else b.source(1, Type::B64);
  b.source(2, Type::B64), b.source(3, Type::B32);
  const bool masked = !scales && !stationary && b.operand(4).kind == Operand::Vector;
  const size_t enable = scales ? 6 : masked ? 5 : 4;
  if (b.operand(enable).kind == Operand::Integer) b.out.target |= b.operand(enable).value ? kAlwaysAdds : kNeverAdds;
  else {
    if (b.operand(enable).negated) b.refuse("a negated enable-input-d");
    b.source(enable, Type::Pred);
  }
  if (masked) {
    if (b.operand(4).parts.size() != (b.out.target & kPair ? 8 : 4)) b.refuse("lanes that are left out are a vector of 4, or 8 for two blocks");
    for (const Operand& part : b.operand(4).parts) b.source(part, Type::B32);
    b.out.target |= kMasked;
  }
  if (stationary && b.s.operands.size() == enable + 2) b.source(enable + 1, Type::B64), b.out.target |= kZeroColumns;
  else if (b.s.operands.size() == enable + 2) {
    const Operand& scale = b.operand(enable + 1);
    if (kind > TensorKind::TF32 || scale.kind != Operand::Integer || scale.value < 0 || scale.value > 15) b.refuse("scale-input-d is a constant from 0 to 15, of f16 and tf32");
    b.out.target |= kScaled | uint32_t(scale.value) << kScaleShift;
  } else b.count(enable + 1, enable + 1);
  if (scales) {
    const uint32_t offsets[] = {base(4), base(5)};
    for (const uint32_t offset : offsets) b.sources.push_back(b.layout.constant(offset, false));
  }
  return multiply;
}

}  // namespace ptx
