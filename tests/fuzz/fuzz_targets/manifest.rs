//! Bytes from the fuzzer to `rind_tests::fuzz::manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rind_tests::fuzz::manifest(data));
