// Clusters. Source: PTX ISA 9.1, 9.7.9.23 (mapa), 9.7.9.24 (getctarank), 9.7.13.3 (barrier.cluster).
#include "access.hpp"
#include "binding.hpp"
#include "cluster.hpp"

namespace ptx {

namespace {

constexpr uint64_t kOffset = (uint64_t(1) << kRankBit) - 1;

// imm: the window of generic addresses
template <class T> void map(Warp& w, const Inst& i, uint32_t mask) {
  const T* a = reinterpret_cast<const T*>(w.row(i.slots[1]));
  const uint32_t* rank = lanes_of<uint32_t>(w, i.slots[2]);
  T* d = reinterpret_cast<T*>(w.row(i.slots[0]));
  each_lane(mask, [&](int l) {
    if (!w.block->cluster->at(rank[l]))
      throw Fault{"line " + std::to_string(i.at->line) + ": " + std::string(i.at->text) + ": the cluster has no block " + std::to_string(rank[l])};
    d[l] = T((a[l] & kOffset) | uint64_t(rank[l]) << kRankBit | uint64_t(i.imm));
  });
}
Handler bind_mapa(Binding& b) {
  const bool shared = b.take("shared::cluster");
  const Type type = b.type();
  b.count(3, 3);
  if (type != Type::U32 && type != Type::U64) return nullptr;
  if (!shared) b.out.imm = int64_t(kSharedWindow);
  if (!shared && type == Type::U32) b.refuse("a generic address has 64 bits");
  b.dest(0, type), b.source(1, type), b.source(2, Type::U32);
  return type == Type::U64 ? map<uint64_t> : map<uint32_t>;
}

template <class T> void rank(Warp& w, const Inst& i, uint32_t mask) {
  const T* a = reinterpret_cast<const T*>(w.row(i.slots[1]));
  each_lane(mask, [&](int l) {
    lanes_of<uint32_t>(w, i.slots[0])[l] = uint32_t((a[l] & (kWindow - 1)) >> kRankBit);
  });
}
Handler bind_getctarank(Binding& b) {
  b.take("shared::cluster");
  const Type type = b.type();
  b.count(2, 2);
  b.dest(0, Type::U32), b.source(1, type);
  return type == Type::U64 ? rank<uint64_t> : type == Type::U32 ? rank<uint32_t> : nullptr;
}

void arrive(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "barrier.cluster")) return;
  ++w.block->counts.barriers;
  w.block->cluster->arrive(w, i, i.imm);
}
void wait(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "barrier.cluster")) return;
  if (w.cluster_passed == w.cluster_phase)
    throw Fault{"line " + std::to_string(i.at->line) + ": " + std::string(i.at->text) + ": it waits, and has not arrived: the others do not go on without it"};
  if (w.block->cluster->passed(w)) return void(w.recent_poll = 0);
  --w.block->executed[--w.pc];
  w.polled = kForCluster;
  yield_to_others(w);
}

constexpr Opcode rows[] = {
    {"mapa", "9.7.9.23", Class::Move, bind_mapa},
    {"getctarank", "9.7.9.24", Class::Move, bind_getctarank},
};

}  // namespace

Handler bind_cluster_barrier(Binding& b) {
  b.out.own_flow = true;
  b.out.imm = !b.take("relaxed");
  b.any({"aligned", "acquire", "release"});
  b.count(0, 0);
  return b.take("arrive") ? arrive : b.take("wait") ? wait : nullptr;
}

extern const Table kClusterOpcodes{rows, std::size(rows)};

}  // namespace ptx
