// Output appears whole or not at all, and never replaces a result without force.
#include <catch2/catch.hpp>
#include <filesystem>

#include "src/error.h"
#include "src/output.h"
#include "tests/support/support.h"

namespace fs = std::filesystem;
using fp4::test::read_text;
using fp4::test::TemporaryFolder;
using fp4::test::write_text;

namespace {

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("a file is written whole, refused when it exists and replaced by force", "[quick]") {
  const TemporaryFolder folder;
  fp4::write_file(folder / "a", "one", false);
  CHECK(read_text(folder / "a") == "one");
  CHECK_THROWS_AS(fp4::write_file(folder / "a", "two", false), fp4::Error);
  CHECK(read_text(folder / "a") == "one");
  fp4::write_file(folder / "a", "two", true);
  CHECK(read_text(folder / "a") == "two");
  CHECK(entries(folder.path()) == 1);  // no temporary left
}

TEST_CASE("a file that is not committed leaves nothing", "[quick]") {
  const TemporaryFolder folder;
  {
    fp4::StagedFile staged(folder / "a", false);
    write_text(staged.temporary(), "half");
  }
  CHECK(entries(folder.path()) == 0);
  // Someone else wins the race: their file stays.
  fp4::StagedFile staged(folder / "a", false);
  write_text(folder / "a", "theirs");
  CHECK_THROWS_AS(staged.commit(), fp4::Error);
  CHECK(read_text(folder / "a") == "theirs");
}

TEST_CASE("places that cannot be written are named before any work", "[quick]") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(fp4::StagedFile(folder / "absent/a", false), Catch::Contains("absent/a"));
  CHECK_THROWS_WITH(fp4::StagedFile("/dev/null", true), Catch::Contains("not a regular file"));
  CHECK_THROWS_WITH(fp4::StagedFile(folder.path(), true), Catch::Contains("not a regular file"));
  write_text(folder / "file", "");
  CHECK_THROWS_WITH(fp4::StagedFolder(folder / "file", true), Catch::Contains("not a folder"));
  CHECK_THROWS_AS(fp4::StagedFolder(folder / "file/below", true), fp4::Error);
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a new folder appears by one rename, with its parents", "[quick]") {
  const TemporaryFolder folder;
  {
    fp4::StagedFolder staged(folder / "up/out/", false);
    write_text(staged.file("codes.npy"), "c");
    CHECK_FALSE(fs::exists(folder / "up/out"));
    staged.commit();
  }
  CHECK(read_text(folder / "up/out/codes.npy") == "c");
  CHECK(entries(folder.path() / "up") == 1);
  { fp4::StagedFolder dropped(folder / "other/out", false); }
  CHECK_FALSE(fs::exists(folder / "other"));
}

TEST_CASE("an existing folder keeps its other files", "[quick]") {
  const TemporaryFolder folder;
  write_text(folder / "notes.txt", "mine");
  write_text(folder / "codes.npy", "old");
  CHECK_THROWS_WITH(fp4::StagedFolder(folder.path(), false), Catch::Contains("not empty"));
  {
    fp4::StagedFolder staged(folder.path(), true);
    write_text(staged.file("codes.npy"), "new");
    write_text(staged.file("sub/scales.npy"), "s");
    CHECK(read_text(folder / "codes.npy") == "old");
    staged.commit();
  }
  CHECK(read_text(folder / "codes.npy") == "new");
  CHECK(read_text(folder / "sub/scales.npy") == "s");
  CHECK(read_text(folder / "notes.txt") == "mine");
  CHECK(entries(folder.path()) == 3);
}
