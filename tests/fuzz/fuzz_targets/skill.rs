//! Bytes from the fuzzer to `rind_tests::fuzz::skill`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rind_tests::fuzz::skill(data));
