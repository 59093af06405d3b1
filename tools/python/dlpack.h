// DLPack, the part that every producer has given since version 0.2. Source: dmlc/dlpack, include/dlpack/dlpack.h.
#pragma once

#include <cstdint>

namespace fp4::python {

struct DlTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};

struct DlManagedTensor {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManagedTensor*);
};

// Devices whose memory the host reads: its own, and pinned memory of CUDA and ROCm.
constexpr bool is_host_memory(int device_type) { return device_type == 1 || device_type == 3 || device_type == 11; }

}  // namespace fp4::python
