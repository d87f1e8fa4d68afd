// ck_tile:fwd_appendkv:gfx942:dtype=bf16,dtype_out=bf16,hdim=128,hdim_v=128,mask=any,sink=any,bias=any,softcap=any,dropout=any,lse=any,gqa=any,cache=paged,append=yes,rotary=interleaved,split=any,deterministic=any:pipeline=appendkv,tile=64x64x128x128,pad_s=yes,pad_sk=yes,pad_d=1,pad_dv=1

struct Types {
  using QDataType = ck_tile::bf16_t;
  using KDataType = ck_tile::bf16_t;
  using VDataType = ck_tile::bf16_t;
  using BiasDataType = ck_tile::bf16_t;
  using RandValOutputDataType = uint8_t;
  using LSEDataType = float;
  using SaccDataType = float;
  using SMPLComputeDataType = float;
  using PDataType = ck_tile::bf16_t;
  using OaccDataType = float;
  using ODataType = ck_tile::bf16_t;
};
using Traits = ck_tile::TileFmhaFwdAppendKVTraits<
    true,
    true,
    true,
    true,
    -1>;
using Problem = ck_tile::BlockFmhaFwdAppendKVPipelineProblem<
    Types::QDataType,
    Types::KDataType,
    Types::VDataType,
    64,
    64,
    128,
    128,
    true,
    ck_tile::RotaryEmbeddingEnum::INTERLEAVED,
    true,
    Traits>;
using Pipeline = ck_tile::BlockFmhaFwdAppendKVPipeline<Problem>;
using Kernel = ck_tile::FmhaFwdAppendKVKernel<Pipeline>;

static void check(const Args& a, Checks& checks) {
  REQUIRE(q_ptr, a.q_ptr != nullptr);
  REQUIRE(k_ptr, a.k_ptr != nullptr);
  REQUIRE(v_ptr, a.v_ptr != nullptr);
  REQUIRE(seqlen_k_ptr, a.seqlen_k_ptr != nullptr);
  REQUIRE(rotary_cos_ptr, a.rotary_cos_ptr != nullptr);
  REQUIRE(rotary_sin_ptr, a.rotary_sin_ptr != nullptr);
  REQUIRE(block_table_ptr, a.block_table_ptr != nullptr);
  REQUIRE(cache_batch_idx, a.cache_batch_idx == nullptr);
  EXTENT(batch, 1);
  EXTENT(nhead_q, 1);
  EXTENT(nhead_k, 1);
  EXTENT(hdim_q, 1);
  EXTENT(hdim_v, 1);
  EXTENT(seqlen_q, 0);
  EXTENT(seqlen_knew, 0);
  EXTENT(page_block_size, 1);
  REQUIRE(nhead_q, a.nhead_k < 1 || a.nhead_q % a.nhead_k == 0);
  REQUIRE(seqlen_q, a.seqlen_q > 0 || a.seqlen_knew > 0);
  REQUIRE(hdim_q, a.hdim_q <= 128);
  REQUIRE(hdim_v, a.hdim_v <= 128);
  REQUIRE(knew_ptr, a.seqlen_knew == 0 || a.knew_ptr != nullptr);
  REQUIRE(vnew_ptr, a.seqlen_knew == 0 || a.vnew_ptr != nullptr);
  REQUIRE(rotary_dim, a.rotary_dim > 0 && a.rotary_dim <= a.hdim_q && a.rotary_dim % 16 == 0);
  if (checks.status != STATUS_OK) return;
  PRODUCT(batch_stride_block_table, a.batch - 1, a.batch_stride_block_table);
}

template <typename Kernel>
struct Prepared {
  typename Kernel::Kargs kargs;
  dim3 grid;
};

template <typename Kernel>
Prepared<Kernel> prepare(const Args& a, Checks& checks) {
  return {Kernel::MakeKargs(
          a.q_ptr,
          a.k_ptr,
          a.knew_ptr,
          a.v_ptr,
          a.vnew_ptr,
          IN(seqlen_q),
          a.seqlen_k_ptr,
          IN(seqlen_knew),
          IN(hdim_q),
          IN(hdim_v),
          IN(nhead_q),
          Narrow{a.nhead_q / a.nhead_k, FIELD_nhead_q, checks},
          a.rotary_cos_ptr,
          a.rotary_sin_ptr,
          IN(rotary_dim),
          IN(has_mask),
          a.block_table_ptr,
          IN(batch_stride_block_table),
          IN(page_block_size),
          a.cache_batch_idx,
          IN(stride_q),
          IN(stride_k),
          IN(stride_knew),
          IN(stride_v),
          IN(stride_vnew),
          IN(nhead_stride_q),
          IN(nhead_stride_k),
          IN(nhead_stride_knew),
          IN(nhead_stride_v),
          IN(nhead_stride_vnew),
          IN(batch_stride_q),
          IN(batch_stride_k),
          IN(batch_stride_knew),
          IN(batch_stride_v),
          IN(batch_stride_vnew)),
      Kernel::GridSize(
          IN(batch),
          IN(nhead_q),
          IN(seqlen_q),
          IN(seqlen_knew))};
}

template <typename Use>
int choose(const Args& a, Use use) {
  (void)a;
  return use(std::type_identity<Kernel>{});
}
