# Writes OUT with the commit of the sources in ROOT (outside a git work tree that of the environment's FP4_COMMIT, else
# "unknown"; "-dirty" with changes to tracked files),
# only when it changes, so that nothing is built again for nothing:  cmake -DROOT=.. -DOUT=.. -P commit.cmake
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY "${ROOT}"
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit "$ENV{FP4_COMMIT}")
endif()
if(commit STREQUAL "")
  set(commit unknown)
endif()
set(text "#define FP4_COMMIT \"${commit}\"\n")
set(old "")
if(EXISTS "${OUT}")
  file(READ "${OUT}" old)
endif()
if(NOT old STREQUAL text)
  file(WRITE "${OUT}" "${text}")
endif()
