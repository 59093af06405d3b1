// Output appears whole or not at all, and never replaces a result without force.
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include "src/files/output.h"
#include "src/files/output_file.h"
#include "src/text/error.h"
#include "tests/support/support.h"

namespace fs = std::filesystem;
using fp4::test::read_text;
using fp4::test::TemporaryFolder;
using fp4::test::write_text;

namespace {

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// The program's calls of fsync() and rename() pass through here: what they were called on, in order.
std::vector<std::string> calls;
int fail_sync = 0;  // errno of every fsync()

std::string file_name(int descriptor) {
  return fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor)).filename().string();
}

}  // namespace

extern "C" int fsync(int descriptor) {
  calls.push_back("sync " + file_name(descriptor));
  errno = fail_sync;
  return fail_sync == 0 ? static_cast<int>(::syscall(SYS_fsync, descriptor)) : -1;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  calls.push_back("rename " + fs::path(to).filename().string());
  return static_cast<int>(::syscall(SYS_rename, from, to));
}

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
  // What /dev/stdout is in a pipeline: a link to "pipe:[123]", which is no path.
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  CHECK_THROWS_WITH(fp4::StagedFile("/proc/self/fd/" + std::to_string(pipe[1]), true),
                    Catch::Contains("not a regular file"));
  ::close(pipe[0]);
  ::close(pipe[1]);
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

TEST_CASE("force removes what the result before had and this one lacks, and nothing else", "[quick]") {
  const TemporaryFolder folder;
  for (const char* name : {"codes.npy", "scales.npy", "notes.txt"}) write_text(folder / name, "old");
  for (const bool finished : {false, true}) {
    fp4::StagedFolder staged(folder.path(), true);
    write_text(staged.file("codes.npy"), "new");
    staged.drop("scales.npy");
    staged.drop("absent.npy");
    CHECK(read_text(folder / "scales.npy") == "old");
    if (finished) staged.commit();
  }
  CHECK_FALSE(fs::exists(folder / "scales.npy"));
  CHECK(read_text(folder / "codes.npy") == "new");
  CHECK(read_text(folder / "notes.txt") == "old");
  CHECK(entries(folder.path()) == 2);
}

TEST_CASE("results are on the disk before they appear, and their folder afterwards", "[quick]") {
  const TemporaryFolder folder;
  const std::string name = folder.path().filename().string();
  calls.clear();
  fp4::write_file(folder / "a", "one", true);
  CHECK(calls == std::vector<std::string>{"sync .a.fp4sim.tmp", "rename a", "sync " + name});

  calls.clear();
  {
    fp4::StagedFolder staged(folder / "out", false);
    fp4::write_file(staged.file("sub/x"), "x", false);
    CHECK(calls.empty());  // one sync of each file, when all are written
    staged.commit();
  }
  CHECK(calls == std::vector<std::string>{"sync x", "sync .out.fp4sim.tmp", "sync sub", "rename out", "sync " + name});

  calls.clear();
  fp4::set_output_sync(false);
  fp4::write_file(folder / "b", "one", true);
  fp4::set_output_sync(true);
  CHECK(calls == std::vector<std::string>{"rename b"});

  fail_sync = EIO;
  CHECK_THROWS_WITH(fp4::write_file(folder / "c", "one", false), Catch::Contains("c: writing to the disk failed"));
  CHECK_FALSE(fs::exists(folder / "c"));
  fail_sync = EINVAL;  // a file system that has no such call
  CHECK_NOTHROW(fp4::write_file(folder / "d", "one", false));
  fail_sync = 0;
  CHECK(entries(folder.path()) == 4);
}

TEST_CASE("a signal removes what is not finished, also in subfolders", "[quick]") {
  for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGTERM}) {
    const TemporaryFolder folder;
    fp4::write_file(folder / "kept", "", false);
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(signal, SIG_DFL);
      fp4::remove_temporaries_on_signals();
      fp4::OutputFile file(folder / "a");
      file.write("half");
      fp4::StagedFolder staged(folder / "up/out", false);
      fp4::OutputFile inside(staged.file("sub/deep/x").string());
      write_text(staged.file("sub/y"), "y");
      fp4::StagedFolder existing(folder.path(), true);
      write_text(existing.file("z"), "z");
      std::raise(signal);
      ::_exit(9);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK(entries(folder.path()) == 1);
  }
}

TEST_CASE("what a killed process left is removed, what a living one writes is not", "[quick]") {
  const TemporaryFolder folder;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    fp4::StagedFile file(folder / "a", false);
    fp4::StagedFolder staged(folder / "out", false);
    write_text(staged.file("sub/x"), "x");
    if (::write(ready[1], "!", 1) != 1) ::_exit(9);
    for (;;) ::pause();
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  {
    fp4::StagedFile file(folder / "a", false);
    fp4::StagedFolder staged(folder / "out", false);
    CHECK(fs::exists(folder / ".a.fp4sim.tmp"));
    CHECK(file.temporary().filename() == ".a.fp4sim.1.tmp");
    CHECK(staged.temporary().filename() == ".out.fp4sim.1.tmp");
    CHECK(fs::exists(folder / ".out.fp4sim.tmp/sub/x"));
  }
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(entries(folder.path()) == 2);
  fp4::write_file(folder / "a", "", false);
  fp4::StagedFolder(folder / "out", false).commit();
  CHECK(entries(folder.path()) == 2);  // a and out alone
}
