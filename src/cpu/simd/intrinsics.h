// The processor's own vector functions.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 finds its own _mm512_undefined_*() uninitialised (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
