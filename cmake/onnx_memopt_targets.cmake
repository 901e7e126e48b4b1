# How this project declares its targets: one function each for a library, a
# program and a test. A target sees only the headers of the libraries that it
# lists in DEPS, so the layering in docs/design.md is enforced by the compiler:
# each library's public headers are copied, as links, into an include tree of
# its own.

add_library(onnx_memopt_options INTERFACE)
target_compile_options(onnx_memopt_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wno-sign-conversion
  # A designated initializer leaves out what keeps its default.
  -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC 12 finds overruns in its own std::string where there are none.
  target_compile_options(onnx_memopt_options INTERFACE
    -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
endif()
if(ONNX_MEMOPT_WERROR)
  target_compile_options(onnx_memopt_options INTERFACE -Werror)
endif()
if(ONNX_MEMOPT_SANITIZE)
  # RTTI of the prebuilt protobuf and ONNX is not instrumented: no vptr check.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr
                      -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined -fno-sanitize=vptr)
endif()

# Two thirds of the compiler's time would go into reading these again for each
# file. Files include what they use all the same: tools/lint compiles each
# without.
set(ONNX_MEMOPT_COMMON_HEADERS
  <algorithm> <array> <cstddef> <cstdint> <functional> <limits> <map> <memory>
  <numeric> <optional> <set> <string> <tuple> <utility> <vector>
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
  <absl/strings/str_split.h> <absl/types/span.h> <llvm/ADT/DenseMap.h>
  <llvm/ADT/DenseSet.h> <llvm/ADT/SmallVector.h>)

# onnx_memopt_precompile(NAME KIND HEADERS... DEPS...) makes the target that owns
# precompiled headers for libraries (KIND: STATIC) or for tests (EXECUTABLE,
# which are compiled with other flags).
function(onnx_memopt_precompile name kind)
  cmake_parse_arguments(arg "" "" "HEADERS;DEPS" ${ARGN})
  if(NOT ONNX_MEMOPT_PRECOMPILE)
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/${name}.cc)
  if(kind STREQUAL EXECUTABLE)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
    add_executable(${name} ${source})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                          ${PROJECT_BINARY_DIR}/test)
  else()
    file(CONFIGURE OUTPUT ${source} CONTENT "")
    add_library(${name} ${kind} ${source})
  endif()
  target_link_libraries(${name} PRIVATE ${arg_DEPS} onnx_memopt_options)
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# onnx_memopt_use_precompiled(TARGET NAME)
function(onnx_memopt_use_precompiled target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# onnx_memopt_library(NAME SOURCES ... DEPS ... [PRIVATE_DEPS ...] [HEADERS ...])
# NAME is the folder in lib/ and in include/onnx_memopt/. HEADERS are headers of
# the public API, directly in include/onnx_memopt/.
function(onnx_memopt_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE_DEPS;HEADERS" ${ARGN})
  set(tree ${PROJECT_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${tree}/onnx_memopt)
  if(EXISTS ${PROJECT_SOURCE_DIR}/include/onnx_memopt/${name})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/onnx_memopt/${name}
         ${tree}/onnx_memopt/${name} SYMBOLIC)
  endif()
  foreach(header IN LISTS arg_HEADERS)
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/onnx_memopt/${header}
         ${tree}/onnx_memopt/${header} SYMBOLIC)
  endforeach()
  add_library(memopt_${name} STATIC ${arg_SOURCES})
  target_include_directories(memopt_${name} PUBLIC $<BUILD_INTERFACE:${tree}>)
  # Headers beside the sources are private to the library.
  target_include_directories(memopt_${name} PRIVATE ${PROJECT_SOURCE_DIR}/lib)
  target_link_libraries(memopt_${name} PUBLIC ${arg_DEPS}
                        PRIVATE ${arg_PRIVATE_DEPS}
                        $<BUILD_INTERFACE:onnx_memopt_options>)
  onnx_memopt_use_precompiled(memopt_${name} memopt_precompiled)
endfunction()

# onnx_memopt_program(NAME SOURCES ... DEPS ...)
function(onnx_memopt_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tools)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} onnx_memopt_options)
endfunction()

# onnx_memopt_test(NAME DEPS ...) builds NAME.cc of the calling folder with
# GoogleTest, and registers it with ctest.
function(onnx_memopt_test name)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  add_executable(${name} ${name}.cc)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/test
                             ${PROJECT_SOURCE_DIR}/lib)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock
                        GTest::gtest_main onnx_memopt_options)
  onnx_memopt_use_precompiled(${name} memopt_test_precompiled)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                        ${PROJECT_BINARY_DIR}/test)
  add_test(NAME ${name} COMMAND ${name}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()
