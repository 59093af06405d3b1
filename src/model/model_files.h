// Which files a path is a model of: a file, or the shards of a folder; all parts of it, and none of another folder.
#pragma once

#include <future>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/files/gguf.h"

namespace fp4 {

// Whether the name is that of a file with weights which are read.
bool is_shard(const std::string& name);

inline constexpr const char* follow_links_doc = "Of a model's folder: also what links lead to outside of it";

struct ModelSource {
  std::string command;                   // opens errors
  std::string path;                      // a file, or a folder of shards
  bool follow_links = false;             // links that leave their folder are read, instead of an Error
  std::vector<std::string> beside = {};  // what else is given: it may hold the other parts
};

// A file, or the shards of a folder: those that its *.safetensors.index.json names, else every .safetensors and .gguf
// in the order of their names. Error for a folder without any, for a shard or tensor of the index that is missing, for
// a part that is missing (check_parts), and for a link in the folder that leads out of it. `notes`, where given, name
// what the index leaves out: shards of the folder, which are not read, and tensors of shards that it names, which are.
std::vector<std::string> model_files(const ModelSource& source, std::vector<std::string>* notes = nullptr);

// The name of a folder's *.safetensors.index.json; nothing without one. Error for two.
std::optional<std::string> index_of(const std::string& folder);

// Parts of one GGUF, as llama.cpp's gguf-split makes them, each say their number (split.no, from 0), how many there are
// (split.count) and how many tensors all of them hold (split.tensors.count). The names of .safetensors say it, too:
// model-00001-of-00002.safetensors. Error, naming the file, where a part is missing or there twice, where `in` is one
// part by itself, and where the parts hold another number of tensors.
void check_parts(const std::string& in, const std::vector<std::string>& files,
                 const std::vector<std::string>& beside = {});

// The entries of `source` with another split.tensors.count, where they have one; `metadata` holds them from its
// beginning on.
void set_split_tensors(GgufMetadata& metadata, const std::string& source, std::uint64_t tensors);

// Error for an entry of a folder that is a link out of it.
void refuse_link_out(const std::string& folder, const std::string& name);

// SHA-256 of the shards that `quantize` and `dequantize` wrote, kept in fp4sim.json beside them and compared when they
// are read again: one flipped bit of a code is a weight like any other.
inline constexpr const char* model_record = "fp4sim.json";

// Files that describe a model and are made anew with its weights.
inline constexpr const char* config_files[] = {"config.json", "hf_quant_config.json"};

// Error (exit code 1) for a file that is not the one of fp4sim.json in its folder; files without such a record pass.
// `command` opens it.
void check_hashes(const std::string& command, const std::vector<std::string>& files);

// The same beside other work on the files, while they are in the page cache anyway. Whoever begins it keeps no result
// before end(). A file that was begun before is not read again.
class SourceHashes {
 public:
  // `changed`: nothing is compared.
  SourceHashes(std::string command, bool changed, int threads)
      : command_(std::move(command)), changed_(changed), threads_(threads) {}
  void begin(const std::vector<std::string>& files);
  void end();  // waits; errors of check_hashes

 private:
  std::string command_;
  bool changed_;
  int threads_;
  std::set<std::string> seen_ = {};
  std::vector<std::future<void>> begun_ = {};
};

// What a model's folder holds beside its weights (tokenizer, generation_config.json, chat template, special tokens,
// custom code, licence), to stand beside the weights that are written (side_files.cpp).
struct SideFiles {
  std::vector<std::string> taken;  // relative to the folder: "tokenizer.json", "assets/logo.png"
  std::vector<std::string> left;   // weights in other forms, other results and links to folders: "pytorch_model.bin"
};

// Files of a folder, subfolders included, in the order of their names, without those that `quantize` writes itself:
// config.json and hf_quant_config.json of the folder, its weights and their index, fp4sim.json; and without hidden
// files. Error, naming the file, where one cannot be looked at, and for a link out of the folder unless such are
// followed.
SideFiles side_files(const std::string& folder, bool follow_links);

// Copies `files` of a folder into the staged one. Error, naming the file, where one cannot be read or written.
void copy_side_files(const std::string& folder, const std::vector<std::string>& files, StagedFolder& out);

}  // namespace fp4
