# Finds the libraries that this project uses; versions.txt beside this file has
# their pinned versions and licences, and the script `dev` installs them.
# Everything is SYSTEM: their headers give no warnings here.

# Where ./dev puts ONNX; the presets say so too, a build of the wheel does not.
list(APPEND CMAKE_PREFIX_PATH ${PROJECT_SOURCE_DIR}/build/deps/onnx)

find_package(Threads REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(absl REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(ONNX 1.23 CONFIG REQUIRED)
find_package(CLI11 2.1 CONFIG REQUIRED)
find_package(nlohmann_json 3.11 CONFIG REQUIRED)
find_package(Eigen3 3.4 CONFIG REQUIRED)
if(ONNX_MEMOPT_TESTS)
  find_package(GTest REQUIRED)
endif()
if(ONNX_MEMOPT_BENCH)
  find_package(benchmark REQUIRED)
endif()

# LLVM's ADT and Support alone. Debian's LLVMConfig.cmake asks for the
# development packages of everything LLVM can be linked to, so this target names
# the two archives itself.
set(ONNX_MEMOPT_LLVM_DIR /usr/lib/llvm-19 CACHE PATH "An LLVM 19 installation")
find_library(LLVM_SUPPORT_LIBRARY LLVMSupport NO_DEFAULT_PATH
             PATHS ${ONNX_MEMOPT_LLVM_DIR}/lib REQUIRED)
find_library(LLVM_DEMANGLE_LIBRARY LLVMDemangle NO_DEFAULT_PATH
             PATHS ${ONNX_MEMOPT_LLVM_DIR}/lib REQUIRED)
add_library(llvm_adt INTERFACE)
target_include_directories(llvm_adt SYSTEM INTERFACE
                           ${ONNX_MEMOPT_LLVM_DIR}/include)
target_link_libraries(llvm_adt INTERFACE ${LLVM_SUPPORT_LIBRARY}
                      ${LLVM_DEMANGLE_LIBRARY} Threads::Threads)
