#include "tasks/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "src/text/error.h"
#include "src/text/input_file.h"

namespace fp4::tasks {

RecordFile::RecordFile(std::string path, sim::FileReading how)
    : path_(std::move(path)), how_(how), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  if (file_ < 0 || ::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    if (file_ >= 0) ::close(file_);
    throw Error(path_ + ": cannot be read" + (file_ >= 0 ? ": it is not a regular file" : ""));
  }
  note_input(path_);
  // No reading ahead: a record that was not asked for stays cold.
  if (how_ == sim::FileReading::cold) ::posix_fadvise(file_, 0, 0, POSIX_FADV_RANDOM);
}

RecordFile::~RecordFile() { ::close(file_); }

void RecordFile::begin_batch() const {
  if (how_ == sim::FileReading::cold) ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
}

void RecordFile::read(int64_t offset, void* to, size_t bytes) const {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(file_, static_cast<char*>(to) + done, bytes - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw Error(path_ + ": cannot be read at byte " + std::to_string(offset), Error::failed);
    done += static_cast<size_t>(got);
  }
}

}  // namespace fp4::tasks
