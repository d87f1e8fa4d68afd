// flash_attn_3:fwd_splitkv_combine:sm_90a:dtype=fp32,dtype_out=fp32,hdim=128,hdim_v=128,mode=any,mask=any,softcap=any,lse=any,gqa=any,cache=any,append=any,rotary=any,split=yes,qscale=any,deterministic=any:tile=8x128,varlen=yes,log_max_splits=8
// run_flash_fwd_combine<90, 8, 128, 8, false, true, float, float>

#include <fmha_fa3.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/arch/arch.h>
#include <flash_fwd_combine_kernel.h>

using Kernel = flash::FlashAttnFwdCombine<cute::Shape<cute::Int<8>, cute::Int<128>>, 8, 256, 1, false, true, float, float, cutlass::arch::Sm90>;
using Params = Kernel::Params;

extern "C" __global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, Kernel::MinBlocksPerMultiprocessor)
fmha_fa3(const __grid_constant__ Params params)
{
  extern __shared__ char smem[];
  Kernel kernel;
  kernel(params, smem);
}

FMHA_EXPORT uint32_t fmha_fa3_facts[] = {(uint32_t)Kernel::kBlockM, (uint32_t)Kernel::kBlockK, (uint32_t)Kernel::kMaxSplits, (uint32_t)Kernel::MaxThreadsPerBlock, (uint32_t)Kernel::SharedStorageSize};
