//! Documents as a main document and its extras: read, checked and mended.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mongo_patterns_outlier::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::stored(input));
