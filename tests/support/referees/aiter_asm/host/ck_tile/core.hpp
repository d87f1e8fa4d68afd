// As much of Composable Kernel as AITER's host code needs to compile.

#pragma once
#include <hip/hip_runtime.h>

#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace ck_tile {
using index_t = int32_t;
using long_index_t = int64_t;
struct stream_config {
  hipStream_t stream_id_ = nullptr;
  bool time_kernel_ = false;
  int log_level_ = 0;
};
template <class T>
using remove_cvref_t = std::remove_cv_t<std::remove_reference_t<T>>;
template <class Call>
float launch_kernel(const stream_config& stream, Call call) {
  call(stream);
  return 0;
}
}  // namespace ck_tile
