# fp4_flags: how every file of the project itself is compiled. Not exported: a consumer keeps its own warnings.
add_library(fp4_flags INTERFACE)
target_compile_features(fp4_flags INTERFACE cxx_std_20)
# -ffp-contract=off: g++ fuses a*b+c as soon as the target has FMA (a function with a target attribute is enough), clang
# also within one expression; a fused result has one rounding instead of two, so bits would depend on the machine.
# -Wswitch: a forgotten enumerator of an axis is always an error; another warning, which the next compiler may invent, in
# the presets ci and clang alone.
target_compile_options(
  fp4_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-Wall;-Wextra;-Wconversion;-Wswitch;$<IF:$<BOOL:${FP4_WERROR}>,-Werror,-Werror=switch>>
                      # Designated initialisers leave the other members at their defaults on purpose.
                      $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>
                      # g++ 12 reports overlapping memcpy inside its own std::string at -O3 (GCC bug 105651).
                      $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
                      $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Debug>>:-D_GLIBCXX_ASSERTIONS>)
# For the kernels of AVX2: 32 bytes are copied by one move. g++ makes two of 16, and who reads the copy as one vector waits
# until both have left the store buffer: the fp32 product took three times as long.
set(fp4_whole_copies "$<$<CXX_COMPILER_ID:GNU>:-mmove-max=256;-mstore-max=256>")
# What is given to others (presets release, ci and native): a write past an array ends the program instead of going on, and
# the tables through which libraries are called are read-only.
if(FP4_HARDEN)
  target_compile_options(fp4_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>
                                             $<$<COMPILE_LANGUAGE:CXX>:-U_FORTIFY_SOURCE> $<$<COMPILE_LANGUAGE:CXX>:-D_FORTIFY_SOURCE=2>)
  target_link_options(fp4_flags INTERFACE -Wl,-z,relro,-z,now)
endif()
if(FP4_SANITIZE)
  target_compile_options(fp4_flags INTERFACE -fsanitize=${FP4_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
                                             -D_GLIBCXX_ASSERTIONS)
  target_link_options(fp4_flags INTERFACE -fsanitize=${FP4_SANITIZE})
  if(FP4_SANITIZE MATCHES "address") # AddressSanitizer checks each access where it happens
    target_compile_options(fp4_flags INTERFACE -fno-sanitize=object-size)
  endif()
  # With sanitizers on, g++ 12 warns about paths it invented itself (GCC bug 105562 and others).
  target_compile_options(fp4_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  find_program(FP4_LLD ld.lld) # links a test program in a second instead of five
  if(FP4_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_link_options(fp4_flags INTERFACE -fuse-ld=lld)
  endif()
endif()
if(FP4_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "FP4_FUZZ needs clang (libFuzzer): configure with -DCMAKE_CXX_COMPILER=clang++")
  endif()
endif()
