// What `cmake --install` gives: a program that runs, a package that another project builds against, man page,
// completion.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "sweeps/carried_files.h"
#include "tests/support/support.h"

using fp4::test::run_shell;

TEST_CASE("another project builds against the installed package", "[cli]") {
  const char* build = std::getenv("FP4SIM_BUILD");
  const std::string build_folder = build != nullptr ? build : "build";
  const fp4::test::TemporaryFolder folder;
  const std::string prefix = folder / "prefix";
  // As after a build of the program alone (tools/demo.sh): what is missing is built.
  std::filesystem::remove(std::filesystem::path(build_folder) / "share/fp4sim.1");
  const auto install = run_shell("cmake --install '" + build_folder + "' --prefix '" + prefix + "'");
  INFO(install.err);
  REQUIRE(install.exit_code == 0);
  const auto consumer =
      run_shell("cmake -S tests/consumer -B '" + folder / "build" + "' -DCMAKE_PREFIX_PATH='" + prefix +
                "' && cmake --build '" + folder / "build" + "' && '" + folder / "build/consumer" + "'");
  INFO(consumer.out + consumer.err);
  REQUIRE(consumer.exit_code == 0);
  CHECK_THAT(consumer.out, Catch::EndsWith("\n2 1\n"));  // the tie 1.25 goes to the even code

  // The C library, by CMake and by pkg-config. Products added by hand: row 0 is 1 2 3 4 .., column 0 is -6 4 -2 6 ..
  const std::string products =
      "16 bytes of codes a row, 1 scale a row\n66 -> 0x4304\n74 -> 0x4314\n52 -> 0x42CE\n33 -> 0x4285\n"
      "37 -> 0x4294\n26 -> 0x424C\n";
  CHECK(run_shell("'" + folder / "build/library" + "'").out == products);
  const auto by_name =
      run_shell("PKG_CONFIG_PATH=$(dirname $(find '" + prefix + "' -name fp4sim.pc)); export PKG_CONFIG_PATH\n" +
                "cc -std=c99 -Wall -Wextra -Werror tools/examples/library.c -o '" + folder / "library" +
                "' $(pkg-config --cflags --libs fp4sim) && LD_LIBRARY_PATH=$(pkg-config --variable=libdir fp4sim) '" +
                folder / "library" + "' '" + folder / "build" + "'");
  INFO(by_name.err);
  // 1 2 3 4 times powers of two are exact in both; 4 bits and a byte of scale for 32 elements.
  CHECK(by_name.out == products +
                           "64 elements, 4.25 bits each, NMSE 0\na.npy mxfp4: NMSE 0, best\na.npy mxfp8: NMSE 0\n"
                           "a.npy: f32, 2 x 32\n");
  // Structures grow from one minor version to the next: a program gets the library that it was compiled for, or none.
  const std::string version = run_shell("'" + fp4::test::fp4sim_path() + "' --version").out;
  const size_t first = version.find(' ') + 1, second = version.find('.', version.find('.') + 1);
  CHECK(run_shell("objdump -p '" + folder / "library" + "' | sed -n 's/ *NEEDED *\\(libfp4sim\\)/\\1/p'").out ==
        "libfp4sim.so." + version.substr(first, second - first) + "\n");
  const auto symbols = run_shell("nm -D --defined-only $(find '" + prefix + "' -name libfp4sim.so)");
  CHECK_THAT(symbols.out,
             Catch::Contains("fp4sim_gemm@@FP4SIM_0.1") && Catch::Contains("fp4sim_gemm_codes@@FP4SIM_0.2"));
  for (const char* name : {"quantize", "dequantize", "compare", "inspect"})
    CHECK_THAT(symbols.out, Catch::Contains("fp4sim_" + std::string(name) + "_file@@FP4SIM_0.2"));
  CHECK_THAT(symbols.out, !Catch::Contains("_ZN3fp4"));
  CHECK(run_shell("'" + prefix + "/bin/fp4sim' version").exit_code == 0);
  for (const char* file : {"share/man/man1/fp4sim.1", "share/bash-completion/completions/fp4sim",
                           "share/zsh/site-functions/_fp4sim", "share/fish/vendor_completions.d/fp4sim.fish"}) {
    INFO(file);
    REQUIRE(std::filesystem::exists(prefix + "/" + file));
    CHECK(std::filesystem::file_size(prefix + "/" + file) > 200);
  }
}

TEST_CASE("the Debian package holds the installed files and names its libraries", "[cli]") {
  if (run_shell("command -v dpkg-shlibdeps file dpkg-deb").exit_code != 0) {
    WARN("[test skipped] no dpkg-dev");
    return;
  }
  const char* build = std::getenv("FP4SIM_BUILD");
  const fp4::test::TemporaryFolder folder;
  const auto made =
      run_shell("cpack --config '" + std::string(build != nullptr ? build : "build") + "/CPackConfig.cmake' -B '" +
                folder / "deb" + "' && dpkg-deb -x '" + folder / "deb" + "'/fp4sim_*.deb '" + folder / "root" + "'");
  INFO(made.out << made.err);
  REQUIRE(made.exit_code == 0);
  const auto field = [&](const std::string& name) {
    return run_shell("dpkg-deb -f '" + folder / "deb" + "'/fp4sim_*.deb " + name).out;
  };
  CHECK_THAT(field("Depends"), Catch::Contains("libsqlite3-0") && Catch::Contains("libc6"));
  CHECK_THAT(run_shell("'" + fp4::test::fp4sim_path() + "' --version").out, Catch::Contains(field("Version")));
  CHECK(run_shell("'" + folder / "root" + "/usr/bin/fp4sim' version").exit_code == 0);
  // What Debian's policy asks for (12.1, 12.5, 12.7, 8.1.1).
  const std::string share = folder / "root/usr/share/", control = folder / "control";
  CHECK_THAT(run_shell("zcat '" + share + "man/man1/fp4sim.1.gz'").out, Catch::Contains("fp4sim"));
  CHECK_THAT(fp4::test::read_text(share + "doc/fp4sim/copyright"), Catch::Contains("common-licenses/Apache-2.0"));
  const std::string changes = run_shell("zcat '" + share + "doc/fp4sim/changelog.gz'").out;
  CHECK(changes.starts_with("fp4sim (" + field("Version").substr(0, field("Version").find('\n')) + ") unstable;"));
  CHECK_THAT(changes, Catch::Contains("\n -- " + field("Maintainer").substr(0, field("Maintainer").find('\n')) + "  "));
  CHECK(run_shell("dpkg-deb -e '" + folder / "deb" + "'/fp4sim_*.deb '" + control + "'").exit_code == 0);
  CHECK(fp4::test::read_text(control + "/triggers") == "activate-noawait ldconfig\n");
  const std::string notices = fp4::test::read_text(folder / "root/usr/share/doc/fp4sim/THIRD_PARTY_NOTICES.txt");
  CHECK(notices == fp4::notices_data().front().content);
  // What is compiled in from headers, and the chart library with its parts; other libraries are packages of their own.
  std::vector<std::pair<std::string, std::string>> parts = {
      {"libcli11-dev/copyright", "Redistribution and use"},
      {"nlohmann-json3-dev/copyright", "Permission is hereby granted"},
      {"libeigen3-dev/copyright", "Mozilla Public License"}};
  if (!fp4::chart_library_data().empty())
    parts.insert(parts.end(), {{"echarts/NOTICE", "The Apache Software Foundation"},
                               {"echarts/LICENSE", "Apache License"},
                               {"echarts/licenses/LICENSE-d3", "Redistribution and use"},
                               {"zrender/LICENSE", "BSD 3-Clause License"},
                               {"tslib/LICENSE.txt", "Permission to use"},
                               {"tslib/CopyrightNotice.txt", "Microsoft Corporation"}});
  for (const auto& [name, words] : parts) {
    INFO(name);
    const size_t at = notices.find("======== " + name + " ========\n");
    REQUIRE(at != std::string::npos);
    CHECK_THAT(notices.substr(at, notices.find("\n======== ", at) - at), Catch::Contains(words));
  }
  const auto flags = run_shell("PKG_CONFIG_PATH=$(dirname $(find '" + folder / "root" +
                               "' -name fp4sim.pc)) pkg-config --variable=prefix fp4sim");
  CHECK(std::filesystem::exists(flags.out.substr(0, flags.out.find('\n')) + "/include/fp4sim.h"));
}

TEST_CASE("completion of bash offers commands, options and closed sets of words", "[cli]") {
  const auto offers = [](const std::string& words) {
    return run_shell("PATH=$(dirname '" + fp4::test::fp4sim_path() + "'):$PATH\nexport PATH\n" +
                     "bash -c 'source <(fp4sim completion bash); COMP_WORDS=(" + words +
                     "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _fp4sim_words; echo ${COMPREPLY[*]}'")
        .out;
  };
  CHECK_THAT(offers("fp4sim \"\""), Catch::Contains("completion") && Catch::Contains("version"));
  CHECK(offers("fp4sim vers") == "version\n");
  CHECK(offers("fp4sim version --j") == "--json\n");
  CHECK(offers("fp4sim completion z") == "zsh\n");
}
