// Messages of unknown words: the accepted words and the nearest of them.
// Edit distance after Damerau and Levenshtein, restricted form (no substring edited twice).
#include "src/text/error.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace fp4 {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    above = row;
  }
  return above[b.size()];
}

// A word of a foreign file may hold a line break or a terminal's escape sequence, and megabytes.
std::string printable(std::string_view word) {
  constexpr std::size_t longest = 100;
  std::string out;
  for (const char c : word.substr(0, longest)) {
    constexpr char digits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte != 0x7f)
      out += c;
    else
      out += std::string("\\x") + digits[byte >> 4] + digits[byte & 15];
  }
  return word.size() > longest ? out + "..." : out;
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string>& accepted) {
  const std::string given = lower(word);
  std::string best;
  std::size_t best_edits = 0;
  for (const std::string& candidate : accepted) {
    if (candidate == word) return "";  // known, but not in this place: no help
    const std::string known = lower(candidate);
    const std::size_t edits = edit_distance(given, known);
    // A third of the longer word, and at least 1 so that "e2m2" still finds "e2m1".
    if (edits > std::max<std::size_t>(1, std::max(given.size(), known.size()) / 3)) continue;
    if (best.empty() || edits < best_edits) {
      best = candidate;
      best_edits = edits;
    }
  }
  // The start of a word counts as near, "accum" for "accumulators", and so does its last part: "nvfp4" for
  // "modelopt_nvfp4".
  if (best.empty() && given.size() >= 3)
    for (const std::string& candidate : accepted)
      if (lower(candidate).starts_with(given) || lower(candidate).ends_with("_" + given)) return candidate;
  return best;
}

Error unknown_word(std::string_view place, std::string_view word, const std::vector<std::string>& accepted) {
  std::string message = "unknown word '" + printable(word) + "'";
  const std::string nearest = nearest_word(word, accepted);
  if (!nearest.empty()) message += "; did you mean '" + printable(nearest) + "'?";
  message += nearest.empty() ? "; accepted: " : " Accepted: ";
  if (accepted.empty()) message += "(none)";
  // Behind a suggestion a long list only hides it.
  constexpr std::size_t most = 16, first = 8;
  const std::size_t shown = nearest.empty() || accepted.size() <= most ? accepted.size() : first;
  for (std::size_t i = 0; i < shown; ++i) message += (i == 0 ? "" : ", ") + printable(accepted[i]);
  if (shown < accepted.size()) message += " and " + std::to_string(accepted.size() - shown) + " more";
  Error error(std::string(place), std::move(message));
  error.word = word;
  return error;
}

}  // namespace fp4
