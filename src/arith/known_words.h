// The words that fast paths know. A word of an axis that is not listed in known_words.cpp (a scale rule added this
// morning) makes them decline, and the reference takes the call: slower, and right. Its line there comes after its
// vector code and the drawn tests.
#pragma once

#include <algorithm>

#include "fp4/spec.h"

namespace fp4 {

template <class Word>
bool is_one_of(Word word, std::initializer_list<Word> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_known(const QuantSpec& spec);
bool is_known(Arithmetic word);
/// The same with one tensor factor a row, which CPUs know as one of 128 columns.
bool is_known_but_row(const QuantSpec& spec);
/// Whether the vector quantisers of a CPU know it; words that neither a product of theirs nor a device knows are among
/// theirs.
bool is_known_to_quantisers(const QuantSpec& spec);
/// Whether they know `multiplied`: the spec of what `multiply` quantises, of groups of 128 whose factors are 1 to 2.
bool is_known_once_multiplied(const QuantSpec& spec, QuantSpec& multiplied);
/// The same of decoding codes and scales.
bool is_known_to_decoders(const QuantSpec& spec);
/// The spec that reads its codes and scales alike, without words that only chose them: backends that do not know such a
/// word can still decode and multiply.
QuantSpec decoding_spec(const QuantSpec& spec);
bool is_known(const HadamardSpec& h);
bool is_known(const Accumulator& row);

}  // namespace fp4
