// CBOR (RFC 8949) of somebody else as JSON: what Json::to_cbor writes and nothing else. The library's reader calls
// itself for each level and for each piece of a text in pieces, so bytes that nest 200,000 deep would overflow the
// stack; they are looked over first, without recursion.
#pragma once

#include <string>
#include <string_view>

#include "src/text/json_reader.h"

namespace fp4 {

/// Throws Error with exit code 2 that opens with `place`: nested deeper than 64 levels, tags, lengths that are not
/// given, a key that is no text, bytes that are missing or too many.
Json parse_cbor(std::string_view bytes, const std::string& place);

}  // namespace fp4
