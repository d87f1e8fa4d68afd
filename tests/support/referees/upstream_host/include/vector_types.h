// CUDA's vector types. CUTLASS's host code needs only their sizes and alignments.
#pragma once
#define HOST_VECTORS(T, NAME, ALIGN2, ALIGN4) \
    struct alignas(ALIGN2) NAME##2 { T x, y; }; \
    struct NAME##3 { T x, y, z; }; \
    struct alignas(ALIGN4) NAME##4 { T x, y, z, w; };
HOST_VECTORS(int, int, 8, 16)
HOST_VECTORS(unsigned, uint, 8, 16)
HOST_VECTORS(long, long, 16, 16)
HOST_VECTORS(unsigned long, ulong, 16, 16)
HOST_VECTORS(long long, longlong, 16, 16)
HOST_VECTORS(unsigned long long, ulonglong, 16, 16)
HOST_VECTORS(float, float, 8, 16)
HOST_VECTORS(double, double, 16, 16)
#undef HOST_VECTORS
