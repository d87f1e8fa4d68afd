// mem_efficient:fwd:sm_75:dtype=fp16,dtype_out=fp16,hdim=64,hdim_v=64,mode=any,mask=any,bias=any,dropout=any,lse=any,gqa=any,cache=any,deterministic=any:tag=75,aligned=no,tile=64x64,max_k=64
// AttentionKernel<cutlass::half_t, cutlass::arch::Sm75, false, 64, 64, 64, true, true>

#include <fmha_memeff.h>
#include <kernel_forward.h>

using Kernel = AttentionKernel<cutlass::half_t, cutlass::arch::Sm75, false, 64, 64, 64, true, true>;
using Params = Kernel::Params;

extern "C" __global__ void __launch_bounds__(Kernel::kNumThreads, Kernel::kMinBlocksPerSm)
fmha_cutlassF_f16_notaligned_64x64_rf_sm75(Params p)
{
  if (!p.advance_to_block()) {
    return;
  }
  Kernel::attention_kernel(p);
}

FMHA_EXPORT uint32_t fmha_cutlassF_f16_notaligned_64x64_rf_sm75_facts[] = {(uint32_t)Kernel::kNumThreads, (uint32_t)Kernel::kMaxK, (uint32_t)Kernel::kIsAligned, (uint32_t)Kernel::kQueriesPerBlock, (uint32_t)Kernel::kKeysPerBlock, (uint32_t)Kernel::kKeepOutputInRF, (uint32_t)Kernel::kNeedsOutputAccumulatorBuffer, (uint32_t)Kernel::kAlignmentQ, (uint32_t)Kernel::kAlignmentK, sizeof(Kernel::SharedStorage)};
