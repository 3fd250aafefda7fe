lockstep_cuda_library(lockstep_kernels_slots_cuda
  SOURCES ${CMAKE_SOURCE_DIR}/kernels/slots/slot_state_cuda.cu)
