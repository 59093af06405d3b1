// The tests are written for Catch2 2, which has one header. Where Catch2 3 is installed, this file takes its place and
// gives the words that moved: Approx is global, string matchers stand in Catch, and Contains looks for a part of a text
// (Catch2 3 calls that ContainsSubstring).
#pragma once

#include <catch2/catch_all.hpp>

using Catch::Approx;
namespace Catch {
using Matchers::ContainsSubstring;
using Matchers::EndsWith;
using Matchers::StartsWith;
}  // namespace Catch
#define Contains ContainsSubstring
