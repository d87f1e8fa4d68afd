// Conversions to bf16 that clang calls on the host and that libgcc has from version 13 on; compiler-rt has them too.
// Weak, so that the system's own are taken where there are some. Rounding is to nearest, ties to even, as IEEE 754 says.
#include <cstdint>
#include <cstring>

namespace {
template <typename To, typename From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
}  // namespace

extern "C" __attribute__((weak)) __bf16 __truncsfbf2(float value) {
    std::uint32_t bits = bits_as<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return bits_as<__bf16>(static_cast<std::uint16_t>((bits >> 16) | 0x40u));  // a quiet NaN
    }
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return bits_as<__bf16>(static_cast<std::uint16_t>(bits >> 16));
}

extern "C" __attribute__((weak)) __bf16 __truncdfbf2(double value) {
    // By way of a float rounded to odd, which keeps what the second rounding needs to know.
    float near = static_cast<float>(value);
    std::uint32_t bits = bits_as<std::uint32_t>(near);
    const double back = near;
    if (back != value && value == value && (bits & 1u) == 0u) {
        const bool away = (back < 0 ? -back : back) > (value < 0 ? -value : value);
        bits = away ? bits - 1u : bits + 1u;
        near = bits_as<float>(bits);
    }
    return __truncsfbf2(near);
}
