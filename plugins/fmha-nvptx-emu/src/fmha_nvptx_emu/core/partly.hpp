// What is known of the parts of a packed register. Compilers pack a value beside a register that nothing wrote, and take the value
// out alone.
#pragma once

#include <algorithm>

#include "block.hpp"

namespace ptx {

// The lanes where part k of n equal parts of a register holds a value.
inline uint32_t known_part(const Warp& w, Slot slot, unsigned k, unsigned n) {
  const uint32_t whole = w.defined[slot.id];
  for (const Partly& p : w.partly) {
    if (p.id != slot.id) continue;
    if (p.count == n) return whole | p.parts[k];
    return whole | (n < p.count ? p.parts[2 * k] & p.parts[2 * k + 1] : p.parts[k / 2]);
  }
  return whole;
}

// A destination's parts, for the lanes of the mask.
inline void define_parts(Warp& w, Slot slot, const uint32_t (&known)[4], unsigned n, uint32_t mask) {
  uint32_t whole = kAll, some = 0;
  for (unsigned k = 0; k < n; ++k) whole &= known[k], some |= known[k];
  w.define(slot, whole, mask);
  if (!(some & ~whole & mask)) return;
  auto at = std::find_if(w.partly.begin(), w.partly.end(), [slot](const Partly& p) { return p.id == slot.id; });
  if (at == w.partly.end()) at = w.partly.insert(at, {slot.id, n, {0, 0, 0, 0}});
  if (at->count != n) *at = {slot.id, n, {0, 0, 0, 0}};  // lanes of another form are forgotten: they count as undefined
  for (unsigned k = 0; k < n; ++k) at->parts[k] |= known[k] & mask;
}

}  // namespace ptx
