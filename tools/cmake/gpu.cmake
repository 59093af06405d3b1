# FP4_GPU=cuda or hip: compiles src/gpu/backend_gpu.cu into fp4_src by the vendor's compiler. `off`, the default, needs
# nothing; the kernels' logic is still tested (tests/test_gpu_bodies.cpp) and, where a compiler is found, compiled
# (ctest -L gpu-compile).
#   FP4_GPU_ARCHITECTURES  the device targets; by default those of sm_80 sm_90 sm_100a sm_120a, or of gfx90a gfx942
#                          gfx950, that the compiler knows. Naming one's own alone builds several times faster.
#   FP4_GPU_COMPILER       nvcc, or hipcc / clang++
# A custom command, not CMake's CUDA and HIP languages: those refuse C++20 for nvcc and Debian's HIP packages in the CMake
# that Debian 12 has. Flags that fix the bits: no fused multiply-add, no flushing, IEEE division and root.
set_property(TARGET fp4_src APPEND PROPERTY COMPILE_DEFINITIONS $<IF:$<STREQUAL:${FP4_GPU},off>,FP4_WITH_GPU=0,FP4_WITH_GPU=1>)
if(NOT FP4_GPU STREQUAL "off")
  set(source "${PROJECT_SOURCE_DIR}/src/gpu/backend_gpu.cu")
  set(object "${CMAKE_CURRENT_BINARY_DIR}/backend_gpu.o")
  set(includes -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include)
  if(FP4_GPU STREQUAL "cuda")
    find_program(FP4_GPU_COMPILER nvcc PATHS /usr/local/cuda/bin REQUIRED)
    execute_process(COMMAND "${FP4_GPU_COMPILER}" --list-gpu-code OUTPUT_VARIABLE known)
    set(targets sm_80 sm_90 sm_100a sm_120a)
    foreach(target IN LISTS targets)
      string(REGEX REPLACE "a$" "" plain "${target}")
      if(NOT known MATCHES "${plain}\n")
        list(REMOVE_ITEM targets "${target}")
      endif()
    endforeach()
    set(FP4_GPU_ARCHITECTURES "${targets}" CACHE STRING "GPU targets")
    find_library(FP4_GPU_RUNTIME NAMES cudart_static cudart PATHS /usr/local/cuda/lib64 REQUIRED)
    set(flags -std=c++20 -O3 --fmad=false -ftz=false -prec-div=true -prec-sqrt=true -Xcompiler=-fPIC,-ffp-contract=off
              -lineinfo # checkers and profilers name lines; the code is the same
              --default-stream per-thread) # the runs of a sweep, a thread each, do not wait for one another
    foreach(architecture IN LISTS FP4_GPU_ARCHITECTURES)
      string(REPLACE "sm_" "compute_" virtual "${architecture}")
      list(APPEND flags -gencode arch=${virtual},code=${architecture})
    endforeach()
  else()
    find_program(FP4_GPU_COMPILER NAMES hipcc clang++-19 clang++ PATHS /opt/rocm/bin REQUIRED)
    set(targets gfx90a gfx942 gfx950)
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/empty.cu" "")
    foreach(target IN LISTS targets)
      execute_process(
        COMMAND "${FP4_GPU_COMPILER}" -x hip --cuda-device-only -nogpuinc -nogpulib --offload-arch=${target} -S -o
                "${CMAKE_CURRENT_BINARY_DIR}/empty.s" "${CMAKE_CURRENT_BINARY_DIR}/empty.cu"
        RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
      if(failed)
        list(REMOVE_ITEM targets "${target}")
      endif()
    endforeach()
    set(FP4_GPU_ARCHITECTURES "${targets}" CACHE STRING "GPU targets")
    find_library(FP4_GPU_RUNTIME amdhip64 PATHS /opt/rocm/lib REQUIRED)
    set(flags -x hip -std=c++20 -O3 -ffp-contract=off -fPIC -fgpu-default-stream=per-thread)
    foreach(architecture IN LISTS FP4_GPU_ARCHITECTURES)
      list(APPEND flags --offload-arch=${architecture})
    endforeach()
  endif()
  file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/gpu/*.h" "${PROJECT_SOURCE_DIR}/include/fp4/*.h")
  add_custom_command(OUTPUT "${object}" COMMAND "${FP4_GPU_COMPILER}" ${flags} ${includes} -c "${source}" -o "${object}"
                     DEPENDS "${source}" ${headers} COMMENT "GPU kernels for ${FP4_GPU_ARCHITECTURES}" VERBATIM)
  set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  target_sources(fp4_src PRIVATE "${object}")
  target_link_libraries(fp4_src PUBLIC "${FP4_GPU_RUNTIME}")
endif()
