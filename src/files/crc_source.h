// The two ways in which ZIP keeps an entry, as byte sources that check its CRC-32.
#pragma once

#include <cstdint>

#include "src/text/byte_source.h"

namespace fp4 {

// `stored` as it is. The CRC runs along while bytes are taken in order and is compared at the last one; bytes taken out
// of order are not counted, which is what verify() is for.
Bytes open_checked(Bytes stored, std::uint32_t crc);

// A raw deflate stream (RFC 1951) that gives exactly `bytes` bytes; Error when it gives fewer, more, or is damaged.
Bytes open_inflated(Bytes deflated, std::uint64_t bytes, std::uint32_t crc);

}  // namespace fp4
