// Products that the assembler joins with the sum behind them.
#pragma once

#include "syntax.hpp"

namespace ptx {

// Modifiers of an fma that stands for a subtraction: PTX has no signs of operands.
constexpr const char* kMinusProduct = "-product";
constexpr const char* kMinusAddend = "-addend";

// In every kernel, makes `add.f32` and `sub.f32` of a product that nothing else reads an fma: one rounding instead of two. The document
// allows it where neither instruction names a rounding (PTX ISA 9.1, 9.7.3.3 to 9.7.3.5), and ptxas does it.
// The product stays where it is, so lines and counts of instructions are those of the text.
void contract(Module& module);

}  // namespace ptx
