// clusterlaunchcontrol. Source: PTX ISA 9.1, 9.7.13.16. A request takes the cluster that would begin next away from the grid.
// Whether it does depends on the seed too, because a request may fail for any reason. The 16 bytes of an answer are opaque:
// here the first block's place (x; y and z by 16 bits), then a bit that says whether a cluster was cancelled.
#include <algorithm>

#include "access.hpp"
#include "binding.hpp"
#include "cluster.hpp"
#include "emu_random.hpp"

namespace ptx {

namespace {

struct Answer {
  uint32_t x = 0, yz = 0, cancelled = 0, rest = 0;
};

Answer request(Warp& w) {
  const Launch& on = *w.block->launch;
  std::atomic<uint32_t>& next = *on.next;
  const uint64_t turn = emulation::mixed(on.options.seed ^ emulation::mixed(next.load() + (uint64_t(w.block->number) << 32)));
  if (turn % 4 == 0) return {};
  uint32_t number = next.load();
  do
    if (number >= on.clusters) return {};
  while (!next.compare_exchange_weak(number, number + 1));
  const uint32_t across[2] = {on.grid[0] / on.cluster[0], on.grid[1] / on.cluster[1]};
  const uint32_t x = number % across[0] * on.cluster[0], y = number / across[0] % across[1] * on.cluster[1], z = number / across[0] / across[1] * on.cluster[2];
  return {x, y | z << 16, 1, 0};
}

// slots: where the answer goes, mbarrier; imm: the offsets of both; `target`: to every block of the cluster
void try_cancel(Warp& w, const Inst& i, uint32_t mask) {
  each_lane(mask, [&](int lane) {
    uint64_t at[2];
    for (unsigned k = 0; k < 2; ++k) {
      if (w.block->checks) require_defined(w, i, i.slots[k], 1u << lane, "an address");
      const uint64_t base = i.wide >> k & 1 ? lanes_of<uint32_t>(w, i.slots[k])[lane] : lanes_of<uint64_t>(w, i.slots[k])[lane];
      at[k] = placed(Space::Generic, seen_from(*w.block, base)).at + uint32_t(uint64_t(i.imm) >> 32 * k);
      Lanes a;
      a.at[lane] = at[k];
      if (!limited_lanes(w, i, 1u << lane, a, k ? 8 : 16, w.block->shared.bytes(), "shared")) return;
    }
    const Answer answer = request(w);
    for (const auto& block : w.block->cluster->blocks()) {
      if (!i.target && block.get() != w.block) continue;
      const bool remote = block.get() != w.block;
      if (!note_signal(w, i, lane, *block)) continue;
      Mbarrier* m = block->mbarriers.find(w, i, lane, uint32_t(at[1]), remote);
      if (!m) continue;
      if (w.block->checks) block->shared.write_bulk(w, i, lane, uint32_t(at[0]), 16, block->mbarriers.stamp(*m), remote);
      std::memcpy(block->shared.data() + at[0], &answer, sizeof answer);
      block->mbarriers.expect(w, i, lane, *m, -16);
    }
  });
}

const uint32_t* word(const Warp& w, Slot slot, unsigned k, int lane) {  // of 128 bits
  return reinterpret_cast<const uint32_t*>(w.row({slot.row + k / 2 * 2, slot.id}) + size_t(lane) * 8 + k % 2 * 4);
}
void is_cancelled(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t yes = 0;
  each_lane(mask, [&](int l) { yes |= (*word(w, i.slots[1], 2, l) & 1) << l; });
  w.set_predicate(i.slots[0], yes, mask);
}
// imm: the axis; 3: all of them, as a vector of four
void first_block(Warp& w, const Inst& i, uint32_t mask) {
  const Slot answer = i.slots[i.dests];
  each_lane(mask, [&](int l) {
    const uint32_t yz = *word(w, answer, 1, l), places[4] = {*word(w, answer, 0, l), yz & 0xffff, yz >> 16, 0};
    for (unsigned k = 0; k < i.dests; ++k) lanes_of<uint32_t>(w, i.slots[k])[l] = places[i.imm == 3 ? k : unsigned(i.imm)];
  });
}

Handler bind_launch_control(Binding& b) {
  if (b.take("try_cancel")) {
    b.out.own_flow = true;
    b.out.cls = Class::Async;
    if (!b.take("async") || !b.take("mbarrier::complete_tx::bytes") || b.type() != Type::B128) return nullptr;
    b.take("shared::cta");
    b.out.target = b.take("multicast::cluster::all");
    b.count(2, 2);
    for (unsigned k = 0; k < 2; ++k) {
      const Operand& o = b.operand(k);
      if (o.kind != Operand::Address) b.refuse("operand " + std::to_string(k) + " is not address");
      if (o.variable) {
        b.sources.push_back(b.layout.address(*o.variable, o.value, true));
        continue;
      }
      if (!o.reg || bits_of(o.reg->type) < 32) b.refuse("an address has a register of 32 or 64 bits");
      if (bits_of(o.reg->type) == 32) b.out.wide |= uint8_t(1u << k);
      b.out.imm |= int64_t(uint64_t(uint32_t(o.value)) << 32 * k);
      b.sources.push_back(b.layout.reg(*o.reg));
    }
    return try_cancel;
  }
  if (!b.take("query_cancel")) return nullptr;
  const bool asks = b.take("is_canceled");
  b.count(2, 2);
  if (asks) {
    if (b.type() != Type::Pred || b.type() != Type::B128) return nullptr;
    b.dest(0, Type::Pred), b.source(1, Type::B128);
    return is_cancelled;
  }
  const bool all = b.take("get_first_ctaid") && b.take("v4");
  for (unsigned axis = 0; axis < 3; ++axis)
    if (b.take(std::string("get_first_ctaid::").append(1, char('x' + axis)).c_str())) b.out.imm = axis;
  if (b.type() != Type::B32 || b.type() != Type::B128) return nullptr;
  if (all) {
    b.out.imm = 3;
    if (b.operand(0).kind != Operand::Vector || b.operand(0).parts.size() != 4) b.refuse("it needs a vector of 4");
    for (const Operand& part : b.operand(0).parts) b.dest(part, Type::B32);
  } else b.dest(0, Type::B32);
  b.source(1, Type::B128);
  return first_block;
}

constexpr Opcode rows[] = {{"clusterlaunchcontrol", "9.7.13.16", Class::Move, bind_launch_control}};

}  // namespace

extern const Table kLaunchControlOpcodes{rows, std::size(rows)};

}  // namespace ptx
