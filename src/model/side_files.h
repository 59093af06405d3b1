// What a model's folder holds beside its weights (tokenizer, generation_config.json, chat template, special tokens,
// custom code, licence), to stand beside the weights that are written.
#pragma once

#include <string>
#include <vector>

#include "src/files/output.h"

namespace fp4 {

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
