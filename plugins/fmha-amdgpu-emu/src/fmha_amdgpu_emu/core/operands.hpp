// The words of an instruction's text: one operand, one modifier.
#pragma once

#include <string_view>

#include "inst.hpp"

namespace emu {

// A register, constant or special source as the disassembler writes it. Everything else becomes Kind::Text.
Operand parse_operand(std::string_view text);

// True: `text` is a modifier, and `mods` now holds it. False: it is something else.
bool parse_modifier(std::string_view text, Mods& mods);

// The whole text is a number, decimal or 0x..., with or without a sign.
bool parse_integer(std::string_view text, int64_t& value);

}  // namespace emu
