#include "src/files/manifest.h"

#include <fmt/format.h>

#include "src/files/sha256.h"
#include "src/text/json_reader.h"

namespace fp4 {
namespace {

constexpr const char* hash_key = "manifest_sha256";
constexpr std::uint64_t largest_manifest = std::uint64_t{64} << 20;  // the stress suite's has 60 KB

std::string hash_of(nlohmann::json manifest) {
  manifest.erase(hash_key);
  return sha256_hex(manifest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string text_of(ByteSource& bytes) {
  std::string text(static_cast<std::size_t>(bytes.size()), '\0');
  bytes.read(0, text.data(), text.size());
  return text;
}

}  // namespace

std::string sealed_manifest(nlohmann::ordered_json manifest, int indent) {
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  // Through text once, since the reader will see the text: NaN as null, other bytes replaced.
  manifest[hash_key] = hash_of(nlohmann::json::parse(manifest.dump(-1, ' ', false, replace)));
  return manifest.dump(indent, ' ', false, replace) + "\n";
}

nlohmann::json open_manifest(const std::filesystem::path& folder, std::string_view hint) {
  const std::filesystem::path path = folder / "manifest.json";
  if (!std::filesystem::exists(path)) throw Error(fmt::format("{}: there is no such file; {}", path.string(), hint));
  const Bytes bytes = open_file(path_inside(folder, "manifest.json"));
  if (bytes->size() > largest_manifest) throw Error(path.string() + ": is larger than 64 MB, which no manifest is");
  const nlohmann::json manifest = parse_manifest(text_of(*bytes), folder);
  if (!manifest.is_object()) throw damaged(folder, "manifest.json", "it is no JSON object");
  const auto hash = manifest.find(hash_key);
  const bool is_old = !manifest.contains("schema") || manifest["schema"] == 1;
  if (hash == manifest.end() && is_old) return manifest;
  if (hash == manifest.end()) throw damaged(folder, "manifest.json", fmt::format("it has no {}", hash_key));
  if (*hash != hash_of(manifest)) throw damaged(folder, "manifest.json", "its SHA-256 is not the one it names");
  return manifest;
}

nlohmann::json parse_manifest(const std::string& text, const std::filesystem::path& folder) {
  try {
    return parse_json(text, "its text");
  } catch (const Error& problem) {
    throw damaged(folder, "manifest.json", problem.what());
  }
}

Error damaged(const std::filesystem::path& folder, std::string_view file, std::string_view why) {
  return {fmt::format("{}: {} is damaged", folder.string(), file), std::string(why), Error::failed};
}

bool leads_out(const std::filesystem::path& folder, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const fs::path whole = fs::weakly_canonical(folder, unknown), real = fs::weakly_canonical(folder / file, unknown);
  const fs::path inside = real.lexically_relative(whole);
  return unknown || inside.empty() || *inside.begin() == "..";
}

std::string path_inside(const std::filesystem::path& folder, const std::string& file) {
  if (file.empty() || leads_out(folder, file)) throw damaged(folder, file, "its name leads out of the folder");
  return (folder / file).string();
}

Bytes open_sealed(const std::filesystem::path& folder, const std::string& file, const std::string& sha256) {
  const std::string path = path_inside(folder, file);
  try {
    if (!std::filesystem::exists(path)) throw Error("it is missing");
    const Bytes bytes = open_file(path);
    const std::string text = text_of(*bytes);
    if (!sha256.empty() && sha256_hex(text) != sha256) throw Error("its SHA-256 is not the one in manifest.json");
    return open_memory(path, {text.begin(), text.end()});
  } catch (const Error& problem) {
    throw damaged(folder, file, problem.what());
  }
}

}  // namespace fp4
