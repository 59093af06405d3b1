// What numpy can read without a copy goes through numpy; everything else that can be read without a copy, by DLPack.
#include "tools/python/arrays.h"

#include "src/error.h"
#include "tools/python/dlpack.h"

namespace fp4::python {
namespace {

py::module_ numpy() { return py::module_::import("numpy"); }

// numpy's type of a DLPack element; bfloat16, which numpy lacks, as uint16.
std::string numpy_type(const DlTensor& t, const std::string& name) {
  static const char* const kinds[] = {"int", "uint", "float", "", "uint", "", "bool"};
  const std::string kind = t.type_code < std::size(kinds) ? kinds[t.type_code] : "";
  if (kind.empty() || t.type_lanes != 1 || t.type_bits % 8 != 0)
    throw Error(name + ": its DLPack type " + std::to_string(t.type_code) + " of " + std::to_string(t.type_bits) +
                " bits is none that can be read; accepted: float32, float16, bfloat16, float64, integers");
  return kind == "bool" ? kind : kind + std::to_string(t.type_bits);
}

Held from_dlpack(const py::object& x, const std::string& name) {
  if (py::hasattr(x, "__dlpack_device__")) {
    const int device = x.attr("__dlpack_device__")().cast<py::tuple>()[0].cast<int>();
    if (!is_host_memory(device))
      throw Error(name + ": lies in the memory of device type " + std::to_string(device) +
                  "; accepted: memory of the host (x.cpu())");
  }
  py::capsule capsule = x.attr("__dlpack__")();
  auto* managed = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) throw py::error_already_set();
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  const py::capsule owner(managed, [](void* p) {
    auto* m = static_cast<DlManagedTensor*>(p);
    if (m->deleter != nullptr) m->deleter(m);
  });
  const DlTensor& t = managed->tensor;
  const py::ssize_t bytes = t.type_bits / 8;
  const std::vector<py::ssize_t> shape(t.shape, t.shape + t.ndim);
  std::vector<py::ssize_t> strides(shape.size(), bytes);
  for (size_t i = shape.size(); i-- > 0;) {
    if (t.strides != nullptr)
      strides[i] = t.strides[i] * bytes;
    else if (i + 1 < shape.size())
      strides[i] = strides[i + 1] * shape[i + 1];
  }
  const char* data = static_cast<const char*>(t.data) + t.byte_offset;
  return {py::array(py::dtype(numpy_type(t, name)), shape, strides, data, owner), t.type_code == 4};
}

// Whether the core can walk through it: no step backwards or in place, no element off its alignment.
bool is_walkable(const py::array& a) {
  if (reinterpret_cast<uintptr_t>(a.data()) % sizeof(float) != 0) return false;
  for (py::ssize_t i = 0; i < a.ndim(); ++i)
    if (a.shape(i) > 1 && (a.strides(i) <= 0 || a.strides(i) % static_cast<py::ssize_t>(sizeof(float)) != 0))
      return false;
  // The leading axes have to be one axis of rows.
  py::ssize_t step = 0, rows = 1;
  for (py::ssize_t i = a.ndim() - 2; i >= 0; --i) {
    if (a.shape(i) == 1) continue;
    if (rows > 1 && a.strides(i) != step * rows) return false;
    if (rows == 1) step = a.strides(i);
    rows *= a.shape(i);
  }
  return true;
}

py::array as_floats(const Held& held, const std::string& name) {
  const std::string kind(1, held.array.dtype().kind());
  if (held.is_bfloat16)
    return numpy().attr("left_shift")(held.array.attr("astype")("uint32"), 16).attr("view")("float32");
  const bool is_ml_dtype =
      kind == "V" && held.array.dtype().attr("type").attr("__module__").cast<std::string>() == "ml_dtypes";
  if (!is_ml_dtype && kind.find_first_of("fiub") == std::string::npos)
    throw Error(name + ": " + py::str(held.array.dtype()).cast<std::string>() +
                " is no type of real numbers; accepted: float32, float16, bfloat16, float64, integers");
  return held.array.attr("astype")("float32", py::arg("copy") = false);
}

}  // namespace

Operand Operand::transposed() const {
  return {owner, view.transposed(), {static_cast<uint64_t>(view.cols), static_cast<uint64_t>(view.rows)}};
}

Held held_array(const py::handle& x, const std::string& name) {
  if (x.is_none()) throw Error(name + ": None is no array");
  if (!py::isinstance<py::array>(x) && py::hasattr(x, "__dlpack__")) {
    try {
      return from_dlpack(py::reinterpret_borrow<py::object>(x), name);
    } catch (const py::error_already_set& problem) {  // a tensor that requires a gradient, for one
      throw Error(name + ": cannot be read by DLPack: " + py::str(problem.value()).cast<std::string>());
    }
  }
  py::array array = py::array::ensure(x);
  if (!array) throw Error(name + ": " + std::string(Py_TYPE(x.ptr())->tp_name) + " is no array");
  // ml_dtypes adds the type to numpy; its bits are what counts.
  if (array.dtype().attr("name").cast<std::string>() == "bfloat16") return {array.attr("view")("uint16"), true};
  return {array, false};
}

Operand operand_of(const py::handle& x, const std::string& name) {
  py::array a = as_floats(held_array(x, name), name);
  Shape shape;
  for (py::ssize_t i = 0; i < a.ndim(); ++i) shape.push_back(static_cast<uint64_t>(a.shape(i)));
  element_count(name, shape);
  if (!is_walkable(a)) a = a.attr("copy")("C");
  Operand out = {a, {}, shape};
  out.view = view_of(static_cast<const float*>(a.data()), static_cast<int64_t>(matrix_rows(shape)),
                     static_cast<int64_t>(matrix_cols(shape)));
  constexpr auto size = static_cast<py::ssize_t>(sizeof(float));
  if (a.ndim() > 0 && a.shape(a.ndim() - 1) > 1) out.view.col_stride = a.strides(a.ndim() - 1) / size;
  for (py::ssize_t i = 0; i + 1 < a.ndim(); ++i)
    if (a.shape(i) > 1) out.view.row_stride = a.strides(i) / size;  // of the fastest of them
  return out;
}

py::array_t<float> new_floats(const Shape& shape) {
  return py::array_t<float>(std::vector<py::ssize_t>(shape.begin(), shape.end()));
}

py::array view_array(const Dtype dtype, const Shape& shape, const void* data, const py::handle& owner) {
  py::array out(py::dtype(info(dtype).numpy_name), std::vector<py::ssize_t>(shape.begin(), shape.end()), data, owner);
  py::detail::array_proxy(out.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return out;
}

py::capsule to_dlpack(const py::array& array) {
  struct Exported {
    DlManagedTensor managed;
    std::vector<int64_t> shape, strides;
    PyObject* owner;
  };
  const auto size = array.itemsize();
  auto* e = new Exported{{}, {}, {}, array.inc_ref().ptr()};
  e->shape.assign(array.shape(), array.shape() + array.ndim());
  for (py::ssize_t i = 0; i < array.ndim(); ++i) e->strides.push_back(array.strides(i) / size);
  const uint8_t code = array.dtype().kind() == 'f' ? 2 : 1;
  e->managed.tensor = {const_cast<void*>(array.data()),
                       1,  // the host
                       0,
                       static_cast<int32_t>(array.ndim()),
                       code,
                       static_cast<uint8_t>(8 * size),
                       1,
                       e->shape.data(),
                       e->strides.data(),
                       0};
  e->managed.context = e;
  e->managed.deleter = [](DlManagedTensor* m) {
    const py::gil_scoped_acquire locked;
    auto* exported = static_cast<Exported*>(m->context);
    Py_DECREF(exported->owner);
    delete exported;
  };
  // A consumer renames the capsule and calls the deleter itself.
  PyObject* capsule = PyCapsule_New(&e->managed, "dltensor", [](PyObject* c) {
    if (PyCapsule_IsValid(c, "dltensor") == 0) return;
    auto* m = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(c, "dltensor"));
    m->deleter(m);
  });
  if (capsule == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::capsule>(capsule);
}

py::array_t<uint8_t> byte_array(const std::vector<uint8_t>& bytes) {
  return py::array_t<uint8_t>(static_cast<py::ssize_t>(bytes.size()), bytes.data());
}

}  // namespace fp4::python
