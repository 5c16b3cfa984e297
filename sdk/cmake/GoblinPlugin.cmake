# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
# goblin_add_plugin(NAME SOURCES … [LIBS target …] [INSTALL])
# A plugin NAME.so as the target plugin_NAME; INSTALL puts it into lib/goblin/plugins. Works in the repository and, after
# find_package(GpuGoblin), outside it. The library exports its entry function only, and carries its
# own C++ runtime, so that it loads on hosts with an older one; nothing but C crosses the edge.
include_guard(GLOBAL)

function(goblin_add_plugin name)
  cmake_parse_arguments(ARG "INSTALL" "" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_SOURCES OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "goblin_add_plugin(${name} SOURCES … [LIBS …]): "
      "SOURCES is missing, or these arguments are unknown: '${ARG_UNPARSED_ARGUMENTS}'")
  endif()
  set(target plugin_${name})
  find_package(Threads REQUIRED)
  add_library(${target} MODULE ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE goblin::sdk Threads::Threads ${ARG_LIBS})
  set_target_properties(${target} PROPERTIES
    PREFIX "" SUFFIX ".so" OUTPUT_NAME ${name}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map)
  if(GOBLIN_PLUGIN_OUTPUT_DIRECTORY)
    set_target_properties(${target} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${GOBLIN_PLUGIN_OUTPUT_DIRECTORY})
  endif()
  # Canonical numbers: the compiler may not fuse a multiplication and an addition on its own.
  target_compile_options(${target} PRIVATE -ffp-contract=off
    "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" "-ffile-prefix-map=${CMAKE_BINARY_DIR}/=")
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map -Wl,-z,relro,-z,now -Wl,--build-id=none)
  if(NOT GOBLIN_SANITIZE)
    target_link_options(${target} PRIVATE -static-libgcc -static-libstdc++ -Wl,-z,defs)
  endif()
  if(TARGET goblin_options)
    target_link_libraries(${target} PRIVATE goblin_options)
  endif()
  if(ARG_INSTALL)
    include(GNUInstallDirs)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/goblin/plugins)
    # The Python package carries them, too.
    set_property(GLOBAL APPEND PROPERTY GOBLIN_INSTALLED_PLUGINS ${target})
  endif()
endfunction()
