// ck_tile:fwd:gfx942:dtype=fp16,dtype_out=fp16,hdim=192,hdim_v=192,mode=group,mask=any,bias=alibi,dropout=yes,lse=yes,gqa=any,deterministic=any:pipeline=qr_async,tile=128x128x32x192x32x192,waves=4x1x1x4x1x1,warp=32x32x16x32x32x16,occupancy=1,pad_s=yes,pad_sk=yes,pad_d=1,pad_dv=1,skip_min_seqlen_q=yes

struct Types {
  using QDataType = ck_tile::half_t;
  using KDataType = ck_tile::half_t;
  using VDataType = ck_tile::half_t;
  using BiasDataType = ck_tile::half_t;
  using RandValOutputDataType = uint8_t;
  using LSEDataType = float;
  using SaccDataType = float;
  using SMPLComputeDataType = float;
  using PDataType = ck_tile::half_t;
  using OaccDataType = float;
  using ODataType = ck_tile::half_t;
};
using Tile = ck_tile::sequence<128, 128, 32, 192, 32, 192>;
using Shape = ck_tile::TileFmhaShape<
    Tile,
    ck_tile::sequence<4, 1, 1>,
    ck_tile::sequence<32, 32, 16>,
    ck_tile::sequence<4, 1, 1>,
    ck_tile::sequence<32, 32, 16>,
    true>;
using Traits = ck_tile::TileFmhaTraits<
    true,
    true,
    true,
    true,
    false,
    ck_tile::BlockAttentionBiasEnum::ALIBI,
    false,
    true,
    true,
    false,
    1,
    true>;
using Variant = ck_tile::ComposedAttention<false * ck_tile::LOGITS_SOFT_CAP, CK_TILE_FMHA_FWD_FAST_EXP2>;
using Mask = ck_tile::SimplifiedGenericAttentionMask<true>;
using Problem = ck_tile::BlockFmhaPipelineProblem<
    Types::QDataType,
    Types::KDataType,
    Types::VDataType,
    Types::SaccDataType,
    Types::SMPLComputeDataType,
    Types::BiasDataType,
    Types::RandValOutputDataType,
    Types::LSEDataType,
    Types::PDataType,
    Types::OaccDataType,
    Types::ODataType,
    Shape,
    true,
    Variant,
    Mask,
    false,
    Traits>;
using Pipeline = ck_tile::BlockFmhaPipelineQRKSVSAsync<Problem>;
using EpilogueProblem = ck_tile::Default2DEpilogueProblem<
    Types::OaccDataType,
    Types::ODataType,
    true,
    true>;
using Epilogue = ck_tile::Default2DEpilogue<EpilogueProblem>;
using Kernel = ck_tile::FmhaFwdKernel<Pipeline, Epilogue>;

static void check(const Args& a, Checks& checks) {
  REQUIRE(q_ptr, a.q_ptr != nullptr);
  REQUIRE(k_ptr, a.k_ptr != nullptr);
  REQUIRE(v_ptr, a.v_ptr != nullptr);
  REQUIRE(o_ptr, a.o_ptr != nullptr);
  REQUIRE(bias_ptr, a.bias_ptr != nullptr);
  REQUIRE(lse_ptr, a.lse_ptr != nullptr);
  REQUIRE(seqstart_q_ptr, a.seqstart_q_ptr != nullptr);
  REQUIRE(seqstart_k_ptr, a.seqstart_k_ptr != nullptr);
  REQUIRE(logits_soft_cap, a.logits_soft_cap == 0);
  EXTENT(batch, 1);
  EXTENT(nhead_q, 1);
  EXTENT(nhead_k, 1);
  EXTENT(max_seqlen_q, 1);
  EXTENT(hdim_q, 1);
  EXTENT(hdim_v, 1);
  EXTENT(seqlen_q, 0);
  EXTENT(seqlen_k, 0);
  REQUIRE(nhead_q, a.nhead_k < 1 || a.nhead_q % a.nhead_k == 0);
  REQUIRE(mask_type, a.mask_type >= 0 && a.mask_type <= 3);
  REQUIRE(scale_p, a.scale_p == 1);
  REQUIRE(scale_o, a.scale_o == 1);
  REQUIRE(hdim_q, a.hdim_q <= 192 && a.hdim_q % 8 == 0);
  REQUIRE(hdim_v, a.hdim_v <= 192 && a.hdim_v % 8 == 0);
  REQUIRE(cu_seqlen_q_ptr, a.cu_seqlen_q_ptr == nullptr || a.seqlen_q_ptr == nullptr);
  REQUIRE(cu_seqlen_k_ptr, a.cu_seqlen_k_ptr == nullptr || a.seqlen_k_ptr == nullptr);
  REQUIRE(p_drop, a.p_drop >= 0 && a.p_drop < 1);
  REQUIRE(rand_val_ptr, a.s_randval == 0 || a.rand_val_ptr != nullptr);
  REQUIRE(drop_seed_ptr, a.drop_from_device == 0 || a.drop_seed_ptr != nullptr);
  REQUIRE(drop_offset_ptr, a.drop_from_device == 0 || a.drop_offset_ptr != nullptr);
  if (checks.status != STATUS_OK) return;
  PRODUCT(stride_bias, a.batch - 1, a.stride_bias);
}

template <typename Kernel>
struct Prepared {
  typename Kernel::Kargs kargs;
  dim3 grid;
};

template <typename Kernel>
Prepared<Kernel> prepare(const Args& a, Checks& checks) {
  using Values = std::pair<uint64_t, uint64_t>;
  using Addresses = std::pair<const void*, const void*>;
  std::variant<Values, Addresses> drop_seed_offset = Values{a.drop_seed, a.drop_offset};
  if (a.drop_from_device != 0) drop_seed_offset = Addresses{a.drop_seed_ptr, a.drop_offset_ptr};
  return {Kernel::MakeKargsImpl(
          a.q_ptr,
          a.k_ptr,
          a.v_ptr,
          a.bias_ptr,
          a.rand_val_ptr,
          a.lse_ptr,
          a.o_ptr,
          a.seqstart_q_ptr,
          a.seqstart_k_ptr,
          a.seqlen_q_ptr,
          a.seqlen_k_ptr,
          IN(hdim_q),
          IN(hdim_v),
          IN(nhead_q),
          Narrow{a.nhead_q / a.nhead_k, FIELD_nhead_q, checks},
          a.scale_s,
          a.scale_p,
          a.scale_o,
          a.logits_soft_cap,
          IN(stride_q),
          IN(stride_k),
          IN(stride_v),
          IN(stride_bias),
          IN(stride_randval),
          IN(stride_o),
          IN(nhead_stride_q),
          IN(nhead_stride_k),
          IN(nhead_stride_v),
          IN(nhead_stride_bias),
          IN(nhead_stride_randval),
          IN(nhead_stride_lse),
          IN(nhead_stride_o),
          IN(window_size_left),
          IN(window_size_right),
          IN(mask_type),
          IN(min_seqlen_q),
          a.p_drop,
          IN(s_randval),
          drop_seed_offset,
          a.cu_seqlen_q_ptr,
          a.cu_seqlen_k_ptr),
      Kernel::GridSize(
          IN(batch),
          IN(nhead_q),
          IN(max_seqlen_q),
          IN(hdim_v),
          a.seqlen_k_ptr != nullptr)};
}

template <typename Use>
int choose(const Args& a, Use use) {
  (void)a;
  return use(std::type_identity<Kernel>{});
}
