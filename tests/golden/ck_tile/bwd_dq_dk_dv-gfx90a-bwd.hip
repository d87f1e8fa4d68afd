// ck_tile:bwd_dq_dk_dv:gfx90a:dtype=bf16,dtype_out=bf16,hdim=32,hdim_v=32,mode=group,mask=any,bias=elementwise,dropout=yes,lse=any,gqa=any,deterministic=yes,dbias=yes:pipeline=bwd,tile=32x128x32x32x32x32x64x32x32,waves=1x4x1x4x1x1x2x2x1,warp=16x16x32x16x16x16,occupancy=1,pad_d=8,pad_dv=8,store_randval=yes

struct Types {
  using QDataType = ck_tile::bf16_t;
  using KDataType = ck_tile::bf16_t;
  using VDataType = ck_tile::bf16_t;
  using GemmDataType = ck_tile::bf16_t;
  using BiasDataType = ck_tile::bf16_t;
  using ODataType = ck_tile::bf16_t;
  using OGradDataType = ck_tile::bf16_t;
  using QGradDataType = ck_tile::bf16_t;
  using KGradDataType = ck_tile::bf16_t;
  using VGradDataType = ck_tile::bf16_t;
  using BiasGradDataType = ck_tile::bf16_t;
  using LSEDataType = float;
  using AccDataType = float;
  using DDataType = float;
  using RandValOutputDataType = uint8_t;
};
using Tile = ck_tile::sequence<32, 128, 32, 32, 32, 32, 64, 32, 32>;
using Shape = ck_tile::TileFmhaBwdShape<
    Tile,
    ck_tile::sequence<1, 4, 1>,
    ck_tile::sequence<16, 16, 32>,
    ck_tile::sequence<4, 1, 1>,
    ck_tile::sequence<16, 16, 16>,
    ck_tile::sequence<1, 4, 1>,
    ck_tile::sequence<16, 16, 32>,
    ck_tile::sequence<4, 1, 1>,
    ck_tile::sequence<16, 16, 16>,
    ck_tile::sequence<2, 2, 1>,
    ck_tile::sequence<16, 16, 32>,
    0>;
using Traits = ck_tile::TileFmhaBwdTraits<
    8,
    8,
    ck_tile::BlockAttentionBiasEnum::ELEMENTWISE_BIAS,
    true,
    1>;
using Mask = ck_tile::SimplifiedGenericAttentionMask<true>;
using Dropout = ck_tile::BlockDropoutBwd<true, false, true>;
using Problem = ck_tile::BlockFmhaBwdPipelineProblem<
    Types::QDataType,
    Types::KDataType,
    Types::VDataType,
    Types::GemmDataType,
    Types::LSEDataType,
    Types::AccDataType,
    Types::DDataType,
    Types::BiasDataType,
    Types::RandValOutputDataType,
    Types::ODataType,
    Types::OGradDataType,
    Types::QGradDataType,
    Types::KGradDataType,
    Types::VGradDataType,
    Types::BiasGradDataType,
    Shape,
    true,
    true,
    Mask,
    Dropout,
    false,
    Traits>;
using Pipeline = ck_tile::BlockFmhaBwdDQDKDVPipeline<Problem>;
using KGradEpilogue = ck_tile::Default2DEpilogue<ck_tile::Default2DEpilogueProblem<
    Types::AccDataType,
    Types::KGradDataType,
    false,
    true>>;
using VGradEpilogue = ck_tile::Default2DEpilogue<ck_tile::Default2DEpilogueProblem<
    Types::AccDataType,
    Types::VGradDataType,
    false,
    true>>;
using QGradEpilogue = ck_tile::Default2DEpilogue<ck_tile::Default2DEpilogueProblem<
    Types::AccDataType,
    Types::QGradDataType,
    false,
    true>>;
using Kernel = ck_tile::FmhaBwdDQDKDVKernel<Pipeline, KGradEpilogue, VGradEpilogue, QGradEpilogue>;

static void check(const Args& a, Checks& checks) {
  REQUIRE(q_ptr, a.q_ptr != nullptr);
  REQUIRE(k_ptr, a.k_ptr != nullptr);
  REQUIRE(v_ptr, a.v_ptr != nullptr);
  REQUIRE(lse_ptr, a.lse_ptr != nullptr);
  REQUIRE(do_ptr, a.do_ptr != nullptr);
  REQUIRE(d_ptr, a.d_ptr != nullptr);
  REQUIRE(dq_acc_ptr, a.dq_acc_ptr != nullptr);
  REQUIRE(dk_ptr, a.dk_ptr != nullptr);
  REQUIRE(dv_ptr, a.dv_ptr != nullptr);
  REQUIRE(bias_ptr, a.bias_ptr != nullptr);
  REQUIRE(dbias_ptr, a.dbias_ptr != nullptr);
  REQUIRE(rand_val_ptr, a.rand_val_ptr != nullptr);
  REQUIRE(seqstart_q_ptr, a.seqstart_q_ptr != nullptr);
  REQUIRE(seqstart_k_ptr, a.seqstart_k_ptr != nullptr);
  EXTENT(batch, 1);
  EXTENT(nhead_q, 1);
  EXTENT(nhead_k, 1);
  EXTENT(max_seqlen_k, 1);
  EXTENT(hdim_q, 1);
  EXTENT(hdim_v, 1);
  EXTENT(seqlen_q, 0);
  EXTENT(seqlen_k, 0);
  REQUIRE(nhead_q, a.nhead_k < 1 || a.nhead_q % a.nhead_k == 0);
  REQUIRE(mask_type, a.mask_type >= 0 && a.mask_type <= 3);
  REQUIRE(hdim_q, a.hdim_q <= 32 && a.hdim_q % 8 == 0);
  REQUIRE(hdim_v, a.hdim_v <= 32 && a.hdim_v % 8 == 0);
  REQUIRE(p_drop, a.p_drop >= 0 && a.p_drop < 1);
  REQUIRE(drop_seed_ptr, a.drop_from_device == 0 || a.drop_seed_ptr != nullptr);
  REQUIRE(drop_offset_ptr, a.drop_from_device == 0 || a.drop_offset_ptr != nullptr);
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
          a.lse_ptr,
          a.do_ptr,
          a.d_ptr,
          a.rand_val_ptr,
          a.dk_ptr,
          a.dv_ptr,
          a.dbias_ptr,
          a.dq_acc_ptr,
          a.seqstart_q_ptr,
          a.seqstart_k_ptr,
          a.seqlen_q_ptr,
          a.seqlen_k_ptr,
          a.cu_seqlen_q_ptr,
          a.cu_seqlen_k_ptr,
          IN(hdim_q),
          IN(hdim_v),
          IN(nhead_q),
          Narrow{a.nhead_q / a.nhead_k, FIELD_nhead_q, checks},
          a.scale,
          IN(stride_q),
          IN(stride_k),
          IN(stride_v),
          IN(stride_bias),
          IN(stride_randval),
          IN(stride_do),
          IN(stride_dq_acc),
          IN(stride_dk),
          IN(stride_dv),
          IN(stride_dbias),
          IN(nhead_stride_q),
          IN(nhead_stride_k),
          IN(nhead_stride_v),
          IN(nhead_stride_bias),
          IN(nhead_stride_randval),
          IN(nhead_stride_do),
          IN(nhead_stride_lsed),
          IN(nhead_stride_dq_acc),
          IN(nhead_stride_dk),
          IN(nhead_stride_dv),
          IN(nhead_stride_dbias),
          IN(split_stride_dq_acc),
          IN(window_size_left),
          IN(window_size_right),
          IN(mask_type),
          a.p_drop,
          drop_seed_offset),
      Kernel::GridSize(
          IN(batch),
          IN(nhead_q),
          IN(max_seqlen_k))};
}

template <typename Use>
int choose(const Args& a, Use use) {
  (void)a;
  return use(std::type_identity<Kernel>{});
}
