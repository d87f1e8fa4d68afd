// Registers whose lives never overlap share rows. PTX names a register for each value, and a warp's file of all of them would be
// larger than the caches. One that may be read before it is written lives from the kernel's begin.
#include <algorithm>

#include "ways.hpp"

namespace ptx {

namespace {

using Set = std::vector<uint64_t>;
bool has(const Set& set, uint32_t k) { return set[k / 64] >> k % 64 & 1; }
void put(Set& set, uint32_t k) { set[k / 64] |= uint64_t(1) << k % 64; }

struct Stretch {  // of instructions that are executed as a whole
  uint32_t first, last;
  Set needs, writes, before, behind;  // needs: what it reads of others' writes; before, behind: what is read later
};
struct Life {  // the instructions between which a register may hold a value, and rows
  uint32_t id, first = ~uint32_t(0), last = 0, rows = 1;
  bool alone = false;
  void reach(uint32_t pc) { first = std::min(first, pc), last = std::max(last, pc); }
};

// Whether it writes each lane that executes it, whatever it finds: a lane whose access fails would keep what the row held.
bool always_writes(const Inst& i) {
  const std::string& root = i.at->root;
  if (root == "ld") return i.space == Space::Global || i.space == Space::Const || i.space == Space::Param;
  return root == "ldmatrix" || root == "mma" || i.cls == Class::Integer || i.cls == Class::Float || i.cls == Class::Convert ||
         i.cls == Class::Special || i.cls == Class::Move;
}

std::vector<Stretch> stretches_of(const Kernel& kernel, size_t words) {
  const std::vector<bool> leads = leads_of(kernel);
  std::vector<Stretch> out;
  const Set none(words, 0);
  for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) {
    if (leads[pc]) out.push_back({pc, pc, none, none, none, none});
    out.back().last = pc;
  }
  return out;
}

void find_lives(const Kernel& kernel, std::vector<Life>& lives) {
  // Only registers that a stretch reads of another one's writes live beyond theirs.
  std::vector<uint32_t> number(kernel.ids, 0), far;
  const std::vector<Stretch> plain = stretches_of(kernel, 0);
  std::vector<uint32_t> written(kernel.ids, 0);
  for (uint32_t s = 0; s < plain.size(); ++s)
    for (uint32_t pc = plain[s].first; pc <= plain[s].last; ++pc) {
      const Inst& i = kernel.code[pc];
      each_read(i, [&](uint32_t id) {
        lives[id].reach(pc);
        if (written[id] != s + 1 && !number[id]) far.push_back(id), number[id] = uint32_t(far.size());
      });
      for (unsigned k = 0; k < i.dests; ++k) {
        lives[i.slots[k].id].reach(pc);
        if (!i.guarded) written[i.slots[k].id] = s + 1;
      }
    }
  std::vector<Stretch> all = stretches_of(kernel, far.size() / 64 + 1);
  std::vector<uint32_t> stretch_at(kernel.code.size() + 1, uint32_t(all.size()));
  for (uint32_t s = 0; s < all.size(); ++s) {
    stretch_at[all[s].first] = s;
    for (uint32_t pc = all[s].first; pc <= all[s].last; ++pc) {
      const Inst& i = kernel.code[pc];
      each_read(i, [&](uint32_t id) {
        if (number[id] && !has(all[s].writes, number[id] - 1)) put(all[s].needs, number[id] - 1);
      });
      for (unsigned k = 0; !i.guarded && k < i.dests; ++k)
        if (const uint32_t at = number[i.slots[k].id]) put(all[s].writes, at - 1);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t s = all.size(); s-- > 0;) {
      Stretch& it = all[s];
      each_next(kernel, it.last, [&](uint32_t next) {
        if (stretch_at[next] < all.size())
          for (size_t k = 0; k < it.behind.size(); ++k) it.behind[k] |= all[stretch_at[next]].before[k];
      });
      for (size_t k = 0; k < it.before.size(); ++k) {
        const uint64_t now = it.needs[k] | (it.behind[k] & ~it.writes[k]);
        changed |= now != it.before[k], it.before[k] = now;
      }
    }
  }
  for (const Stretch& it : all)
    for (uint32_t k = 0; k < far.size(); ++k) {
      if (has(it.before, k)) lives[far[k]].reach(it.first);
      if (has(it.behind, k)) lives[far[k]].reach(it.last);
    }
}

}  // namespace

void share_rows(Kernel& kernel) {
  std::vector<Life> lives(kernel.ids);
  std::vector<uint32_t> row(kernel.ids + 1, kernel.rows);
  const auto each_slot = [&](auto f) {
    for (Slot& slot : kernel.slots)
      if (slot.id) f(slot);
    for (Inst& i : kernel.code)
      if (i.guarded) f(i.guard);
  };
  each_slot([&](const Slot& slot) { row[slot.id] = slot.row; });
  for (uint32_t id = kernel.ids; id-- > 1;) row[id] = std::min(row[id], row[id + 1]);  // ids and rows were given out together
  for (uint32_t id = 1; id < kernel.ids; ++id) lives[id].id = id, lives[id].rows = row[id + 1] - row[id];
  for (const Inst& i : kernel.code)
    for (unsigned k = 0; k < i.dests && !always_writes(i); ++k) lives[i.slots[k].id].alone = true;
  find_lives(kernel, lives);
  std::sort(lives.begin() + 1, lives.end(), [](const Life& a, const Life& b) { return a.first != b.first ? a.first < b.first : a.id < b.id; });
  std::vector<std::pair<uint32_t, uint32_t>> ends;  // a heap of last instructions with their place in `lives`
  std::vector<uint32_t> free[5];                    // first rows, by the number of rows
  uint32_t rows = 0;
  for (uint32_t k = 1; k < lives.size(); ++k) {
    const Life& life = lives[k];
    for (; !ends.empty() && ends.front().first < life.first; ends.pop_back()) {
      std::pop_heap(ends.begin(), ends.end(), std::greater<>{});
      const Life& over = lives[ends.back().second];
      free[over.rows].push_back(row[over.id]);
    }
    if (!life.alone && !free[life.rows].empty()) row[life.id] = free[life.rows].back(), free[life.rows].pop_back();
    else row[life.id] = rows, rows += life.rows;
    if (!life.alone) ends.push_back({life.last, k}), std::push_heap(ends.begin(), ends.end(), std::greater<>{});
  }
  each_slot([&](Slot& slot) { slot.row = row[slot.id]; });
  kernel.rows = rows;
}

}  // namespace ptx
