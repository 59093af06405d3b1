// What every entry of the C interface is wrapped in.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "fp4/rng.h"
#include "src/c_api/fp4sim.h"
#include "src/text/error.h"
#include "src/text/input_file.h"
#include "src/threads/float_environment.h"

namespace fp4::c {

// Keep the message for this thread's fp4sim_last_error(), also where there is no memory for it.
int failed(const char* message, int code) noexcept;
void succeeded() noexcept;

template <class F>
int guarded(F&& f) noexcept {
  const DefaultFloatEnvironment floats;
  const InputsOfCall inputs;
  try {
    f();
    succeeded();
    return 0;
  } catch (const Error& e) {
    return failed(e.what(), e.kind);
  } catch (const std::bad_alloc&) {
    return failed("out of memory", 1);
  } catch (const std::exception& e) {
    return failed(e.what(), 1);
  } catch (...) {
    return failed("an unknown exception", 1);
  }
}

template <class... T>
void require(const char* function, T*... pointers) {
  if (!(static_cast<bool>(pointers) && ...)) throw Error(std::string(function) + ": a null pointer");
  if (((reinterpret_cast<uintptr_t>(pointers) % alignof(std::conditional_t<std::is_object_v<T>, T, char>) != 0) || ...))
    throw Error(std::string(function) + ": a pointer off the alignment of its type");
}

inline RandomPlace place_of(fp4sim_place p) { return {p.seed, p.stream, p.step}; }

}  // namespace fp4::c
