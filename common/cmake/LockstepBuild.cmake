# Compiler settings and the few functions that every CMakeLists.txt uses.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE)
  # Equal sources in another folder hit the cache too.
  set(LOCKSTEP_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${LOCKSTEP_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${LOCKSTEP_LAUNCHER})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_LAUNCHER})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${LOCKSTEP_LAUNCHER})
endif()

# C++ objects do not say in which folder they were built. So equal sources hit the compiler cache there too,
# although every assertion of a test has __FILE__ in it.
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>")

find_program(LOCKSTEP_MOLD mold)
if(LOCKSTEP_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(lockstep_flags INTERFACE)
target_include_directories(lockstep_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(lockstep_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror>)
# One formula, one result: the compiler never fuses a multiply with an add on its own (docs/numerics.md).
target_compile_options(lockstep_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 sees an overlap in "literal" + std::to_string(n) that is not there.
  target_compile_options(lockstep_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  if(CMAKE_UNITY_BUILD)
    # gcc then takes every source for a header, where types in anonymous namespaces would be a mistake.
    target_compile_options(lockstep_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Newer clang mangles constrained templates otherwise than the gcc that built the libraries.
  target_compile_options(lockstep_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fclang-abi-compat=17 -Wthread-safety>)
endif()

if(LOCKSTEP_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${LOCKSTEP_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
  if(LOCKSTEP_FUZZERS)
    # So that tests/fuzz/bundle can put shared libraries beside the programs.
    set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
    add_link_options(-Wl,--disable-new-dtags)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>)
  endif()
  if(LOCKSTEP_SANITIZE MATCHES "undefined")
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>)
    # Three checks are left out, which took a quarter of the compiler's time in router/engine. Null pointers
    # and overrun objects: AddressSanitizer reports them where they are used. Dynamic types: the check needs a
    # pipe, and without one it calls every object broken. Tests of too few descriptors leave it none.
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize=null,object-size,vptr>)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(lockstep_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
    target_compile_options(lockstep_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=tsan>)
  endif()
  if(LOCKSTEP_SANITIZE MATCHES "thread")
    target_compile_definitions(lockstep_flags INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

# lockstep_library(NAME SOURCES ... DEPS ... [SEPARATE]): DEPS are public. Without SOURCES: headers only.
# SEPARATE keeps a unity build (CMakePresets.json) from joining the sources: for code of CUDA.
function(lockstep_library name)
  cmake_parse_arguments(ARG "SEPARATE" "" "SOURCES;DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    if(ARG_SEPARATE)
      set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
    endif()
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE lockstep_flags)
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
  endif()
endfunction()

# lockstep_program(NAME SOURCES ... DEPS ...): an executable in build/<preset>/bin, which `cmake --install`
# installs unless it is below bench/ or tests/. Installed programs look for libraries in ../lib first,
# and so do those libraries: DT_RPATH, unlike DT_RUNPATH, is inherited.
function(lockstep_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} lockstep_flags)
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE folder)
  if(NOT folder MATCHES "^(bench|tests)/")
    install(TARGETS ${name} RUNTIME_DEPENDENCY_SET lockstep_runtime RUNTIME DESTINATION bin COMPONENT programs)
  endif()
endfunction()

# lockstep_caged_program(NAME FOLDER ... SOURCES ...): a program in Python, with the sources of common/caged/, in one
# archive in build/<preset>/bin. Python runs it as it is; nothing is compiled.
function(lockstep_caged_program name)
  cmake_parse_arguments(ARG "" "FOLDER" "SOURCES" ${ARGN})
  set(program ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name})
  set(parts ${CMAKE_CURRENT_BINARY_DIR}/${name}.parts)
  set(shared cage.py caged_main.py connection.py)
  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FOLDER}/ OUTPUT_VARIABLE paths)
  list(TRANSFORM shared PREPEND ${CMAKE_SOURCE_DIR}/common/caged/ OUTPUT_VARIABLE shared_paths)
  file(MAKE_DIRECTORY ${parts})
  add_custom_command(
    OUTPUT ${program}
    COMMAND ${CMAKE_COMMAND} -E copy ${paths} ${shared_paths} ${parts}
    COMMAND ${CMAKE_COMMAND} -E chdir ${parts} ${CMAKE_COMMAND} -E tar cf ${program} --format=zip ${ARG_SOURCES} ${shared}
    DEPENDS ${paths} ${shared_paths}
    COMMENT "Packing ${name}"
    VERBATIM)
  add_custom_target(${name} ALL DEPENDS ${program})
  install(FILES ${program} DESTINATION bin COMPONENT programs)
endfunction()

# lockstep_install_runtime(): `cmake --install` also copies the shared libraries that the programs need,
# so that the result runs on another machine. Left out: the C library, which belongs to the system, and
# CUDA's, which belong to its toolkit and driver.
function(lockstep_install_runtime)
  install(RUNTIME_DEPENDENCY_SET lockstep_runtime
    PRE_EXCLUDE_REGEXES "^libcuda" "^libcublas" "^libnccl" "^libnvrtc"
    POST_EXCLUDE_REGEXES "/ld-linux[^/]*$" "/lib(c|m|dl|pthread|rt|resolv)\\.so[^/]*$"
    LIBRARY DESTINATION lib COMPONENT libraries)
endfunction()

# lockstep_test(NAME SOURCES ... DEPS ... [LABELS ...] [TIMEOUT seconds]): a GoogleTest binary and one
# ctest entry. LABELS: gpu, integration, model (needs the SmolLM2 file), llguidance (needs that package), clients
# (tests/clients). TIMEOUT: 300 when absent; four times that under a sanitizer.
# VARIANTS v ...: an entry NAME_v for each instead, which runs the tests whose names end with "/v".
function(lockstep_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS;VARIANTS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(LOCKSTEP_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main lockstep_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(entries ${name})
  if(ARG_VARIANTS)
    set(entries)
    foreach(variant IN LISTS ARG_VARIANTS)
      add_test(NAME ${name}_${variant} COMMAND ${name} --gtest_filter=*/${variant}
               WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      list(APPEND entries ${name}_${variant})
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  endif()
  # Where the machine lacks what a test needs, ctest says "Skipped", never "Passed".
  set_tests_properties(${entries} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if("gpu" IN_LIST ARG_LABELS)
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
    set_tests_properties(${entries} PROPERTIES
      SKIP_REGULAR_EXPRESSION "no CUDA device: skipped;no model file: skipped;fewer GPUs than ranks: skipped")
  elseif("llguidance" IN_LIST ARG_LABELS)
    set_tests_properties(${entries} PROPERTIES SKIP_REGULAR_EXPRESSION "no llguidance: skipped")
  elseif(ARG_VARIANTS)
    set_tests_properties(${entries} PROPERTIES SKIP_REGULAR_EXPRESSION ": skipped")
  endif()
endfunction()

# lockstep_fuzzer(NAME SOURCES ... DEPS ... CORPUS folder): one LLVMFuzzerTestOneInput. With
# LOCKSTEP_FUZZERS it is a libFuzzer program of the target `fuzzers`, which tests/fuzz/run starts;
# otherwise ctest replays the seed corpus through it.
function(lockstep_fuzzer name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;DEPS" ${ARGN})
  if(LOCKSTEP_FUZZERS)
    add_executable(${name} ${ARG_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    file(WRITE ${CMAKE_BINARY_DIR}/fuzz/${name}.corpus "${ARG_CORPUS}\n")
    if(NOT TARGET fuzzers)
      add_custom_target(fuzzers)
    endif()
    add_dependencies(fuzzers ${name})
  else()
    add_executable(${name} ${ARG_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    add_test(NAME ${name}_corpus COMMAND ${name} ${ARG_CORPUS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} lockstep_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()
