// See text.h. The grammar asks for what a small model can learn in a few hundred steps: spelling of Zipf-drawn
// invented words, number agreement across a bracketed relative clause (depth 2), a name that returns at the end of
// its sentence, one-digit sums.
#include "tasks/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "src/text/byte_source.h"
#include "src/text/error.h"
#include "tasks/task_data.h"

namespace fp4::tasks {

namespace {

// Draws of one sentence: uniform i of block `sentence * 64`.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t sentence)
      : place_{seed, source(seed, DataSet::pool).stream(), 0}, next_(sentence * 64) {}
  int below(int n) { return static_cast<int>(random_uniform(place_, next_++) * static_cast<float>(n)); }
  /// Zipf's law over n ranks: P(r) ~ 1/(r + 1).
  size_t zipf(size_t n) {
    double total = 0;
    for (size_t r = 0; r < n; ++r) total += 1.0 / static_cast<double>(r + 1);
    double u = static_cast<double>(random_uniform(place_, next_++)) * total;
    for (size_t r = 0; r < n; ++r)
      if ((u -= 1.0 / static_cast<double>(r + 1)) < 0) return r;
    return n - 1;
  }

 private:
  RandomPlace place_;
  uint64_t next_;
};

class Grammar {
 public:
  explicit Grammar(uint64_t seed) : seed_(seed) {
    uint64_t letter = 0;
    const RandomPlace place = {seed, source(seed, DataSet::shapes).stream(), 0};
    const auto draw = [&](int n) { return static_cast<int>(random_uniform(place, letter++) * static_cast<float>(n)); };
    const auto invent = [&](std::vector<std::string>& words, size_t count, int syllables) {
      static const std::string consonants = "bcdfghjklmnpqrtvwxyz", vowels = "aeiou";
      while (words.size() < count) {
        std::string w;
        for (int s = 0; s < syllables; ++s) {
          w += consonants[static_cast<size_t>(draw(20))];
          w += vowels[static_cast<size_t>(draw(5))];
        }
        w += consonants[static_cast<size_t>(draw(20))];
        if (std::find(words.begin(), words.end(), w) == words.end()) words.push_back(w);
      }
    };
    invent(nouns_, 60, 2);
    invent(verbs_, 40, 1);
    invent(adjectives_, 30, 2);
    invent(names_, 30, 2);
    for (std::string& n : names_) n[0] = static_cast<char>(n[0] - 'a' + 'A');
  }

  std::string sentence(uint64_t i) const {
    Draws d(seed_, i);
    switch (d.below(5)) {
      case 0: return sum(d);
      case 1: return named(d);
      default: {
        const bool plural = d.below(2) == 1;
        return clause(d, plural, 2) + ". ";
      }
    }
  }

 private:
  // "the fubar nilok (that the dazem gifs)": the clause's verb agrees with its own noun.
  std::string noun_phrase(Draws& d, bool plural, int depth) const {
    std::string text = plural ? "some " : "the ";
    if (d.below(3) == 0) text += adjectives_[d.zipf(adjectives_.size())] + ' ';
    text += nouns_[d.zipf(nouns_.size())] + (plural ? "s" : "");
    if (depth > 0 && d.below(3) == 0) {
      const bool inner = d.below(2) == 1;
      text += " (that " + clause(d, inner, depth - 1) + ')';
    }
    return text;
  }
  // The verb is drawn before its subject. A statement each: the operands of one + may be evaluated in either order.
  std::string clause(Draws& d, bool plural, int depth) const {
    const std::string end = verb(d, plural);
    return noun_phrase(d, plural, depth) + ' ' + end;
  }
  std::string verb(Draws& d, bool plural) const { return verbs_[d.zipf(verbs_.size())] + (plural ? "" : "s"); }

  std::string named(Draws& d) const {
    const std::string& name = names_[d.zipf(names_.size())];
    const bool plural = d.below(2) == 1;
    const std::string object = noun_phrase(d, plural, 1);
    return name + ' ' + verb(d, false) + ' ' + object + ", says " + name + ". ";
  }
  static std::string sum(Draws& d) {
    const int a = d.below(10), b = d.below(10 - a);
    return std::to_string(a) + '+' + std::to_string(b) + '=' + std::to_string(a + b) + ". ";
  }

  uint64_t seed_;
  std::vector<std::string> nouns_, verbs_, adjectives_, names_;
};

}  // namespace

std::string grammar_text(uint64_t data_seed, int64_t bytes, uint64_t first, const std::function<bool()>& stop) {
  const Grammar grammar(data_seed);
  std::string text;
  text.reserve(static_cast<size_t>(bytes) + 256);
  for (uint64_t i = first; static_cast<int64_t>(text.size()) < bytes; ++i) {
    if ((i - first) % 1024 == 0 && stop && stop()) throw sim::DataStopped();
    text += grammar.sentence(i);
  }
  return text;
}

SplitText text_of_path(const std::string& path, int64_t least) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const fs::directory_entry& e : fs::directory_iterator(path, error))
      if (!e.is_symlink() && e.is_regular_file()) files.push_back(e.path());
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  const auto read = [](const fs::path& f, std::string& text) { text += read_file(f.string()); };
  const auto require = [](const std::string& place, const std::string& text, int64_t bytes) {
    if (static_cast<int64_t>(text.size()) < bytes)
      throw Error(place + ": " + std::to_string(text.size()) + " bytes of text, at least " + std::to_string(bytes) +
                  " are needed");
  };
  SplitText text;
  if (files.size() == 2 && files[0].filename() == "train.txt" && files[1].filename() == "validation.txt") {
    read(files[0], text.train);
    read(files[1], text.validation);
    require(files[0].string(), text.train, least);
    require(files[1].string(), text.validation, least / 10);
    return text;
  }
  for (const fs::path& f : files) read(f, text.train);
  require(path, text.train, least);
  const size_t cut = text.train.size() * 9 / 10;
  text.validation = text.train.substr(cut);
  text.train.resize(cut);
  return text;
}

std::string training_file(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) return path;
  const fs::path train = fs::path(path) / "train.txt";
  if (fs::exists(train) && fs::exists(fs::path(path) / "validation.txt")) return train.string();
  throw Error(path + ": reading batches from the file while training takes one file, or a folder with train.txt and " +
              "validation.txt");
}

double unigram_entropy(const std::string& text) {
  std::array<int64_t, 256> counts = {};
  for (char c : text) ++counts[static_cast<unsigned char>(c)];
  double h = 0;
  for (int64_t n : counts) {
    const double p = static_cast<double>(n) / static_cast<double>(text.size());
    if (n > 0) h -= p * std::log(p);
  }
  return h;
}

}  // namespace fp4::tasks
