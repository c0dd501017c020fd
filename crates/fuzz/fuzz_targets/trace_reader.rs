#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::trace_reader::check(data));
