#pragma once
#include "cuda_runtime_api.h"
using cuFloatComplex = float2;
using cuDoubleComplex = double2;
inline float cuCrealf(cuFloatComplex a) { return a.x; }
inline float cuCimagf(cuFloatComplex a) { return a.y; }
inline double cuCreal(cuDoubleComplex a) { return a.x; }
inline double cuCimag(cuDoubleComplex a) { return a.y; }
inline cuFloatComplex make_cuFloatComplex(float a, float b) { return {a, b}; }
inline cuDoubleComplex make_cuDoubleComplex(double a, double b) { return {a, b}; }
