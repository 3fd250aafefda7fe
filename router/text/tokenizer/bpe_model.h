#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/runtime/cancel_flag.h"
#include "router/text/tokenizer/byte_table.h"

namespace lockstep::router {

// Byte pair encoding over bytes (Sennrich et al., arXiv 1508.07909, on the byte alphabet of GPT-2):
// joins the adjacent pair of lowest rank, leftmost first, until no pair is left. Immutable after
// Build. Safe to use from any thread. Pieces that are a whole token are found in a table made at
// load, so no cache grows later.
class BpeModel {
 public:
  struct Options {
    bool ignore_merges = false;              // a piece that is a token becomes it without merges
    std::optional<TokenId> unknown_id = {};  // stands for bytes without a token
    bool fuse_unknown = false;               // adjacent unknown bytes become one token
  };

  // Collects a definition. `text` is in the byte alphabet, as in the files.
  class Builder {
   public:
    // INVALID_ARGUMENT for an empty text, and for an id or a text that was added before. A token
    // outside the alphabet is never produced.
    absl::Status AddToken(TokenId id, std::string_view text);
    // Ranks ascend in the order of the calls. A pair that is added again takes the later rank, as
    // in Hugging Face's library. INVALID_ARGUMENT if a part or the result is no token.
    absl::Status AddMerge(std::string_view left, std::string_view right);
    std::optional<TokenId> Find(std::string_view text) const;
    size_t num_tokens() const { return ids_.size(); }
    // Id to text; empty where there is no token.
    const std::vector<std::string>& texts() const { return texts_; }
    BpeModel Build(const Options& options) const;

   private:
    friend class BpeModel;
    struct Merge {
      TokenId left;
      TokenId right;
      TokenId merged;
    };
    absl::flat_hash_map<std::string, TokenId> ids_;
    std::vector<std::string> texts_;
    std::vector<Merge> merges_;
  };

  // Appends the ids of a piece that is not empty. A byte without a token and without an unknown
  // token is left out, and the first such byte is returned. Gives up soon after `cancellation`,
  // which may be null; the ids are then useless.
  std::optional<uint8_t> EncodePiece(std::string_view bytes, std::vector<TokenId>& ids,
                                     const CancelFlag* cancellation = nullptr) const;

 private:
  BpeModel() = default;

  std::optional<uint8_t> AppendSymbols(std::string_view bytes, std::vector<TokenId>& ids) const;
  void MergeShort(std::vector<TokenId>& ids, size_t begin) const;
  void MergeLong(std::vector<TokenId>& ids, size_t begin, const CancelFlag* cancellation) const;
  std::optional<uint8_t> EncodeByMerges(std::string_view bytes, std::vector<TokenId>& ids,
                                        const CancelFlag* cancellation) const;
  void AddWholeTokens(const Builder& builder);

  Options options_;
  std::array<TokenId, 256> byte_ids_{};
  PairTable pairs_;
  ByteTable whole_tokens_;
};

}  // namespace lockstep::router
