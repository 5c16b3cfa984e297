# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
# BLAKE3::blake3, the reference implementation in C by its authors: the system's library where there
# is one. Debian 12 has none, but its librust-blake3-dev ships the same sources; they are compiled
# here then. Set BLAKE3_SOURCE_DIR to a folder with blake3.c to build another copy.

find_package(BLAKE3 CONFIG QUIET)
if(TARGET BLAKE3::blake3)
  set(BLAKE3_FOUND TRUE)
  return()
endif()

file(GLOB _blake3_crates /usr/share/cargo/registry/blake3-1.*/c)
find_path(BLAKE3_SOURCE_DIR blake3.c PATHS ${_blake3_crates} NO_DEFAULT_PATH
  DOC "Folder with the C implementation of BLAKE3")
mark_as_advanced(BLAKE3_SOURCE_DIR)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(BLAKE3 REQUIRED_VARS BLAKE3_SOURCE_DIR REASON_FAILURE_MESSAGE
  "install Debian's librust-blake3-dev (scripts/setup does), or libblake3-dev where it exists")
if(NOT BLAKE3_FOUND)
  return()
endif()

set(_blake3_sources blake3.c blake3_dispatch.c blake3_portable.c)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  enable_language(ASM)
  list(APPEND _blake3_sources blake3_sse2_x86-64_unix.S blake3_sse41_x86-64_unix.S
    blake3_avx2_x86-64_unix.S blake3_avx512_x86-64_unix.S)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND _blake3_sources blake3_neon.c)
endif()
list(TRANSFORM _blake3_sources PREPEND ${BLAKE3_SOURCE_DIR}/)
add_library(goblin_blake3 STATIC EXCLUDE_FROM_ALL ${_blake3_sources})
set_target_properties(goblin_blake3 PROPERTIES C_VISIBILITY_PRESET hidden)
target_compile_options(goblin_blake3 PRIVATE $<$<COMPILE_LANGUAGE:C>:-O3>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  target_compile_definitions(goblin_blake3 PRIVATE BLAKE3_USE_NEON=1)
endif()
target_include_directories(goblin_blake3 SYSTEM PUBLIC ${BLAKE3_SOURCE_DIR})
add_library(BLAKE3::blake3 ALIAS goblin_blake3)
