// flash_attn_3:bwd_dot_do_o:sm_90a:dtype=bf16,dtype_out=bf16,hdim=128,hdim_v=128,mode=any,mask=any,softcap=any,lse=any,gqa=any,deterministic=any:tile=80,varlen=yes
// flash::FlashAttnBwdPreprocess<cute::Shape<cute::Int<80>, cute::Int<128>>, cutlass::bfloat16_t, float, cutlass::arch::Sm90, true, true>

#include <fmha_fa3.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/arch/arch.h>
#include <flash_bwd_preprocess_kernel.h>

using Kernel = flash::FlashAttnBwdPreprocess<cute::Shape<cute::Int<80>, cute::Int<128>>, cutlass::bfloat16_t, float, cutlass::arch::Sm90, true, true>;
using Params = Kernel::Params;

extern "C" __global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, Kernel::MinBlocksPerMultiprocessor)
fmha_fa3(const __grid_constant__ Params params)
{
  extern __shared__ char smem[];
  Kernel kernel;
  kernel(params, smem);
}

FMHA_EXPORT uint32_t fmha_fa3_facts[] = {(uint32_t)Kernel::kBlockM, (uint32_t)Kernel::kHeadDim, (uint32_t)Kernel::MaxThreadsPerBlock, (uint32_t)Kernel::SharedStorageSize};
