// Decides: bytes to read. A grammar by formula (sentence i is a function of i alone), or the user's files: one file,
// or the regular files of a folder by name, links skipped. The last tenth validates, but of a folder with the files
// train.txt and validation.txt, which was split by its maker (tools/corpus.sh: by document).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace fp4::tasks {

/// Sentences of the grammar until there are at least `bytes`; `first` separates training from validation text.
/// `stop` is asked on the way, as in_pieces asks it (sim/train/example_pool.h).
std::string grammar_text(uint64_t data_seed, int64_t bytes, uint64_t first, const std::function<bool()>& stop = {});

struct SplitText {
  std::string train, validation;
};

/// Throws Error when nothing can be read or there are fewer than `least` bytes; a validation text needs a tenth of
/// them.
SplitText text_of_path(const std::string& path, int64_t least);

/// The file that holds the training text from its first byte on: `path` itself, or train.txt of a folder that was split
/// by its maker. Throws Error for another folder.
std::string training_file(const std::string& path);

/// Entropy in nats of the byte frequencies: the loss of the best constant prediction.
double unigram_entropy(const std::string& text);

}  // namespace fp4::tasks
