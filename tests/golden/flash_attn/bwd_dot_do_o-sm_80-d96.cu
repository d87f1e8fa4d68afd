// flash_attn:bwd_dot_do_o:sm_80:dtype=bf16,dtype_out=bf16,hdim=96,hdim_v=96,mode=any,mask=any,bias=any,softcap=any,dropout=any,lse=any,gqa=any,deterministic=any:tile=64x128,warps=8,atoms=2x4x4,v_in_regs=yes,clear_dq_accum=yes
// flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<96, 64, 128, 8, 2, 4, 4, true, false, cutlass::bfloat16_t>>

#include <fmha_fa2.h>
#include <namespace_config.h>
#include <flash.h>
#include <flash_bwd_preprocess_kernel.h>

using Traits = Flash_bwd_kernel_traits<96, 64, 128, 8, 2, 4, 4, true, false, cutlass::bfloat16_t>;
using Params = FLASH_NAMESPACE::Flash_bwd_params;

extern "C" __global__ void fmha_fa2(const Params params)
{
  FLASH_NAMESPACE::compute_dot_do_o<true, Traits>(params);
}

FMHA_EXPORT uint32_t fmha_fa2_facts[] = {(uint32_t)Traits::kBlockM, (uint32_t)Traits::kBlockN, (uint32_t)Traits::kHeadDim, (uint32_t)Traits::kNThreads, 0};
