extern "C" int fp4sim_main(int argc, char** argv);  // tools/main.cpp

int main(int argc, char** argv) { return fp4sim_main(argc, argv); }
