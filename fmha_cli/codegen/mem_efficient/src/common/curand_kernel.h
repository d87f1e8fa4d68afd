// The part of cuRAND's device interface that kernels use: Philox 4x32 with 10 rounds, whose words are numbered from 0.
//
// Salmon and others, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): the rounds and their constants.
#pragma once

struct curandStatePhilox4_32_10_t {
  unsigned long long block;        // the number of the block of four words that comes next
  unsigned long long subsequence;  // the upper half of the counter
  uint2 key;
  uint4 words;                     // those of the block
  unsigned place;                  // how many of them are used up
};

namespace fmha_philox {
__device__ inline uint4 block_of(unsigned long long block, unsigned long long subsequence, uint2 key) {
  uint4 c = {(unsigned)block, (unsigned)(block >> 32), (unsigned)subsequence, (unsigned)(subsequence >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    unsigned const low0 = 0xD2511F53u * c.x, high0 = __umulhi(0xD2511F53u, c.x);
    unsigned const low1 = 0xCD9E8D57u * c.z, high1 = __umulhi(0xCD9E8D57u, c.z);
    c = {high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0};
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return c;
}

// In (0, 1]: the middle of each of 2^32 equal parts.
__device__ inline float uniform(unsigned word) { return word * 2.3283064e-10f + 1.1641532e-10f; }
}  // namespace fmha_philox

__device__ inline void skipahead(unsigned long long count, curandStatePhilox4_32_10_t* state) {
  unsigned const place = state->place + (unsigned)(count & 3);
  state->block += count / 4 + place / 4;
  state->place = place % 4;
  state->words = fmha_philox::block_of(state->block, state->subsequence, state->key);
}

__device__ inline void curand_init(
    unsigned long long seed,
    unsigned long long subsequence,
    unsigned long long offset,
    curandStatePhilox4_32_10_t* state) {
  *state = {0, subsequence, {(unsigned)seed, (unsigned)(seed >> 32)}, {0, 0, 0, 0}, 0};
  skipahead(offset, state);
}

__device__ inline float4 curand_uniform4(curandStatePhilox4_32_10_t* state) {
  uint4 const a = state->words;
  uint4 const b = state->words = fmha_philox::block_of(++state->block, state->subsequence, state->key);
  uint4 r = a;
  if (state->place == 1) r = {a.y, a.z, a.w, b.x};
  if (state->place == 2) r = {a.z, a.w, b.x, b.y};
  if (state->place == 3) r = {a.w, b.x, b.y, b.z};
  using fmha_philox::uniform;
  return {uniform(r.x), uniform(r.y), uniform(r.z), uniform(r.w)};
}
