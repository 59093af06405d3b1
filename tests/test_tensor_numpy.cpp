// numpy reads every file we write and we read every file numpy writes, bit for bit. Needs Debian's python3-numpy; says
// so and passes where it is absent.
#include <catch2/catch.hpp>
#include <cstring>

#include "src/files/tensor_reader.h"
#include "src/files/tensor_writer.h"
#include "tests/support/support.h"

using fp4::Dtype;
using fp4::test::run_shell;
using fp4::test::TemporaryFolder;
using fp4::test::write_text;

namespace {

// The system's Python: another one in front of it on PATH seldom has numpy.
constexpr const char* kPython = "/usr/bin/python3";

bool have_numpy() {
  if (run_shell(std::string(kPython) + " -c 'import numpy'").exit_code == 0) return true;
  WARN("skipped: " << kPython << " has no numpy (Debian package python3-numpy)");
  return false;
}

void run_python(const TemporaryFolder& folder, const std::string& script) {
  write_text(folder / "script.py", "import sys, numpy as np\nd = sys.argv[1] + '/'\n" + script);
  const auto result =
      run_shell(std::string(kPython) + " '" + folder / "script.py" + "' '" + folder.path().string() + "'");
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
}

// Bits of element i of the pattern that both sides make: a multiplicative hash, so that all bytes differ.
std::uint64_t pattern(std::uint64_t i) { return (i + 1) * 0x9e3779b97f4a7c15u; }

constexpr const char* kPythonPattern =
    "def bits(n, width):\n"
    "    x = (np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15))\n"
    "    return x.astype('<u%d' % width)\n";

template <class Word>
std::vector<Word> words(std::size_t count) {
  std::vector<Word> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<Word>(pattern(i));
  return result;
}

std::vector<unsigned char> pattern_bytes(std::size_t count, unsigned width) {
  std::vector<unsigned char> bytes;
  for (std::size_t i = 0; i < count; ++i)
    for (unsigned b = 0; b < width; ++b) bytes.push_back(static_cast<unsigned char>(pattern(i) >> (8 * b)));
  return bytes;
}

constexpr const char* kTypes[] = {"f8", "f4", "f2", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "c8"};

}  // namespace

TEST_CASE("arrays written by numpy are read bit for bit", "[cli]") {
  if (!have_numpy()) return;
  const TemporaryFolder folder;
  run_python(folder, std::string(kPythonPattern) + R"(
all = {}
for t in 'f8 f4 f2 u1 i1 u2 i2 u4 i4 u8 i8 c8'.split():
    w = np.dtype(t).itemsize
    a = bits(60, w).view('<' + t).reshape(3, 4, 5)
    np.save(d + t + '_c.npy', a)
    np.save(d + t + '_f.npy', np.asfortranarray(a))
    np.save(d + t + '_b.npy', a.astype('>' + t) if w == 1 else a.byteswap().view('>' + t))
    for v in (1, 2, 3):
        with open(d + '%s_v%d.npy' % (t, v), 'wb') as f:
            np.lib.format.write_array(f, a, version=(v, 0))
    all[t] = a
    all[t + '_f'] = np.asfortranarray(a)
np.savez(d + 'stored.npz', **all)
np.savez_compressed(d + 'deflated.npz', **all)
np.save(d + 'scalar.npy', np.float32(2.5))
np.savez(d + 'empty.npz', a=np.zeros((0, 7), 'f4'), flags=np.array([True, False]))
)");
  for (const std::string type : kTypes) {
    const unsigned width = type == "c8" ? 8u : static_cast<unsigned>(type[1] - '0');
    const std::vector<unsigned char> expected = pattern_bytes(60, width);
    for (const std::string file : {"_c.npy", "_f.npy", "_b.npy", "_v1.npy", "_v2.npy", "_v3.npy"}) {
      INFO(type + file);
      const fp4::RawTensor tensor = fp4::load_raw(folder / (type + file));
      CHECK(tensor.shape == fp4::Shape{3, 4, 5});
      CHECK(tensor.bytes == expected);
    }
    for (const std::string file : {"stored.npz:", "deflated.npz:"}) {
      CHECK(fp4::load_raw(folder / (file + type)).bytes == expected);
      CHECK(fp4::load_raw(folder / (file + type + "_f")).bytes == expected);
    }
  }
  CHECK(fp4::load_floats(folder / "scalar.npy").values == std::vector<float>{2.5f});
  CHECK(fp4::load_floats(folder / "empty.npz:a").shape == fp4::Shape{0, 7});
  CHECK(fp4::load_floats(folder / "empty.npz:flags").values == std::vector<float>{1, 0});
}

TEST_CASE("words of a .npy's type mean what numpy takes them for", "[cli]") {
  if (!have_numpy()) return;
  const TemporaryFolder folder;
  run_python(folder, std::string(kPythonPattern) + R"(
words = [o + t for o in ('', '<', '>', '|', '=') for t in 'f8 f4 f2 u1 i1 u2 i2 u4 i4 u8 i8 b1 f d e ? b B h H i I l L q Q'.split()]
words += 'float64 float32 float16 half single double float uint8 int8 uint16 int16 uint32 int32 uint64 int64 bool bool_'.split()
data = bytes([1, 0] * 16)
for i, word in enumerate(words):
    t = np.dtype(word)
    text = repr({'descr': word, 'fortran_order': False, 'shape': (32 // t.itemsize,)}).encode() + b'\n'
    with open(d + '%d.npy' % i, 'wb') as f:
        f.write(b'\x93NUMPY\x01\x00' + len(text).to_bytes(2, 'little') + text + data)
    with np.errstate(all='ignore'):
        np.save(d + '%d_want.npy' % i, np.load(d + '%d.npy' % i).astype('f4'))
)");
  int count = 0;
  for (; std::filesystem::exists(folder / (std::to_string(count) + ".npy")); ++count) {
    INFO(count);
    const auto got = fp4::load_floats(folder / (std::to_string(count) + ".npy")).values;
    CHECK(got == fp4::load_floats(folder / (std::to_string(count) + "_want.npy")).values);
  }
  CHECK(count == 5 * 26 + 17);
}

TEST_CASE("conversions to float32 equal numpy's", "[cli]") {
  if (!have_numpy()) return;
  const TemporaryFolder folder;
  run_python(folder, std::string(kPythonPattern) + R"(
np.seterr(all='ignore')
for t in 'f8 f4 f2 u1 i1 u2 i2 u4 i4 u8 i8'.split():
    a = bits(50000, np.dtype(t).itemsize).view('<' + t)
    a = a[~np.isnan(a)] if t[0] == 'f' else a
    np.save(d + t + '.npy', a)
    np.save(d + t + '_want.npy', a.astype('f4'))
# Patterns hit the float32 range rarely: midpoints and their neighbours in it.
f = bits(50000, 4).view('<f4')
f = f[np.isfinite(f)].astype('f8')
m = (f + np.nextafter(f.astype('f4'), np.float32(0)).astype('f8')) / 2
m = np.concatenate([m, np.nextafter(m, 0), np.nextafter(m, np.inf)])
np.save(d + 'm.npy', m)
np.save(d + 'm_want.npy', m.astype('f4'))
)");
  for (const std::string type : {"f8", "f4", "f2", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "m"}) {
    INFO(type);
    const auto got = fp4::load_floats(folder / (type + ".npy")).values,
               want = fp4::load_floats(folder / (type + "_want.npy")).values;
    REQUIRE(got.size() > 40000);
    REQUIRE(got.size() == want.size());
    CHECK(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("numpy and its zip reader take what we write", "[cli]") {
  if (!have_numpy()) return;
  const TemporaryFolder folder;
  const std::vector<std::pair<Dtype, std::string>> types = {
      {Dtype::f64, "f8"},     {Dtype::f32, "f4"}, {Dtype::f16, "f2"}, {Dtype::bf16, "u2"},
      {Dtype::f8_e4m3, "u1"}, {Dtype::u8, "u1"},  {Dtype::i8, "i1"},  {Dtype::u16, "u2"},
      {Dtype::i16, "i2"},     {Dtype::u32, "u4"}, {Dtype::i32, "i4"}, {Dtype::i64, "i8"}};
  fp4::NpzWriter stored(folder / "stored.npz", fp4::Compression::stored),
      deflated(folder / "deflated.npz", fp4::Compression::deflated);
  std::string names;
  for (const auto& [dtype, numpy] : types) {
    const std::string name = fp4::info(dtype).name;
    const std::vector<unsigned char> bytes = pattern_bytes(60, fp4::info(dtype).bits / 8);
    fp4::save_tensor(folder / (name + ".npy"), dtype, {3, 4, 5}, bytes.data());
    for (fp4::NpzWriter* writer : {&stored, &deflated}) {
      writer->begin(name, dtype, {3, 4, 5});
      writer->write(bytes.data(), bytes.size());
    }
    names += name + ":" + numpy + " ";
  }
  stored.commit();
  deflated.commit();
  const std::vector<float> weights = words<float>(6);
  fp4::save_tensor(folder / "m.safetensors", Dtype::f32, {2, 3}, weights.data());
  run_python(folder, std::string(kPythonPattern) + "names = '" + names + R"('.split()
import zipfile, json, struct
archives = [np.load(d + 'stored.npz'), np.load(d + 'deflated.npz')]
for item in names:
    name, t = item.split(':')
    want = bits(60, np.dtype(t).itemsize).tobytes()
    for a in [np.load(d + name + '.npy')] + [z[name] for z in archives]:
        assert a.shape == (3, 4, 5) and a.dtype == np.dtype('<' + t), (name, a.dtype)
        assert a.tobytes() == want, name
    a = bits(60, np.dtype(t).itemsize).view('<' + t).reshape(3, 4, 5)
    np.save(d + 'numpy.npy', a)
    assert open(d + 'numpy.npy', 'rb').read() == open(d + name + '.npy', 'rb').read(), name
for f in ('stored.npz', 'deflated.npz'):
    assert zipfile.ZipFile(d + f).testzip() is None
raw = open(d + 'm.safetensors', 'rb').read()
n = struct.unpack('<Q', raw[:8])[0]
entry = json.loads(raw[8:8 + n])['tensor']
assert entry == {'dtype': 'F32', 'shape': [2, 3], 'data_offsets': [0, 24]}, entry
assert np.array_equal(np.frombuffer(raw[8 + n:], '<f4'), (np.arange(1, 7, dtype='u8') * np.uint64(0x9e3779b97f4a7c15)).astype('f4'))
)");
}
