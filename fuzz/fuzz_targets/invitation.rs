#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fairspan_fuzz::invitation(data));
