#include "router/text/tokenizer/bpe_model.h"

#include <absl/container/node_hash_map.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <span>

#include "common/model_files/tokenizer/byte_alphabet.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

constexpr TokenId kNoToken = UINT32_MAX;
// Up to this many symbols, scanning for the lowest rank beats lists by rank.
constexpr size_t kMaxScannedSymbols = 48;
// Merges between two checks for cancellation: less than a millisecond.
constexpr size_t kStepsBetweenQuestions = 1024;

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

// Merges the symbols of a long piece, in a doubly linked list. The places of possible merges are
// kept in a list for each rank, so that long runs of the same text are merged in one pass from left
// to right. O(n log n) for n symbols.
class LongMerger {
 public:
  LongMerger(const PairTable& pairs, std::span<TokenId> symbols)
      : pairs_(pairs),
        symbols_(symbols),
        num_symbols_(static_cast<uint32_t>(symbols.size())),
        next_(num_symbols_),
        previous_(num_symbols_) {}

  // A symbol that was merged into its left neighbour becomes kNoToken. False: cancelled.
  bool Run(const CancelFlag* cancellation) {
    for (uint32_t i = 0; i < num_symbols_; ++i) {
      next_[i] = i + 1;
      previous_[i] = i - 1;
    }
    for (uint32_t i = 0; i < num_symbols_; ++i) Queue(i);
    while (!ranks_.empty()) {
      const uint32_t rank = ranks_.top();
      ranks_.pop();
      if (!MergeAll(rank, cancellation)) return false;
    }
    return true;
  }

 private:
  // The places where one merge was possible when they were queued. A place is stale once one of its
  // two symbols has changed.
  struct Places {
    TokenId left = 0;
    TokenId right = 0;
    TokenId merged = 0;
    bool queued = false;  // its rank is in ranks_
    size_t num_done = 0;
    std::vector<uint32_t> symbols;
  };

  // Queues the pair that starts at symbol `i`, if it can merge. Returns its rank.
  uint32_t Queue(uint32_t i) {
    if (next_[i] == num_symbols_) return PairTable::kNoRank;
    const TokenId right = symbols_[next_[i]];
    const PairTable::Value value = pairs_.Find(symbols_[i], right);
    if (value.rank == PairTable::kNoRank) return value.rank;
    Places& places = places_[value.rank];
    if (!places.queued) {
      places.left = symbols_[i];
      places.right = right;
      places.merged = value.merged;
      places.queued = true;
      ranks_.push(value.rank);
    }
    places.symbols.push_back(i);
    return value.rank;
  }

  // Merges at all places of `rank`, from left to right, until a merge of a lower rank becomes
  // possible. False: cancelled.
  bool MergeAll(uint32_t rank, const CancelFlag* cancellation) {
    Places& places = places_[rank];  // stays valid when entries are added
    const auto first = places.symbols.begin() + static_cast<ptrdiff_t>(places.num_done);
    if (!std::is_sorted(first, places.symbols.end())) std::sort(first, places.symbols.end());
    places.queued = false;
    while (places.num_done < places.symbols.size()) {
      if (++num_steps_ % kStepsBetweenQuestions == 0 && IsCancelled(cancellation)) return false;
      const uint32_t i = places.symbols[places.num_done++];
      const uint32_t right = next_[i];
      if (symbols_[i] != places.left || right == num_symbols_ || symbols_[right] != places.right) {
        continue;
      }
      symbols_[i] = places.merged;
      symbols_[right] = kNoToken;
      next_[i] = next_[right];
      if (next_[i] != num_symbols_) previous_[next_[i]] = i;
      const uint32_t before = i > 0 ? Queue(previous_[i]) : PairTable::kNoRank;
      if (std::min(before, Queue(i)) >= rank) continue;
      if (!places.queued && places.num_done < places.symbols.size()) {
        places.queued = true;
        ranks_.push(rank);
      }
      return true;
    }
    places.symbols.clear();
    places.num_done = 0;
    return true;
  }

  const PairTable& pairs_;
  const std::span<TokenId> symbols_;
  const uint32_t num_symbols_;
  std::vector<uint32_t> next_;  // num_symbols_: none
  std::vector<uint32_t> previous_;
  absl::node_hash_map<uint32_t, Places> places_;  // by rank
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ranks_;
  size_t num_steps_ = 0;
};

}  // namespace

absl::Status BpeModel::Builder::AddToken(TokenId id, std::string_view text) {
  if (text.empty()) return InvalidArgument("token {} is empty", id);
  if (id >= texts_.size()) texts_.resize(id + 1);
  if (!texts_[id].empty()) {
    return InvalidArgument("id {} belongs to {} and {}", id, Quote(texts_[id]), Quote(text));
  }
  const auto [it, inserted] = ids_.try_emplace(std::string(text), id);
  if (!inserted) {
    return InvalidArgument("token {} has ids {} and {}", Quote(text), it->second, id);
  }
  texts_[id] = text;
  return absl::OkStatus();
}

std::optional<TokenId> BpeModel::Builder::Find(std::string_view text) const {
  const auto it = ids_.find(ToAbsl(text));
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

absl::Status BpeModel::Builder::AddMerge(std::string_view left, std::string_view right) {
  std::string joined(left);
  joined += right;
  const std::optional<TokenId> left_id = Find(left);
  const std::optional<TokenId> right_id = Find(right);
  const std::optional<TokenId> merged_id = Find(joined);
  for (const auto& [id, text] : {std::pair<std::optional<TokenId>, std::string_view>{left_id, left},
                                 {right_id, right},
                                 {merged_id, joined}}) {
    if (!id) {
      return InvalidArgument("merge of {} and {}: no token {}", Quote(left), Quote(right),
                             Quote(text));
    }
  }
  merges_.push_back({*left_id, *right_id, *merged_id});
  return absl::OkStatus();
}

BpeModel BpeModel::Builder::Build(const Options& options) const {
  BpeModel model;
  model.options_ = options;
  for (size_t byte = 0; byte < model.byte_ids_.size(); ++byte) {
    model.byte_ids_[byte] = Find(ByteToAlphabet(static_cast<uint8_t>(byte))).value_or(kNoToken);
  }
  model.pairs_ = PairTable(merges_.size());
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    const Merge& merge = merges_[rank];
    model.pairs_.Set(merge.left, merge.right, {static_cast<uint32_t>(rank), merge.merged});
  }
  model.AddWholeTokens(*this);
  return model;
}

// Collects the tokens that result if a piece is exactly their text.
void BpeModel::AddWholeTokens(const Builder& builder) {
  whole_tokens_ = ByteTable(builder.num_tokens());
  std::vector<TokenId> ids;
  std::string bytes;
  for (TokenId id = 0; id < builder.texts().size(); ++id) {
    const std::string& text = builder.texts()[id];
    bytes.clear();
    if (text.empty() || !AlphabetToBytes(text, bytes)) continue;
    ids.clear();
    if (!options_.ignore_merges) EncodeByMerges(bytes, ids, nullptr);
    if (options_.ignore_merges || (ids.size() == 1 && ids[0] == id))
      whole_tokens_.Insert(bytes, id);
  }
}

std::optional<uint8_t> BpeModel::EncodePiece(std::string_view bytes, std::vector<TokenId>& ids,
                                             const CancelFlag* cancellation) const {
  if (const std::optional<TokenId> whole = whole_tokens_.Find(bytes)) {
    ids.push_back(*whole);
    return std::nullopt;
  }
  return EncodeByMerges(bytes, ids, cancellation);
}

std::optional<uint8_t> BpeModel::EncodeByMerges(std::string_view bytes, std::vector<TokenId>& ids,
                                                const CancelFlag* cancellation) const {
  const size_t begin = ids.size();
  const std::optional<uint8_t> missing = AppendSymbols(bytes, ids);
  if (ids.size() - begin <= kMaxScannedSymbols) {
    MergeShort(ids, begin);
  } else {
    MergeLong(ids, begin, cancellation);
  }
  return missing;
}

std::optional<uint8_t> BpeModel::AppendSymbols(std::string_view bytes,
                                               std::vector<TokenId>& ids) const {
  std::optional<uint8_t> missing;
  bool after_unknown = false;
  for (const char c : bytes) {
    const uint8_t byte = static_cast<uint8_t>(c);
    const TokenId id = byte_ids_[byte];
    if (id != kNoToken) {
      ids.push_back(id);
      after_unknown = false;
    } else if (!options_.unknown_id) {
      if (!missing) missing = byte;
    } else {
      if (!after_unknown || !options_.fuse_unknown) ids.push_back(*options_.unknown_id);
      after_unknown = true;
    }
  }
  return missing;
}

void BpeModel::MergeShort(std::vector<TokenId>& ids, size_t begin) const {
  size_t num_symbols = ids.size() - begin;
  if (num_symbols < 2) return;
  TokenId* const symbols = ids.data() + begin;
  std::array<uint32_t, kMaxScannedSymbols> ranks;  // of the pair that starts at the same index
  std::array<TokenId, kMaxScannedSymbols> merged;
  const auto look_up = [&](size_t i) {
    const PairTable::Value value = pairs_.Find(symbols[i], symbols[i + 1]);
    ranks[i] = value.rank;
    merged[i] = value.merged;
  };
  for (size_t i = 0; i + 1 < num_symbols; ++i) look_up(i);
  while (num_symbols > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < num_symbols; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == PairTable::kNoRank) break;
    symbols[best] = merged[best];
    for (size_t i = best + 1; i + 1 < num_symbols; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --num_symbols;
    if (best > 0) look_up(best - 1);
    if (best + 1 < num_symbols) look_up(best);
  }
  ids.resize(begin + num_symbols);
}

void BpeModel::MergeLong(std::vector<TokenId>& ids, size_t begin,
                         const CancelFlag* cancellation) const {
  LongMerger merger(pairs_, std::span(ids).subspan(begin));
  if (!merger.Run(cancellation)) return;
  const auto end = std::remove(ids.begin() + static_cast<ptrdiff_t>(begin), ids.end(), kNoToken);
  ids.erase(end, ids.end());
}

}  // namespace lockstep::router
