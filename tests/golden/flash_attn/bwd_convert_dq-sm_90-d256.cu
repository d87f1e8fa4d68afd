// flash_attn:bwd_convert_dq:sm_90:dtype=fp16,dtype_out=fp16,hdim=256,hdim_v=256,mode=any,mask=any,bias=any,softcap=any,dropout=any,lse=any,gqa=any,deterministic=any:tile=64x64,warps=8,atoms=4x2x2
// flash_bwd_convert_dq_kernel<Flash_bwd_kernel_traits<256, 64, 64, 8, 4, 2, 2, false, false, cutlass::half_t>>

#include <fmha_fa2.h>
#include <namespace_config.h>
#include <flash.h>
#include <flash_bwd_preprocess_kernel.h>

using Traits = Flash_bwd_kernel_traits<256, 64, 64, 8, 4, 2, 2, false, false, cutlass::half_t>;
using Params = FLASH_NAMESPACE::Flash_bwd_params;

extern "C" __global__ void fmha_fa2(const Params params, const int nsplits)
{
  FLASH_NAMESPACE::convert_dQ<Traits>(params, nsplits);
}

FMHA_EXPORT uint32_t fmha_fa2_facts[] = {(uint32_t)Traits::kBlockM, (uint32_t)Traits::kBlockN, (uint32_t)Traits::kHeadDim, (uint32_t)Traits::kNThreads, (uint32_t)Traits::kSmemdQSize};
