// Manifests of folders that the program writes: JSON that carries the SHA-256 of every file beside it and of itself, so
// that a damaged folder is called damaged and never blamed on whoever is judged by it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "src/text/byte_source.h"
#include "src/text/error.h"

namespace fp4 {

// The text of a manifest.json: `manifest` with the key manifest_sha256, the hash of its compact form with sorted keys
// and without that key. Bytes that are not UTF-8 (file names) become U+FFFD.
std::string sealed_manifest(nlohmann::ordered_json manifest, int indent);

// FOLDER/manifest.json. Error with exit code 2 when there is none (`hint` says how to get one) or it is no file, 1 when
// it is damaged. A manifest of schema 1, or of no schema, carries no hash of itself.
nlohmann::json open_manifest(const std::filesystem::path& folder, std::string_view hint);

// JSON nested at most 64 deep; Error as of damaged() otherwise.
nlohmann::json parse_manifest(const std::string& text, const std::filesystem::path& folder);

// "FOLDER: FILE is damaged: WHY", exit code 1.
Error damaged(const std::filesystem::path& folder, std::string_view file, std::string_view why);

// Whether the name of a file in a folder, or a link on the way to it, leads out of the folder.
bool leads_out(const std::filesystem::path& folder, const std::string& file);

// FOLDER/FILE. Error as of damaged() when the name, or a link on the way to it, leads out of the folder.
std::string path_inside(const std::filesystem::path& folder, const std::string& file);

// FOLDER/FILE in memory, its hash compared. Error as of damaged() when it is missing, cannot be read or differs.
Bytes open_sealed(const std::filesystem::path& folder, const std::string& file, const std::string& sha256);

}  // namespace fp4
