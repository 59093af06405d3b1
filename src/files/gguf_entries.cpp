#include "src/files/gguf_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "src/text/error.h"

namespace fp4 {
namespace {

// Numbers of docs/gguf.md.
enum Kind : std::uint32_t { u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9 };

void add(std::string& out, std::uint64_t value, unsigned bytes) {
  for (unsigned b = 0; b < bytes; ++b) out.push_back(static_cast<char>(value >> (8 * b)));
}
void add(std::string& out, const std::string& text) {
  add(out, text.size(), 8);
  out += text;
}
std::string typed(Kind kind) {
  std::string out;
  add(out, kind, 4);
  return out;
}
std::string list_of(Kind kind, std::size_t count) {
  std::string out = typed(array);
  add(out, kind, 4);
  add(out, count, 8);
  return out;
}
std::uint32_t bits_of_real(float value) { return std::bit_cast<std::uint32_t>(value); }

}  // namespace

GgufEntries::GgufEntries(const Bytes& bytes) : entries_(entries_of(bytes)), alignment_(metadata_of(bytes).alignment) {}

void GgufEntries::put(const std::string& key, std::string typed_value) {
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.first == key; });
  if (at == entries_.end())
    entries_.emplace_back(key, std::move(typed_value));
  else
    at->second = std::move(typed_value);
}

void GgufEntries::text(const std::string& key, const std::string& value) {
  std::string v = typed(string);
  add(v, value);
  put(key, std::move(v));
}
void GgufEntries::count(const std::string& key, std::uint64_t value) {
  if (value > 0xffffffff) throw Error(fmt::format("GGUF entry {}: {} needs more than 32 bits", key, value));
  std::string v = typed(u32);
  add(v, value, 4);
  put(key, std::move(v));
}
void GgufEntries::real(const std::string& key, double value) {
  std::string v = typed(f32);
  add(v, bits_of_real(static_cast<float>(value)), 4);
  put(key, std::move(v));
}
void GgufEntries::flag(const std::string& key, bool value) {
  std::string v = typed(boolean);
  add(v, value ? 1 : 0, 1);
  put(key, std::move(v));
}
void GgufEntries::texts(const std::string& key, const std::vector<std::string>& values) {
  std::string v = list_of(string, values.size());
  for (const std::string& value : values) add(v, value);
  put(key, std::move(v));
}
void GgufEntries::reals(const std::string& key, const std::vector<float>& values) {
  std::string v = list_of(f32, values.size());
  for (const float value : values) add(v, bits_of_real(value), 4);
  put(key, std::move(v));
}
void GgufEntries::integers(const std::string& key, const std::vector<std::int32_t>& values) {
  std::string v = list_of(i32, values.size());
  for (const std::int32_t value : values) add(v, static_cast<std::uint32_t>(value), 4);
  put(key, std::move(v));
}
void GgufEntries::flags(const std::string& key, const std::vector<bool>& values) {
  std::string v = list_of(boolean, values.size());
  for (const bool value : values) add(v, value ? 1 : 0, 1);
  put(key, std::move(v));
}

bool GgufEntries::has(const std::string& key) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& e) { return e.first == key; });
}

GgufMetadata GgufEntries::metadata() const {
  GgufMetadata m;
  m.alignment = alignment_;
  m.count = entries_.size();
  for (const auto& [key, value] : entries_) {
    add(m.entries, key);
    m.entries += value;
  }
  return m;
}

}  // namespace fp4
