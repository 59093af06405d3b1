// The tokenizer of a Hugging Face folder as entries of a GGUF (tokenizer.*): SentencePiece's tokenizer.model, or
// tokenizer.json with byte-level BPE or BPE with byte fallback.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "src/files/gguf_entries.h"

namespace fp4 {

// How llama.cpp cuts text before BPE (llama-vocab.cpp), by the expression that tokenizer.json splits with.
struct PreTokenizer {
  const char* name;  // tokenizer.ggml.pre
  const char* doc;   // the expression; "": of ByteLevel itself
  const char* source;
};
inline constexpr PreTokenizer pre_tokenizers[] = {
    {"llama-bpe",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
     "\\s+(?!\\S)|\\s+",
     "Llama 3"},
    {"qwen2",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
     "\\s+(?!\\S)|\\s+",
     "Qwen2, Qwen3"},
    {"tekken",
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "Mistral Nemo"},
    {"gpt-2", "", "GPT-2"},
};

// `vocabulary` is config.json's vocab_size: tokens that the tokenizer lacks are filled in as unused. Error, naming file
// and place, for a folder without a tokenizer, a kind or an expression that is not known, and damaged files.
void put_tokenizer(GgufEntries& entries, const std::string& folder, const nlohmann::ordered_json& config,
                   std::uint64_t vocabulary);

}  // namespace fp4
