// The parts of <immintrin.h> that are used here: for all of it, GCC takes up to a third of a compile. The parts ask for these macros.
// Tried with GCC 11, 12 and 14. Other compilers, and newer versions, get all.
#if defined(__clang__) || __GNUC__ < 11 || __GNUC__ > 14
#include <immintrin.h>
#else
#define _IMMINTRIN_H_INCLUDED
#define _X86GPRINTRIN_H_INCLUDED
#include <bmi2intrin.h>
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <fmaintrin.h>
#include <f16cintrin.h>
#ifdef __AVX512F__
#include <avx512fintrin.h>
#include <avx512vlintrin.h>
#include <avx512bwintrin.h>
#include <avx512dqintrin.h>
#include <avx512vlbwintrin.h>
#endif
#ifdef __AVX512BF16__
#include <avx512bf16vlintrin.h>
#include <avx512bf16intrin.h>
#endif
#ifdef __AVX512VBMI__
#include <avx512vbmiintrin.h>
#endif
#ifdef __AMX_TILE__
#include <amxtileintrin.h>
#include <amxbf16intrin.h>
#endif
#endif
