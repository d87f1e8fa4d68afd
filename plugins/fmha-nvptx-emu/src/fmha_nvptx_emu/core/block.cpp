// A block: its warps run from barrier to barrier, in the order that the seed gives.
#include "block.hpp"

#include <algorithm>

#include "cluster.hpp"
#include "emu_random.hpp"
#include "tensor_memory.hpp"

namespace ptx {

void Counts::add(const Counts& o) {
  global_read += o.global_read, global_written += o.global_written, local_read += o.local_read;
  local_written += o.local_written, param_read += o.param_read, shared_read += o.shared_read;
  shared_written += o.shared_written, shared_accesses += o.shared_accesses, conflicts += o.conflicts;
  sectors += o.sectors, barriers += o.barriers, matrix_flops += o.matrix_flops;
}

namespace {

using emulation::mixed;

// A warp may wait in a loop for what another warp or block stores, so none runs for ever.
constexpr uint64_t kLongTurn = 1 << 20;

}  // namespace

Block::Block(const Launch& on) : launch(&on), kernel(on.kernel), executed(on.kernel->code.size()), checks(on.options.checks) {
  const uint32_t threads = on.block[0] * on.block[1] * on.block[2];
  const size_t count = (threads + 31) / 32, room = size_t(kernel->rows) * kRowBytes;
  registers.resize(room * count + 64);
  defined.resize(size_t(kernel->ids) * count);
  uint8_t* base = registers.data() + (64 - reinterpret_cast<uintptr_t>(registers.data()) % 64) % 64;
  for (size_t k = 0; k < count; ++k) {
    warps.push_back(std::make_unique<Warp>());
    Warp& w = *warps.back();
    w.block = this, w.index = uint32_t(k);
    w.file = base + room * k, w.defined = defined.data() + size_t(kernel->ids) * k;
    std::memcpy(w.file + size_t(kernel->first_constant) * kRowBytes, kernel->constants.data(), kernel->constants.size());
  }
}

void Block::join(Cluster& with, uint32_t as) {
  cluster = &with, rank = as, clustered = true;
  for (const auto& w : warps)
    for (const Kernel::SharedAddress& one : kernel->shared_addresses)
      for (unsigned lane = 0; lane < 32; ++lane) {
        uint8_t* at = w->file + size_t(one.row) * kRowBytes + lane * (one.wide ? 8 : 4);
        uint32_t low;  // the offset and the rank have 32 bits
        std::memcpy(&low, at, sizeof low);
        low |= as << kRankBit;
        std::memcpy(at, &low, sizeof low);
      }
}

void Block::begin(uint32_t at) {
  number = at;
  id[0] = at % launch->grid[0], id[1] = at / launch->grid[0] % launch->grid[1], id[2] = at / launch->grid[0] / launch->grid[1];
  shared.begin(kernel->static_shared + launch->dynamic_shared);
  mbarriers.begin(), named.begin();
  spare_registers = 0;
  tensor = kernel->tensor_memory ? std::make_shared<TensorMemory>() : nullptr;
  for (size_t k = 0; k < warps.size(); ++k) start(*warps[k], uint32_t(k));
  random_ = mixed(launch->options.seed ^ mixed(number));
  order_.clear();
  for (const auto& w : warps) order_.push_back(w.get());
  cluster_arriving.clear(), cluster_complete.clear();
}

void Block::start(Warp& w, uint32_t index) {
  const Launch& on = *launch;
  const uint32_t threads = on.block[0] * on.block[1] * on.block[2], first = index * 32;
  std::memset(w.file, 0xCD, size_t(kernel->first_constant) * kRowBytes);
  if (w.fresh || w.doubtful) std::memcpy(w.defined, kernel->defined_at_first.data(), size_t(kernel->ids) * 4);
  else  // of the block before, the others are as they were
    for (const uint32_t id : kernel->uncertain) w.defined[id] = 0;
  w.fresh = false;
  w.doubtful = false;
  w.alive = w.mask = threads - first >= 32 ? kAll : (1u << (threads - first)) - 1;
  w.pc = 0, w.next = kNever, w.going = Going::On;
  w.others.clear();
  w.tainted = 0, w.partly.clear();
  w.time = 1, w.inits_fenced = 0, w.copies.begin();
  std::fill(std::begin(w.later), std::end(w.later), kNever);
  w.bulk = {}, w.wgmma_committed = w.wgmma_complete = 0;
  w.outstanding.clear(), w.held.assign(kernel->ids, 0);
  w.written_at.assign(kernel->asynchronous_matrix && checks ? kernel->ids : 0, 0);
  w.instruction = w.fence_at = 0, w.recent_poll = 0, w.polled = 0;
  w.registers = on.registers;
  w.cluster_arrived = false, w.cluster_phase = w.cluster_passed = 0;
  std::fill(std::begin(w.known), std::end(w.known), 0);
  std::fill(std::begin(w.fenced), std::end(w.fenced), 0);
  for (uint32_t* times : {w.sent, w.received, w.fenced_tensor}) std::fill_n(times, kAgents, 0);
  set_floor(w);
  w.local.assign(size_t(kernel->local_bytes) * 32, 0xA5);
  w.local_defined.assign(size_t(kernel->local_bytes) * 32, 0);
  for (const Kernel::SpecialRow& s : kernel->specials) {
    const size_t slash = s.name.find('/');
    const std::string name = s.name.substr(1, slash == std::string::npos ? std::string::npos : slash - 1);
    const bool wide = slash != std::string::npos;
    const unsigned axis = name.back() == 'x' ? 0 : name.back() == 'y' ? 1 : 2;
    const auto is = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
    const auto value = [&](uint32_t lane) -> uint64_t {
      const uint32_t t = first + lane;
      if (is("tid")) return axis == 0 ? t % on.block[0] : axis == 1 ? t / on.block[0] % on.block[1] : t / on.block[0] / on.block[1];
      if (is("ntid")) return on.block[axis];
      if (is("ctaid")) return id[axis];
      if (is("nctaid")) return on.grid[axis];
      if (name == "laneid") return lane;
      if (name == "warpid") return index;
      if (name == "nwarpid") return warps.size();
      if (name == "smid") return number % on.units;
      if (name == "nsmid") return on.units;
      if (name == "lanemask_eq") return 1u << lane;
      if (name == "lanemask_lt") return (1u << lane) - 1;
      if (name == "lanemask_le") return (2u << lane) - 1;
      if (name == "lanemask_ge") return ~((1u << lane) - 1);
      if (name == "lanemask_gt") return ~((2u << lane) - 1);
      if (is("clusterid")) return id[axis] / on.cluster[axis];
      if (is("nclusterid")) return on.grid[axis] / on.cluster[axis];
      if (name == "cluster_ctarank") return rank;
      if (name == "cluster_nctarank") return on.cluster[0] * on.cluster[1] * on.cluster[2];
      if (is("cluster_ctaid")) return id[axis] % on.cluster[axis];
      if (is("cluster_nctaid")) return on.cluster[axis];
      if (name == "dynamic_smem_size") return on.dynamic_shared;
      if (name == "total_smem_size") return kernel->static_shared + on.dynamic_shared;
      throw Fault{"the register %" + name + " is not implemented in " + kernel->name};
    };
    const bool same = !is("tid") && !is("lane");  // of all lanes
    uint64_t v = 0;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      if (!lane || !same) v = value(lane);
      std::memcpy(w.file + size_t(s.row) * kRowBytes + lane * (wide ? 8 : 4), &v, wide ? 8 : 4);
    }
  }
}

Turn Block::turn() {
  const uint64_t most = launch->options.turn ? launch->options.turn : kLongTurn, before = events;
  const auto over = [&] { return std::all_of(order_.begin(), order_.end(), [](Warp* w) { return w->going == Going::Done; }); };
  if (over()) return Turn::Done;
  for (size_t k = order_.size(); k > 1; --k) std::swap(order_[k - 1], order_[(random_ = mixed(random_)) % k]);
  bool went_on = false, polled = false;
  for (Warp* w : order_) {
    if (w->going == Going::Poll) w->going = Going::On;
    if (w->going != Going::On) continue;
    spent += interpret(*w, most);
    polled |= w->recent_poll != 0;
    went_on |= w->going != Going::Poll && !w->recent_poll;
    w->recent_poll -= w->recent_poll && w->going == Going::On;
  }
  if (over()) return Turn::Done;
  return release() || went_on || events != before ? Turn::On : polled ? Turn::Polls : Turn::Stuck;
}

std::string Block::waiting() const {
  std::string who;
  for (const auto& w : warps) {
    who += (who.empty() ? "warp " : "; warp ") + std::to_string(w->index);
    if (w->going == Going::Done) who += " ended";
    else who += " waits at line " + std::to_string(w->inst->at->line) + ", " + std::string(w->inst->at->text);
    if (w->going != Going::Done && w->recent_poll) who += " (" + mbarriers.state(w->polled) + ")";
  }
  return who;
}

// Lets the warps go on that wait at a complete barrier. A barrier without a count needs every warp that has not ended.
bool Block::release() {
  bool any = false;
  for (uint32_t barrier = 0; barrier < 16; ++barrier) {
    std::vector<Warp*> here;
    uint32_t running = 0, wanted = 0;
    for (const auto& w : warps) {
      running += w->going != Going::Done;
      if (w->going == Going::Barrier && w->barrier == barrier) here.push_back(w.get()), wanted = w->barrier_count;
    }
    if (here.empty() || (wanted ? here.size() * 32 < wanted : here.size() < running)) continue;
    std::vector<Warp*> ordered = here;
    if (!wanted)
      for (const auto& w : warps)
        if (w->going == Going::Done) ordered.push_back(w.get());
    Order order;
    for (Warp* w : ordered) order.gather(*w);
    for (Warp* w : here) {
      order.give(*w);
      ++w->time;
      w->going = Going::On;
    }
    any = true;
  }
  return any;
}

}  // namespace ptx
