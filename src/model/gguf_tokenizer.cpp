#include "src/model/gguf_tokenizer.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "src/text/byte_source.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Numbers of sentencepiece_model.proto, which llama.cpp uses too.
enum TokenKind : std::int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct Token {
  std::string text;
  float score = 0;
  std::int32_t kind = normal;
};

struct Vocabulary {
  std::vector<Token> tokens = {};
  std::string model = {}, pre = "default";
  std::vector<std::string> merges = {};
  std::optional<bool> adds_prefix = {};
  bool is_scored = false, composes = false;

  void set(std::uint64_t id, Token token, std::uint64_t limit, const std::string& place) {
    if (id >= limit) throw Error(fmt::format("{}: token {} is behind vocab_size {}", place, id, limit));
    tokens[static_cast<size_t>(id)] = std::move(token);
  }
};

ordered_json json_in(const std::string& folder, const char* name) {
  const std::string path = (fs::path(folder) / name).string();
  if (!fs::is_regular_file(path)) return nullptr;
  return parse_json<ordered_json>(read_text_file(path, "tokenizer").text, path);
}

std::uint64_t id_in(const ordered_json& number, const std::string& path) {
  if (!number.is_number_unsigned()) throw Error(fmt::format("{}: {} is no token's number", path, number.dump()));
  return number.get<std::uint64_t>();
}

// One message of protocol buffers, field by field.
class Fields {
 public:
  Fields(std::string_view bytes, std::string place) : bytes_(bytes), place_(std::move(place)) {}
  bool next() {
    if (bytes_.empty()) return false;
    const std::uint64_t key = varint();
    number = key >> 3;
    switch (key & 7) {
      case 0: value = varint(); break;
      case 1: take(8); break;
      case 2: text = take(varint()); break;
      case 5:
        text = take(4);
        value = 0;
        for (unsigned b = 0; b < 4; ++b) value |= std::uint64_t{static_cast<unsigned char>(text[b])} << (8 * b);
        break;
      default: fail();
    }
    return true;
  }
  std::uint64_t number = 0, value = 0;
  std::string_view text = {};

 private:
  [[noreturn]] void fail() const { throw Error(place_ + ": not a SentencePiece model, or damaged"); }
  std::uint64_t varint() {
    std::uint64_t out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) fail();
      const auto b = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      out |= std::uint64_t{b & 127u} << shift;
      if (b < 128) return out;
    }
    fail();
  }
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) fail();
    const std::string_view out = bytes_.substr(0, static_cast<size_t>(count));
    bytes_.remove_prefix(static_cast<size_t>(count));
    return out;
  }
  std::string_view bytes_;
  std::string place_;
};

// ModelProto: 1 pieces (1 text, 2 score, 3 kind), 3 normalizer (3 add_dummy_prefix).
void read_sentencepiece(Vocabulary& v, const std::string& path, std::uint64_t limit) {
  const Bytes file = open_file(path);
  std::string bytes(static_cast<size_t>(file->size()), '\0');
  file->read(0, bytes.data(), bytes.size());
  v.model = "llama";
  v.is_scored = true;
  v.adds_prefix = true;
  std::uint64_t id = 0;
  for (Fields all(bytes, path); all.next();) {
    if (all.number == 3)
      for (Fields f(all.text, path); f.next();)
        if (f.number == 3) v.adds_prefix = f.value != 0;
    if (all.number != 1) continue;
    Token t;
    for (Fields f(all.text, path); f.next();) {
      if (f.number == 1) t.text = f.text;
      if (f.number == 2) t.score = std::bit_cast<float>(static_cast<std::uint32_t>(f.value));
      if (f.number == 3) t.kind = static_cast<std::int32_t>(f.value);
    }
    v.set(id++, std::move(t), limit, path);
  }
  if (id == 0) throw Error(path + ": not a SentencePiece model: it has no pieces");
}

// The steps of a normalizer, pre-tokenizer or post-processor: those of a Sequence, or itself.
std::vector<ordered_json> steps_of(const ordered_json& whole, const char* list) {
  if (!whole.is_object()) return {};
  if (whole.contains(list) && whole[list].is_array()) return whole[list].get<std::vector<ordered_json>>();
  return {whole};
}

std::string pre_tokenizer_of(const ordered_json& tokenizer, const std::string& path) {
  std::string expression;
  for (const ordered_json& step : steps_of(tokenizer.value("pre_tokenizer", ordered_json()), "pretokenizers")) {
    const std::string type = step.value("type", "");
    if (type == "Split" && step.contains("pattern")) expression += step["pattern"].value("Regex", "?");
    if (type != "Split" && type != "ByteLevel") expression += type;
  }
  std::string known;
  for (const PreTokenizer& row : pre_tokenizers) {
    if (expression == row.doc) return row.name;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", row.name, row.source);
  }
  throw Error(
      fmt::format("{}: pre_tokenizer '{}' has no name in llama.cpp that is known here; known are {}. llama.cpp's "
                  "convert_hf_to_gguf.py makes a GGUF of the folder, which `fp4sim quantize FILE.gguf` takes",
                  path, expression, known));
}

// Merges as "left right", with spaces inside a part written as U+0120, as byte-level BPE does.
std::string merge_text(const ordered_json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  std::string out;
  for (const ordered_json& part : merge) {
    if (!out.empty()) out += ' ';
    for (const char c : part.get<std::string>()) out += c == ' ' ? std::string("\u0120") : std::string(1, c);
  }
  return out;
}

// Scores under which llama.cpp joins pieces in the order of the merges: the earlier, the larger.
void score_by_merges(Vocabulary& v, const ordered_json& merges, const std::string& path) {
  std::map<std::string, float> scores;
  float rank = 0;
  for (const ordered_json& merge : merges) {
    std::string joined;
    if (merge.is_string()) {
      joined = merge.get<std::string>();
      const size_t space = joined.find(' ');
      if (space == std::string::npos) throw Error(fmt::format("{}: merge '{}' joins no two parts", path, joined));
      joined.erase(space, 1);
    } else {
      for (const ordered_json& part : merge) joined += part.get<std::string>();
    }
    scores.try_emplace(joined, -rank);
    rank += 1;
  }
  for (Token& t : v.tokens)
    if (const auto at = scores.find(t.text); at != scores.end()) t.score = at->second;
}

void read_json_tokenizer(Vocabulary& v, const ordered_json& tokenizer, const std::string& path, std::uint64_t limit) {
  const ordered_json model = tokenizer.value("model", ordered_json::object());
  if (model.value("type", "BPE") != "BPE" || !model.contains("vocab") || !model.contains("merges"))
    throw Error(fmt::format("{}: model {}; BPE alone can be written, or tokenizer.model of SentencePiece", path,
                            model.value("type", "without a type")));
  const bool falls_back = model.value("byte_fallback", false);
  const std::string unknown_text = model.contains("unk_token") && model["unk_token"].is_string()
                                       ? model["unk_token"].get<std::string>()
                                       : std::string();
  for (const auto& [text, id] : model["vocab"].items()) {
    Token t = {text, 0, normal};
    if (falls_back && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>')) t.kind = byte;
    if (!unknown_text.empty() && text == unknown_text) t.kind = unknown;
    v.set(id_in(id, path), std::move(t), limit, path);
  }
  if (falls_back) {
    v.model = "llama";
    v.is_scored = true;
    v.adds_prefix = false;
    for (const ordered_json& step : steps_of(tokenizer.value("normalizer", ordered_json()), "normalizers"))
      if (step.value("type", "") == "Prepend") v.adds_prefix = true;
    for (const ordered_json& step : steps_of(tokenizer.value("pre_tokenizer", ordered_json()), "pretokenizers"))
      if (step.value("type", "") == "Metaspace") v.adds_prefix = step.value("prepend_scheme", "always") != "never";
    score_by_merges(v, model["merges"], path);
    return;
  }
  v.model = "gpt2";
  v.pre = pre_tokenizer_of(tokenizer, path);
  for (const ordered_json& merge : model["merges"]) v.merges.push_back(merge_text(merge));
  for (const ordered_json& step : steps_of(tokenizer.value("normalizer", ordered_json()), "normalizers"))
    v.composes = v.composes || step.value("type", "") == "NFC";
}

// Tokens that were added behind the model's own.
void add_token(Vocabulary& v, std::uint64_t id, const ordered_json& entry, std::uint64_t limit,
               const std::string& path) {
  std::string text = entry.value("content", "");
  std::int32_t kind = entry.value("special", false) ? control : user_defined;
  if (id < v.tokens.size() && v.tokens[static_cast<size_t>(id)].kind == unknown) kind = unknown;
  // SentencePiece's space, which llama.cpp does not look for in tokens of a user.
  constexpr std::string_view space = "\u2581";
  for (size_t at = text.find(space); kind == user_defined && at != std::string::npos; at = text.find(space, at))
    text.replace(at, space.size(), " ");
  v.set(id, {std::move(text), -1000, kind}, limit, path);
}

std::string token_text(const ordered_json& entry) {
  if (entry.is_string()) return entry.get<std::string>();
  return entry.is_object() ? entry.value("content", "") : "";
}

std::optional<std::uint64_t> id_of(const Vocabulary& v, const ordered_json& entry) {
  const std::string text = token_text(entry);
  if (text.empty()) return std::nullopt;
  for (size_t i = 0; i < v.tokens.size(); ++i)
    if (v.tokens[i].text == text && v.tokens[i].kind != unused) return i;
  return std::nullopt;
}

// Whether post_processor puts a token before a text and behind it, and the one behind.
struct Added {
  std::optional<bool> first, last;
  std::string end;
};

// As llama.cpp's converter reads a template (gguf-py/gguf/vocab.py): its first token counts where it is the one that
// begins texts. A processor of bytes alone adds none.
Added added_tokens(const ordered_json& tokenizer, const ordered_json& settings) {
  Added added;
  bool has_bytes = false;
  for (const ordered_json& step : steps_of(tokenizer.value("post_processor", ordered_json()), "processors")) {
    has_bytes |= step.value("type", "") == "ByteLevel";
    if (step.value("type", "") != "TemplateProcessing" || !step.contains("single")) continue;
    const auto name = [](const ordered_json& part) {
      const ordered_json token = part.is_object() ? part.value("SpecialToken", ordered_json()) : ordered_json();
      return token.is_object() ? token.value("id", "") : std::string();
    };
    const ordered_json& single = step["single"];
    if (single.size() < 2) continue;
    if (const std::string first = name(single.front()); !first.empty())
      added.first = settings.empty() || first == token_text(settings.value("bos_token", ordered_json())) ||
                    first == token_text(settings.value("cls_token", ordered_json()));
    if (const std::string last = name(single.back()); !last.empty()) added.last = true, added.end = last;
  }
  for (std::optional<bool>* flag : {&added.first, &added.last})
    if (has_bytes && !*flag) *flag = false;
  return added;
}

void put_special(GgufEntries& entries, const Vocabulary& v, const std::string& folder, const ordered_json& tokenizer,
                 const ordered_json& settings, const ordered_json& config) {
  struct Special {
    const char* name;
    const char* key;
  };
  static constexpr Special specials[] = {{"bos", "tokenizer.ggml.bos_token_id"},
                                         {"eos", "tokenizer.ggml.eos_token_id"},
                                         {"unk", "tokenizer.ggml.unknown_token_id"},
                                         {"pad", "tokenizer.ggml.padding_token_id"}};
  Added added = added_tokens(tokenizer, settings);
  // What ends every text ends it for llama.cpp, too; the token of tokenizer_config.json then ends a turn.
  const ordered_json own_end = settings.value("eos_token", ordered_json());
  const bool ends_otherwise = !settings.empty() && !added.end.empty() && added.end != token_text(own_end);
  for (const Special& s : specials) {
    const bool is_end = ends_otherwise && s.name == std::string_view("eos");
    std::optional<std::uint64_t> id =
        id_of(v, is_end ? ordered_json(added.end) : settings.value(fmt::format("{}_token", s.name), ordered_json()));
    const auto at = config.find(fmt::format("{}_token_id", s.name));
    if (!id && at != config.end()) {
      const ordered_json& given = at->is_array() && !at->empty() ? at->front() : *at;
      if (given.is_number_unsigned() && given.get<std::uint64_t>() < v.tokens.size()) id = given.get<std::uint64_t>();
    }
    if (id) entries.count(s.key, *id);
    if (const auto turn = is_end ? id_of(v, own_end) : std::nullopt)
      entries.count("tokenizer.ggml.eot_token_id", *turn);
  }
  for (const auto& [key, flag] : {std::pair{"add_bos_token", &added.first}, std::pair{"add_eos_token", &added.last}}) {
    if (settings.contains(key) && settings[key].is_boolean()) *flag = settings[key].get<bool>();
    if (*flag) entries.flag(std::string("tokenizer.ggml.") + key, **flag);
  }
  std::string chat;
  if (settings.contains("chat_template") && settings["chat_template"].is_string())
    chat = settings["chat_template"].get<std::string>();
  const std::string path = (fs::path(folder) / "chat_template.jinja").string();
  if (chat.empty() && fs::is_regular_file(path)) chat = read_text_file(path, "chat template").text;
  if (!chat.empty()) entries.text("tokenizer.chat_template", chat);
}

}  // namespace

namespace {

void put(GgufEntries& entries, const std::string& folder, const ordered_json& config, std::uint64_t vocabulary) {
  const std::string pieces = (fs::path(folder) / "tokenizer.model").string();
  const std::string path = (fs::path(folder) / "tokenizer.json").string();
  ordered_json tokenizer = json_in(folder, "tokenizer.json");
  const bool has_json = !tokenizer.is_null();
  if (!has_json) tokenizer = ordered_json::object();
  ordered_json settings = json_in(folder, "tokenizer_config.json");
  if (settings.is_null()) settings = ordered_json::object();
  constexpr std::uint64_t most = 1 << 24;
  if (vocabulary > most)
    throw Error(fmt::format("{}: vocab_size is {}; at most {} tokens are accepted", folder, vocabulary, most));
  Vocabulary v;
  for (std::uint64_t i = 0; i < vocabulary; ++i) v.tokens.push_back({fmt::format("[PAD{}]", i), -10000, unused});
  if (fs::is_regular_file(pieces))
    read_sentencepiece(v, pieces, vocabulary);
  else if (has_json)
    read_json_tokenizer(v, tokenizer, path, vocabulary);
  else
    throw Error(folder + ": has neither tokenizer.model nor tokenizer.json, which a GGUF needs");
  if (tokenizer.contains("added_tokens"))
    for (const ordered_json& entry : tokenizer["added_tokens"])
      if (const auto id = id_in(entry.value("id", ordered_json(0u)), path); id < vocabulary || v.model == "gpt2")
        add_token(v, id, entry, vocabulary, path);
  const ordered_json added = settings.value("added_tokens_decoder", ordered_json::object());
  for (const auto& [id, entry] : added.items()) {
    std::uint64_t number = vocabulary;
    std::from_chars(id.data(), id.data() + id.size(), number);
    if (number < vocabulary) add_token(v, number, entry, vocabulary, path);
  }
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> kinds;
  for (const Token& t : v.tokens) {
    texts.push_back(t.text);
    scores.push_back(t.score);
    kinds.push_back(t.kind);
  }
  entries.text("tokenizer.ggml.model", v.model);
  entries.text("tokenizer.ggml.pre", v.pre);
  entries.texts("tokenizer.ggml.tokens", texts);
  if (v.is_scored) entries.reals("tokenizer.ggml.scores", scores);
  entries.integers("tokenizer.ggml.token_type", kinds);
  if (!v.merges.empty()) entries.texts("tokenizer.ggml.merges", v.merges);
  if (v.adds_prefix) entries.flag("tokenizer.ggml.add_space_prefix", *v.adds_prefix);
  if (v.composes) entries.flag("tokenizer.ggml.normalizer.nfc", true);
  put_special(entries, v, folder, tokenizer, settings, config);
}

}  // namespace

void put_tokenizer(GgufEntries& entries, const std::string& folder, const ordered_json& config,
                   std::uint64_t vocabulary) {
  try {
    put(entries, folder, config, vocabulary);
  } catch (const nlohmann::json::exception& e) {
    const std::string why = e.what();  // "[json.exception.type_error.302] type must be .."
    throw Error(fmt::format("{}: the tokenizer is not what tokenizers writes: {}", folder,
                            why.substr(why.find("] ") == std::string::npos ? 0 : why.find("] ") + 2)));
  }
}

}  // namespace fp4
