// The store of a sweep: one SQLite file, DIR/sweep.sqlite, and the only SQL of the project.
// A run's key is (config hash, seed, signature, train signature of its task). The same key with another digest means
// that training is not deterministic: both rows are kept for inspection and the writer throws.
// Every row carries a hash (store_schema.h) that is compared when it is read; a damaged one throws Error with exit code
// 1, naming file, table and row.
// On a local disk: WAL with synchronous=NORMAL (no fsync per run; kill -9 loses nothing committed). On a network file
// system WAL's shared memory does not work: rollback journal, exclusive lock, batches of runs per commit.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sweeps/record.h"

struct sqlite3;

namespace fp4::sweeps {

enum class StoreMode { automatic, local, network };

// Who computes: part of every row's key or provenance.
struct Identity {
  std::string signature;                                // of the arithmetic (src/backends/signature.h)
  std::map<std::string, std::string> train_signatures;  // of each task that is asked for (tasks/run.h)
  std::string version;
  std::string host;

  // Whether runs of both may stand in one table: equal arithmetic, and equal training of the tasks that both name.
  bool agrees_with(const Identity& other) const;
};

struct Conflict {
  std::string hash;
  uint64_t seed;
  std::string digests;  // comma-separated
};

class Store {
 public:
  // Opens for writing, creates the folder and the file when missing. One writer at a time: a second process gets an
  // error that names the first. Checks the file's integrity, its kind and its schema; schema 1 becomes schema 2. Tasks
  // that `identity` does not name keep the train signatures that the store has for them.
  static Store open(const std::filesystem::path& folder, const Identity& identity,
                    StoreMode mode = StoreMode::automatic);
  // Opens for reading, beside a living writer too; read-only folders are fine. The identity is the last writer's.
  // Schema 1 is read as a private copy in schema 2.
  static Store read(const std::filesystem::path& folder);
  // Whether a store is here; the empty file that a crash leaves before the tables are made is none.
  static bool exists(const std::filesystem::path& folder);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  // Closes as finish() does, but silently.
  ~Store();
  // Ends the writing: everything is in the one file sweep.sqlite and on the disk, and no journal is beside it (an empty
  // one may stay while others read). Throws Error when that fails; every committed run is then in the journal.
  void finish();

  const Identity& identity() const { return identity_; }
  const std::filesystem::path& file() const { return file_; }

  std::string meta(const std::string& key) const;  // "" when absent
  void set_meta(const std::string& key, const std::string& value);

  // Replaces the plan (which configurations and points the grid means now); runs are never touched, but runs of schema
  // 1 whose configuration comes back get their task. Returns how many did: runs() gives them from then on. With `part`
  // ("3/5000") the points have `numbers` and go beside what is there of the same grid. `about` is kept with the plan.
  int put_plan(const std::vector<std::string>& axes, std::span<const ConfigRecord> configs,
               std::span<const PointRecord> points, const std::map<std::string, std::string>& about = {},
               const std::string& part = {}, std::span<const size_t> numbers = {});
  // Hashes of the plan's configurations, references among them; nothing where not all are known to be there.
  std::optional<std::vector<std::string>> planned() const;
  std::vector<ConfigRecord> configs(bool with_text = true) const;
  std::vector<PointRecord> points() const;
  std::vector<std::string> axes() const;

  // Commits the runs together. A repeated equal run is ignored, a failed one is replaced by a later success, a role is
  // only ever raised (reference -> confirm -> run). Throws Error on a digest conflict after keeping both rows, and when
  // the store or its journal was deleted, moved or replaced: then nothing since the last commit is stored.
  void insert(std::span<const RunRecord> runs);
  void raise_role(const std::string& hash, uint64_t seed, Role role);
  // Rows of the store's identity, by (hash, seed); `hashes` empty = all of them.
  std::vector<RunRecord> runs(bool with_curves = false, const std::vector<std::string>& hashes = {}) const;
  size_t runs_of_other_signatures() const;
  std::vector<Conflict> conflicts() const;

  // Copies everything of another store into this one. Throws Error, changing nothing, when the other holds a damaged
  // row, another sweep or grid, or runs of another arithmetic.
  void absorb(const Store& other);
  // Test hook: caps the file at this many pages, so that a full disk can be met without one.
  void limit_pages(int pages);

 private:
  struct Handle;
  Store(std::filesystem::path file, std::unique_ptr<Handle> handle, Identity identity);
  std::string train_signatures_json() const;
  void set_counts();
  std::filesystem::path file_;
  std::unique_ptr<Handle> handle_;
  Identity identity_;
};

// What a store's file holds and what of it is damaged.
struct StoreCheck {
  std::vector<std::pair<std::string, size_t>> rows;  // by table
  std::vector<std::string> damage;                   // one sentence each, naming the table and the row
};
StoreCheck check_store(const std::filesystem::path& folder);
// Deletes the rows whose hash does not fit and returns how many; `sweep run` makes them again. Throws Error when the
// file's pages are damaged too.
size_t drop_damaged_rows(const std::filesystem::path& folder);

// True for file systems on which WAL and shared memory cannot be trusted (NFS, SMB, Lustre, GPFS, BeeGFS, Ceph, 9p,
// FUSE).
bool is_network_file_system(const std::filesystem::path& folder);

}  // namespace fp4::sweeps
