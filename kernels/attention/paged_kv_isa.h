#pragma once

#include <cstdint>
#include <limits>

#include "kernels/attention/kv_codes.h"
#include "kernels/core/simd.h"
#include "kernels/kv_cache/fp8_kv.h"
#include "kernels/kv_cache/paged_kv.h"

// How attention reads the keys and values of a block: a class for each type of the pool. Elements
// that were rounded to codes give the same bits as their codes. Only a key with an element that is
// not finite may differ: it has the score NaN, where infinite elements may sum to an infinite one.
namespace lockstep::kernels::LOCKSTEP_ISA {

struct BFloat16Kv {
  class Keys {
   public:
    LOCKSTEP_INLINE void Open(const PagedKv& kv, int64_t block, int64_t kv_head) {
      elements_ = KeyBlock(kv, block, kv_head);
    }
    // Elements `dim` and `dim` + 1 of the 16 keys.
    LOCKSTEP_INLINE Bf16Pairs Pairs(int64_t dim) const {
      return LoadPairs(elements_ + dim * kLanes);
    }
    // The scores of the 16 keys, from the sums over their pairs.
    LOCKSTEP_INLINE F32x16 Scores(F32x16 sums) const { return sums; }

   private:
    const BFloat16* elements_;
  };

  class Values {
   public:
    LOCKSTEP_INLINE Values(const PagedKv& kv, int64_t block, int64_t kv_head)
        : elements_(ValueBlock(kv, block, kv_head)), stride_(ValueStride(kv.head_dim)) {}

    class Row {
     public:
      LOCKSTEP_INLINE explicit Row(const BFloat16* elements) : elements_(elements) {}
      LOCKSTEP_INLINE F32x16 Columns(int64_t first) const { return LoadBf16(elements_ + first); }

     private:
      const BFloat16* elements_;
    };
    LOCKSTEP_INLINE Row Token(int64_t token_in_block) const {
      return Row(elements_ + token_in_block * stride_);
    }

   private:
    const BFloat16* elements_;
    int64_t stride_;
  };
};

struct Fp8Kv {
  class Keys {
   public:
    LOCKSTEP_INLINE void Open(const PagedKv& kv, int64_t block, int64_t kv_head) {
      codes_ = KeyCodes(kv, block, kv_head);
      scale_bytes_ = KeyScales(kv, block, kv_head);
      scales_ = LoadKeyScales(scale_bytes_);
    }
    LOCKSTEP_INLINE CodePairs Pairs(int64_t dim) const {
      return LoadCodePairs(codes_ + dim * kLanes, scales_);
    }
    LOCKSTEP_INLINE F32x16 Scores(F32x16 sums) const {
      float one_or_nan[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        one_or_nan[i] =
            scale_bytes_[i] == kNotFiniteKvScale ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
      }
      return Multiply(sums, Load(one_or_nan));
    }

   private:
    const uint8_t* codes_;
    const uint8_t* scale_bytes_;
    KeyCodeScales scales_;
  };

  class Values {
   public:
    LOCKSTEP_INLINE Values(const PagedKv& kv, int64_t block, int64_t kv_head)
        : codes_(ValueCodes(kv, block, kv_head)),
          scale_bytes_(ValueScales(kv, block, kv_head)),
          stride_(ValueStride(kv.head_dim)) {}

    class Row {
     public:
      LOCKSTEP_INLINE Row(const uint8_t* codes, uint32_t scale)
          : codes_(codes), scale_(Broadcast(KvScale(scale) * kCodesPerUnit)) {}
      LOCKSTEP_INLINE F32x16 Columns(int64_t first) const {
        return Multiply(LoadCodes(codes_ + first), scale_);
      }

     private:
      const uint8_t* codes_;
      F32x16 scale_;
    };
    LOCKSTEP_INLINE Row Token(int64_t token_in_block) const {
      return Row(codes_ + token_in_block * stride_, scale_bytes_[token_in_block]);
    }

   private:
    const uint8_t* codes_;
    const uint8_t* scale_bytes_;
    int64_t stride_;
  };
};

}  // namespace lockstep::kernels::LOCKSTEP_ISA
