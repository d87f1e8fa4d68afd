// What atomic operations do to a word. Source: PTX ISA 9.1, 9.7.13.5.
#pragma once

#include <atomic>
#include <string>
#include <type_traits>

#include "floats.hpp"
#include "lanes.hpp"

namespace ptx {

struct Add { template <class T> T operator()(T old, T b, T) const { if constexpr (std::is_integral_v<T>) return T(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(b)); else return old + b; } };
struct Min { template <class T> T operator()(T old, T b, T) const { return old < b ? old : b; } };
struct Max { template <class T> T operator()(T old, T b, T) const { return old > b ? old : b; } };
struct And { template <class T> T operator()(T old, T b, T) const { return T(old & b); } };
struct Or { template <class T> T operator()(T old, T b, T) const { return T(old | b); } };
struct Xor { template <class T> T operator()(T old, T b, T) const { return T(old ^ b); } };
struct Exch { template <class T> T operator()(T, T b, T) const { return b; } };
struct Inc { template <class T> T operator()(T old, T b, T) const { return old >= b ? T(0) : T(old + 1); } };
struct Dec { template <class T> T operator()(T old, T b, T) const { return old == 0 || old > b ? b : T(old - 1); } };
struct Cas { template <class T> T operator()(T old, T b, T c) const { return old == b ? c : old; } };

// Returns what was there. c: of Cas. `alone`: no other thread can do the same, so that it need not be one
// operation: one thread executes the blocks of a cluster.
template <class T, class Op> T changed(uint8_t* at, T b, T c, bool alone) {
  using Word = Lane<T>;
  if (alone) {
    Word& plain = *reinterpret_cast<Word*>(at);
    const Word old = plain;
    plain = widen<T>(Op{}(narrow<T>(old), b, c));
    return narrow<T>(old);
  }
  std::atomic_ref<Word> word(*reinterpret_cast<Word*>(at));
  Word old = word.load();
  while (!word.compare_exchange_weak(old, widen<T>(Op{}(narrow<T>(old), b, c)))) {}
  return narrow<T>(old);
}

// The same for any type, on a register's bits.
using Change = uint64_t (*)(uint8_t* at, uint64_t b, uint64_t c, bool alone);
template <class T, class Op> uint64_t change(uint8_t* at, uint64_t b, uint64_t c, bool alone) {
  return widen<T>(changed<T, Op>(at, narrow<T>(Lane<T>(b)), narrow<T>(Lane<T>(c)), alone));
}

// The handler of an integer operation: `of` is called with the operation's type, and returns a pointer. nullptr: no such operation.
template <class Of> auto of_operation(const std::string& op, const Of& of) -> decltype(of(Add{})) {
  if (op == "add") return of(Add{});
  if (op == "min") return of(Min{});
  if (op == "max") return of(Max{});
  if (op == "and") return of(And{});
  if (op == "or") return of(Or{});
  if (op == "xor") return of(Xor{});
  if (op == "exch") return of(Exch{});
  if (op == "cas") return of(Cas{});
  if (op == "inc") return of(Inc{});
  if (op == "dec") return of(Dec{});
  return nullptr;
}

}  // namespace ptx
