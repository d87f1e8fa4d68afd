// --emu-careful: handlers take none of their short ways. Every book is kept, word by word, and every product is made element by
// element. Results, counts and findings are the same, which tests compare: a short way that a careful run does not leave out is
// one that nothing checks.
#pragma once

namespace emulation {

inline bool careful = false;  // set before code is loaded, by FMHA_EMU_CAREFUL or emu_careful

}  // namespace emulation
