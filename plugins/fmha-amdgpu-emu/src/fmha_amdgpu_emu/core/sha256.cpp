// SHA-256 as FIPS 180-4 defines it; the constants are its own: fractions of roots of primes.
#include "sha256.hpp"

#include <cmath>
#include <vector>

namespace emu {

namespace {

struct Constants {
  uint32_t k[64], start[8];
  Constants() {
    const auto fraction = [](long double x) { return uint32_t((x - floorl(x)) * 4294967296.0L); };
    int found = 0;
    for (int n = 2; found < 64; ++n) {
      bool prime = true;
      for (int d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
      if (!prime) continue;
      if (found < 8) start[found] = fraction(sqrtl(n));
      k[found++] = fraction(cbrtl(n));
    }
  }
};

uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

void digest_block(uint32_t (&h)[8], const uint8_t* block, const uint32_t (&k)[64]) {
  uint32_t w[64];
  for (int t = 0; t < 16; ++t)
    w[t] = uint32_t(block[4 * t]) << 24 | uint32_t(block[4 * t + 1]) << 16 | uint32_t(block[4 * t + 2]) << 8 | block[4 * t + 3];
  for (int t = 16; t < 64; ++t) {
    const uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  uint32_t v[8];
  for (int j = 0; j < 8; ++j) v[j] = h[j];
  for (int t = 0; t < 64; ++t) {
    const uint32_t big1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
    const uint32_t big0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
    const uint32_t t1 = v[7] + big1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[t] + w[t];
    const uint32_t t2 = big0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    for (int j = 7; j > 0; --j) v[j] = v[j - 1];
    v[4] += t1;
    v[0] = t1 + t2;
  }
  for (int j = 0; j < 8; ++j) h[j] += v[j];
}

}  // namespace

std::string sha256(const uint8_t* data, size_t bytes) {
  static const Constants constants;
  uint32_t h[8];
  for (int j = 0; j < 8; ++j) h[j] = constants.start[j];
  size_t at = 0;
  for (; at + 64 <= bytes; at += 64) digest_block(h, data + at, constants.k);
  std::vector<uint8_t> tail(data + at, data + bytes);
  tail.push_back(0x80);
  while (tail.size() % 64 != 56) tail.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8) tail.push_back(uint8_t(uint64_t(bytes) * 8 >> shift));
  for (size_t block = 0; block < tail.size(); block += 64) digest_block(h, tail.data() + block, constants.k);
  std::string out;
  for (uint32_t word : h)
    for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[word >> shift & 15];
  return out;
}

}  // namespace emu
