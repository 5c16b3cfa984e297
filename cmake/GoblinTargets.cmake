# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
# Functions that every folder declares its targets with, so that warnings, sanitizers and the
# removal of build paths from binaries are decided in one place.

find_program(GOBLIN_CCACHE ccache)
if(GOBLIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${GOBLIN_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GOBLIN_CCACHE})
endif()

# -Wrestrict: GCC 12 reports it wrongly for "text" + std::string at -O3 (its bug 105651).
add_library(goblin_options INTERFACE)
target_compile_options(goblin_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> -Werror
  -fstack-protector-strong
  "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" "-ffile-prefix-map=${CMAKE_BINARY_DIR}/=")
target_link_options(goblin_options INTERFACE -Wl,-z,relro,-z,now)
if(GOBLIN_SANITIZE)
  string(REPLACE ";" "," _sanitize "${GOBLIN_SANITIZE}")
  # GCC 12 sees uninitialised members where there are none (std::regex) once it instruments.
  target_compile_options(goblin_options INTERFACE -fsanitize=${_sanitize} -fno-omit-frame-pointer
    -fno-sanitize-recover=all $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(goblin_options INTERFACE -fsanitize=${_sanitize})
endif()

# goblin_library(NAME SOURCES … PUBLIC target … PRIVATE target …)
# A static library goblin_NAME with the alias goblin::NAME; headers are included from the
# repository's root, as "core/net/loop.hpp".
function(goblin_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(goblin_${name} STATIC ${ARG_SOURCES})
  add_library(goblin::${name} ALIAS goblin_${name})
  target_include_directories(goblin_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(goblin_${name} PUBLIC ${ARG_PUBLIC} PRIVATE goblin_options ${ARG_PRIVATE})
endfunction()

# goblin_executable(NAME SOURCES … LIBS target …)
function(goblin_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE goblin_options ${ARG_LIBS})
endfunction()

# goblin_test(NAME SOURCES … LIBS target …): a GoogleTest program, each test known to ctest. Compiled
# with -O1, which takes a third less time: what is slow in a test is in the libraries.
function(goblin_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;ENVIRONMENT" ${ARGN})
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${name} PRIVATE goblin_options ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT 120 ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()
