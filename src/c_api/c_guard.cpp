#include "src/c_api/c_guard.h"

namespace fp4::c {
namespace {

thread_local std::string message_of_thread;
thread_local bool has_no_room = false;  // not even the message fitted into memory

}  // namespace

int failed(const char* message, int code) noexcept {
  has_no_room = false;
  try {
    message_of_thread = message;
  } catch (...) {
    has_no_room = true;
  }
  return code;
}

void succeeded() noexcept {
  has_no_room = false;
  message_of_thread.clear();
}

const char* last_error() noexcept { return has_no_room ? "out of memory" : message_of_thread.c_str(); }

}  // namespace fp4::c
