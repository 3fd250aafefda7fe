#include "router/http/routes/tokenizer_info.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "router/http/json/json_writer.h"

namespace lockstep::router {
namespace {

void WriteToken(const Tokenizer& tokenizer, std::optional<TokenId> id, JsonWriter& json) {
  id.has_value() ? json.String(tokenizer.TokenBytes(*id)) : json.Null();
}

}  // namespace

std::string TokenizerInfo(const Tokenizer& tokenizer, const ModelFacts& model) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("tokenizer_class").String("byte-level BPE");
  json.Key("vocab_size").Int(tokenizer.vocab_size());
  json.Key("model_max_length").Int(model.max_context_tokens);
  json.Key("bos_token");
  WriteToken(tokenizer, tokenizer.bos_token_id(), json);
  json.Key("eos_token");
  WriteToken(tokenizer, tokenizer.eos_token_id(), json);
  json.Key("eos_token_ids").BeginArray();
  for (const TokenId id : model.eos_token_ids) json.Int(id);
  json.EndArray().Key("added_tokens_decoder").BeginObject();
  std::vector<TokenId> ids;
  for (const std::string& spelling : tokenizer.SpecialSpellings()) {
    if (const std::optional<TokenId> id = tokenizer.FindToken(spelling)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  for (const TokenId id : ids) {
    json.ForeignKey(std::to_string(id)).BeginObject();
    json.Key("content").String(tokenizer.TokenBytes(id));
    json.Key("special").Bool(tokenizer.IsSpecial(id)).EndObject();
  }
  json.EndObject().Key("chat_template");
  tokenizer.chat_template().empty() ? json.Null() : json.String(tokenizer.chat_template());
  json.EndObject();
  return body;
}

}  // namespace lockstep::router
