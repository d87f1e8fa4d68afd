// The names of CUTLASS and CUDA that the dispatch alone needs.
#pragma once
namespace cutlass {
struct half_t {
    short bits;
};
struct bfloat16_t {
    short bits;
};
struct float_e4m3_t {
    char bits;
};
struct float_e5m2_t {
    char bits;
};
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
}  // namespace cutlass
namespace cute {
template <typename A, typename B>
inline constexpr bool is_same_v = std::is_same_v<A, B>;
}
using cudaStream_t = void *;
#define CHECK_CUDA_KERNEL_LAUNCH()
