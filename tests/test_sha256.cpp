// SHA-256 against the examples of FIPS 180-4 (NIST's "SHA-256 example" document and the CAVP short messages).
#include <catch2/catch.hpp>
#include <string>

#include "src/files/sha256.h"
#include "src/text/error.h"
#include "tests/support/support.h"

TEST_CASE("SHA-256 of the published examples", "[quick]") {
  CHECK(fp4::sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(fp4::sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(fp4::sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(fp4::sha256_hex(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 does not depend on how the data is cut", "[quick]") {
  std::string data;
  for (int i = 0; i < 300; ++i) data += static_cast<char>(i * 7);
  const std::string whole = fp4::sha256_hex(data);
  for (std::size_t step : {1u, 3u, 63u, 64u, 65u, 127u, 200u}) {
    fp4::Sha256 hash;
    for (std::size_t at = 0; at < data.size(); at += step)
      hash.update(data.data() + at, std::min(step, data.size() - at));
    CHECK(hash.hex() == whole);
  }
  fp4::Sha256 portable(true);
  portable.update(data.data(), data.size());
  CHECK(portable.hex() == whole);
  const fp4::test::TemporaryFolder folder;
  fp4::test::write_text(folder / "data", data);
  CHECK(fp4::sha256_file(folder / "data") == whole);
  CHECK_THROWS_AS(fp4::sha256_file(folder / "absent"), fp4::Error);
}
